"""`kullback lint`: static findings about KL calls in users' code; imports neither that code nor torch."""

from kullback.lint.run import lint_paths, lint_source

__all__ = ["lint_paths", "lint_source"]

"""Divergences of distributions by the engine: an integrand of a few lines each; `pairs` calls them."""

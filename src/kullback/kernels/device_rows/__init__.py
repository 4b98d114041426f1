"""Rows on a GPU, by Triton: which calls it serves and how they run."""

"""Divergences of distributions: an integrand of a few lines each."""

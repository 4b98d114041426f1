"""The one engine: expectations of functions of two densities, by graded panels; `divergences` calls it."""

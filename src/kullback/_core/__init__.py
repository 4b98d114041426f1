"""What every room shares: errors, shapes, validation, reductions, progress. Knows no divergence."""

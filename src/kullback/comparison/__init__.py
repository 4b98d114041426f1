"""Compare models, files and tables at scale: readers, the accumulator, and the report that `compare` returns."""

"""Side-by-side timings of kullback, torch and its peers; see `benchmarks/README.md`."""

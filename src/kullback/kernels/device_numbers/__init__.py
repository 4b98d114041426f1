"""Float32 arithmetic for kernels on a GPU."""

"""The public functions: look at what was handed over and pick the room."""

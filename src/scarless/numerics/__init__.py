"""Pure functions on arrays: no checks, no input or output, no randomness."""

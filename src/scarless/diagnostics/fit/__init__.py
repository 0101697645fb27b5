"""One fit with its table: what it says of rows and columns, and whether that can be believed; as numbers."""

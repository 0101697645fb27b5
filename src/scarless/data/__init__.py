"""From tables to checked arrays."""

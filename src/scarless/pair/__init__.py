"""Joint fits of a class model and a propensity model."""

"""What a few checked rows are worth: how many to check, what they say, and whether several looks fit."""

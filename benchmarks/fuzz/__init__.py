"""Hostile calls of every public name: each must give an answer without NaN, or an error that says what to do."""

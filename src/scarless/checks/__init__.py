"""Checks of user input: tables, labels, attributes, vectors and options."""

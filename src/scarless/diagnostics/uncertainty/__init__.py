"""Uncertainty of a fit: bootstrap, identifiability, profile of the class prior, and plot of a search."""

"""Reliability of probabilities and of propensities, from labels alone."""

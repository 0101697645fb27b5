"""Sensitivity of a fit to a wrong propensity."""

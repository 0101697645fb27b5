"""Calibration of predicted probabilities, checked with labels."""

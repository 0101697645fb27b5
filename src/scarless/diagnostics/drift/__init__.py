"""Drift: whether new rows still follow a fitted model."""

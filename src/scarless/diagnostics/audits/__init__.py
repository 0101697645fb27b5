"""Audits: planning, estimation with audits, expected yield, and goodness of fit of several looks."""

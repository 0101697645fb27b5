"""Estimators of the label frequency when labels are selected completely at random."""

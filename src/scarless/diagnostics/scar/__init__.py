"""Tests of SCAR and of the attributes that drive the labelling."""

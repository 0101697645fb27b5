"""How far a fit can be believed: uncertainty, identifiability, tests of SCAR, sensitivity, calibration."""

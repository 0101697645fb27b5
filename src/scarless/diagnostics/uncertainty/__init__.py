"""How sure a fit is of itself: bootstrap, identifiability, profile, the path of a search."""

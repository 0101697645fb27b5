"""Two models fitted together, classifier and propensity: problem, fit, starts, optima, penalties, the recalibrated fit."""

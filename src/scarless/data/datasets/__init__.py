"""Datasets: the paper's eight, fetched and checked, and three that need no download."""

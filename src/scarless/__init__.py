"""Scarless."""

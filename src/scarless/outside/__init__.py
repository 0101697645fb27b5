"""Warnings, progress bars, files, locks, memory and optional packages."""

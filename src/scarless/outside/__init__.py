"""Interaction with the user and the machine: warnings, progress bars, files, locks, memory, optional packages."""

"""What touches the user and the machine: warnings, progress bars, files, locks and memory, optional packages."""

"""What touches the user and the machine: warnings, progress bars, files, optional packages."""

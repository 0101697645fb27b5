"""Pages here are tested by their doctests; Python files belong to the build, which runs them."""

collect_ignore_glob = ["*.py"]

"""Doctests of the room that needs torch are collected where torch is: it is no part of what `make test` installs."""

from importlib.util import find_spec

collect_ignore_glob = ["scarless/engines/kernels.py"]  # are no functions of Python's, and need Triton
if not (find_spec("torch") and find_spec("skorch")):
    collect_ignore_glob.append("scarless/torch/*")

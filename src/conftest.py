"""Doctests of the room that needs torch are collected where torch is: it is no part of what `make test` installs."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") and find_spec("skorch") else ["scarless/torch/*"]

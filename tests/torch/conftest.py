"""Tests of networks need torch and skorch: `make test-torch`."""

import os
from importlib.util import find_spec

import pytest

if find_spec("torch") is None or find_spec("skorch") is None:
    collect_ignore_glob = ["*.py"]
else:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # Triton reads this at import, and runs kernels on the CPU.
    import torch

    @pytest.fixture(autouse=True)
    def one_thread_of_torch():
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

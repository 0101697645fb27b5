"""Tests of networks run where torch and skorch are: `make test-torch`."""

from importlib.util import find_spec

import pytest

if find_spec("torch") is None or find_spec("skorch") is None:
    collect_ignore_glob = ["*.py"]
else:
    import torch

    @pytest.fixture(autouse=True)
    def one_thread_of_torch():
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

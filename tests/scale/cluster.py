"""A Dask cluster of real processes for tests: one scheduler, and workers that come and go."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from distributed import Client

PATIENCE = 60  # seconds after which a process of the cluster is taken for hanging


class Cluster:
    """`dask scheduler` and `dask worker` as they are started on a command line; all of them end with the context."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="scarless-dask-")
        self.file = Path(self.folder.name, "scheduler.json")
        self.processes = []

    def __enter__(self):
        self.scheduler = self._start(
            "dask_scheduler", "--port", "0", "--host", "127.0.0.1", "--dashboard-address", ":0"
        )
        self.wait_for(self.file.exists)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self.processes:
            process.wait(PATIENCE)
        self.folder.cleanup()

    def start_worker(self, *options, nanny="--no-nanny"):
        return self._start(
            "dask_worker",
            "--nthreads",
            "1",
            nanny,
            "--host",
            "127.0.0.1",
            "--local-directory",
            self.folder.name,
            *options,
        )

    def client(self):
        return Client(scheduler_file=str(self.file), set_as_default=False)

    def wait_for(self, true):
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, "the cluster does not come up"
            time.sleep(0.02)

    def _start(self, what, *options):
        command = [
            sys.executable,
            "-m",
            f"distributed.cli.{what}",
            "--scheduler-file",
            str(self.file),
            "--no-dashboard",
        ]
        paths = os.pathsep.join(path for path in sys.path if path)  # functions of tests are found there by name
        environment = {**os.environ, "PYTHONPATH": paths}
        with open(Path(self.folder.name, f"{len(self.processes)}.log"), "w") as log:
            process = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=environment)
        self.processes.append(process)
        return process


def workers_by_process(client):
    """Return the addresses of all workers, by the number of their process."""
    return {pid: address for address, pid in client.run(os.getpid).items()}

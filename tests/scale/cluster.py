"""A Dask cluster of real processes for tests: one scheduler, and workers that come and go."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from distributed import Client, Security

PATIENCE = 60  # seconds after which a process of the cluster is considered to hang


class Cluster:
    """`dask scheduler` and `dask worker` as they are started on a command line; all of them end with the context."""

    def __init__(self, security=None):
        self.security = security
        self.host = "127.0.0.1" if security is None else "tls://127.0.0.1"
        self.folder = tempfile.TemporaryDirectory(prefix="scarless-dask-")
        self.file = Path(self.folder.name, "scheduler.json")
        self.processes = []
        self.workers = []

    def __enter__(self):
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--host", self.host, "--dashboard-address", ":0")
        try:
            self.wait_for(lambda: self.file.exists() or self.scheduler.poll() is not None)
            assert self.scheduler.poll() is None, self.logs()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
        for process in self.processes:
            process.wait(PATIENCE)
        self.folder.cleanup()

    def start_worker(self, *options, nanny="--no-nanny"):
        place = ("--host", self.host, "--local-directory", self.folder.name)
        worker = self._start("dask_worker", "--nthreads", "1", nanny, *place, *(options or ("--memory-limit", "0")))
        self.workers.append(worker)
        return worker

    def client(self):
        return Client(scheduler_file=str(self.file), security=self.security, set_as_default=False)

    def wait_for(self, true):
        deadline = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < deadline, f"the cluster does not come up; it said: {self.logs()}"
            time.sleep(0.02)

    def logs(self):
        return [file.read_text()[-2000:] for file in Path(self.folder.name).glob("*.log")]

    def _start(self, what, *options):
        command = [
            sys.executable,
            "-m",
            f"distributed.cli.{what}",
            "--no-dashboard",
            "--scheduler-file",
            str(self.file),
        ]
        if self.security is not None:
            files = {"ca-file": "tls_ca_file", "cert": "tls_worker_cert", "key": "tls_worker_key"}
            command += [f"--tls-{name}={getattr(self.security, path)}" for name, path in files.items()]
        paths = os.pathsep.join(path for path in sys.path if path)  # workers import functions of tests by name
        environment = {**os.environ, "PYTHONPATH": paths}
        with open(Path(self.folder.name, f"{len(self.processes)}.log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=environment)
        self.processes.append(process)
        return process


def make_security(folder):
    """Return certificates that trust only each other; None if no package can create them."""
    if shutil.which("openssl") is None:
        return None
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=scarless"]
    subprocess.run([*request, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    sides = ("client", "scheduler", "worker")
    files = {f"tls_{side}_{what}": path for side in sides for what, path in (("cert", certificate), ("key", key))}
    return Security(require_encryption=True, tls_ca_file=certificate, **files)

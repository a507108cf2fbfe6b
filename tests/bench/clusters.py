"""Clusters of two workers on this machine, whose processes can be killed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

QUIET = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
"""Ray without a token in the home folder, and without a word to anyone."""


class Cluster(ABC):
    """Two workers, each a process, and what tells them what to do."""

    name: str

    @property
    @abstractmethod
    def address(self) -> str:
        """What `--address` is given."""

    @abstractmethod
    def worker(self) -> int:
        """A process that measures cells, or has one that does."""

    @abstractmethod
    def scheduler(self) -> int:
        """The process that hands them out."""

    @abstractmethod
    def stop(self) -> None:
        """End all of it."""


class Dask(Cluster):
    name = "dask"

    def __init__(self) -> None:
        self._port = free_port()
        module = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--host", "127.0.0.1"]
        self._scheduler = started([*module, "--port", str(self._port)])
        module = [sys.executable, "-m", "distributed.cli.dask_worker", self.address, "--no-dashboard"]
        options = ["--nthreads", "1", "--death-timeout", "10", "--no-nanny"]
        allowed = {"DASK_DISTRIBUTED__WORKER__DAEMON": "False"}
        self._workers = [started([*module, *options], allowed) for _ in range(2)]

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self._port}"

    def worker(self) -> int:
        return self._workers[0].pid

    def scheduler(self) -> int:
        return self._scheduler.pid

    def stop(self) -> None:
        for process in (*self._workers, self._scheduler):
            process.kill()
            process.wait()


class Ray(Cluster):
    name = "ray"

    def __init__(self) -> None:
        self._port = free_port()
        self._folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # short: sockets have paths of 107 characters at most
        command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--num-cpus", "2"]
        options = ["--port", str(self._port), "--include-dashboard", "false", "--temp-dir", self._folder]
        subprocess.run([*command, *options], check=True, env=os.environ | QUIET, stdout=subprocess.DEVNULL)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def _processes(self, name: str = "") -> list[Any]:
        """Those of this cluster and no other."""
        psutil: Any = pytest.importorskip("psutil")
        own = [one for one in psutil.process_iter(["cmdline"]) if self._folder in " ".join(one.info["cmdline"] or ())]
        return [one for one in own if name in one.info["cmdline"][0]]

    def worker(self) -> int:
        (raylet,) = self._processes("raylet")
        return next(one.pid for one in raylet.children(recursive=True) if "PoolActor" in " ".join(one.cmdline()))

    def scheduler(self) -> int:
        (server,) = self._processes("gcs_server")
        return int(server.pid)

    def stop(self) -> None:
        for process in self._processes():
            for child in (*process.children(recursive=True), process):
                if child.is_running():
                    child.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


CLUSTERS: dict[str, Callable[[], Cluster]] = {"dask": Dask, "ray": Ray}


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def started(command: list[str], settings: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=os.environ | (settings or {}), stderr=subprocess.DEVNULL)

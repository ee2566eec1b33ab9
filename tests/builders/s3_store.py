"""A real S3-compatible store for tests: the Versity S3 Gateway over a folder.

Go builds it once and for all into the user's cache. Without Go, or where it cannot be built, the
test is skipped aloud; `TIDEGATE_TEST_S3_GATEWAY` names a program that is built already.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

KEY_ID = "tidegate"
SECRET = "a-secret+with/odd=characters"
_MODULE = "github.com/versity/versitygw/cmd/versitygw"
_VERSION = "v1.8.0"
_BUILD_S = 240
_START_S = 20


@dataclass(frozen=True)
class Store:
    """Address of a running store, and the folder whose subfolders are its buckets."""

    address: str
    buckets: Path


@contextmanager
def a_store(folder: Path) -> Iterator[Store]:
    """A store that runs until the context ends; `folder` is empty."""
    program = _program()
    buckets = folder / "buckets"
    buckets.mkdir()
    (folder / "metadata").mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program, "--port", f"127.0.0.1:{port}", "posix",
                "--sidecar", str(folder / "metadata"), str(buckets),
            ],
            env={"ROOT_ACCESS_KEY_ID": KEY_ID, "ROOT_SECRET_ACCESS_KEY": SECRET},
            stdout=log,
            stderr=log,
        )  # fmt: skip
        try:
            _wait(f"http://127.0.0.1:{port}/", process, folder / "log")
            yield Store(f"http://127.0.0.1:{port}", buckets)
        finally:
            process.terminate()
            process.wait(10)


def _wait(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = monotonic() + _START_S
    while monotonic() < until and process.poll() is None:
        try:
            urlopen(address, timeout=2)
        except HTTPError:
            return
        except (URLError, OSError):
            sleep(0.05)
        else:
            return
    raise AssertionError(f"the store does not answer: {log.read_text()[-2_000:]}")


def _program() -> str:
    named = os.environ.get("TIDEGATE_TEST_S3_GATEWAY")
    if named:
        return named
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go here to build the S3 store with")
    place = Path.home() / ".cache/tidegate" / f"versitygw-{_VERSION}"
    program = place / "versitygw"
    if not program.exists():
        built = subprocess.run(
            [go, "install", f"{_MODULE}@{_VERSION}"],
            env={**os.environ, "GOBIN": str(place), "CGO_ENABLED": "0", "GOFLAGS": ""},
            capture_output=True,
            text=True,
            timeout=_BUILD_S,
        )
        if built.returncode != 0:
            pytest.skip(f"the S3 store cannot be built: {built.stderr.strip()[-200:]}")
    return str(program)

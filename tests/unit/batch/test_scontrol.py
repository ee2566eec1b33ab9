"""`scontrol` of a batch job, without a portal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from batch import scontrol


@pytest.fixture
def own_handlers() -> Iterator[None]:
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
    }
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_handlers")
def test_the_notice_of_a_requeue_does_not_end_the_command_that_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A script that looks at the exit code would take it for a failure. Planted: no handler."""
    told: list[str] = []

    class Portal:
        def __init__(self, environment: Any) -> None:
            pass

        def id_of(self, job: str) -> str:
            return job

        def post(self, path: str) -> None:
            for number in (signal.SIGTERM, signal.SIGUSR1):
                os.kill(os.getpid(), number)
            told.append(path)

    monkeypatch.setattr(scontrol, "Portal", Portal)
    assert scontrol.main(["requeue", "7"], {}) == 0
    assert told == ["jobs/7/requeue"]

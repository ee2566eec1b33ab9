"""Each module that asks gets an installation of its own, started as `make up` starts it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builders.installation import START_WITHIN_S, STOP_WITHIN_S, Tidegate
from embedded.ports import a_free_port


@pytest.fixture(scope="module")
def tidegate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tidegate]:
    """A Tidegate with the demo company, wiped when the module is done."""
    running = Tidegate(tmp_path_factory.mktemp("tidegate"), a_free_port())
    try:
        running.embedded("up", "--detach", timeout_s=START_WITHIN_S)
        yield running
    finally:
        running.hang_up()
        running.embedded("reset", "--yes", timeout_s=STOP_WITHIN_S)

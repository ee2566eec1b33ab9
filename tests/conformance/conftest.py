"""Every conformance test gets a cluster of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.rigs import RIGS, LocalRig, Rig


@pytest.fixture(params=RIGS, ids=lambda rig: rig.__name__)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    opened: Rig = request.param(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def local_rig(tmp_path: Path) -> Iterator[LocalRig]:
    opened = LocalRig(tmp_path)
    yield opened
    opened.close()

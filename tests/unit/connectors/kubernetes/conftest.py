"""What several tests of Kubernetes look at."""

from __future__ import annotations

import pytest

from builders.kube_states import Gang, of_one, recorded


@pytest.fixture
def gang() -> Gang:
    """A gang of two that runs."""
    return of_one(recorded("started"), "tg-gang")

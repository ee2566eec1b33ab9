"""The table of a simulation."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace

import pytest

from simulator.quality import Quality
from simulator.report import ROWS


@pytest.mark.parametrize(
    ("lost_mgpu_s", "told"),
    [
        (0, "0"),
        (1_800_000, "0.500"),
        (9 * 3_600_000, "9.000"),
        (10 * 3_600_000 + 1, "10"),
        (4_000_000 * 3_600, "4,000"),
    ],
)
def test_a_little_that_is_lost_is_not_nothing(lost_mgpu_s: int, told: str) -> None:
    assert "lost_mgpu_s" in {field.name for field in fields(Quality)}
    assert dict(ROWS)["lost (GPU-h)"](SimpleNamespace(lost_mgpu_s=lost_mgpu_s)) == told  # type: ignore[arg-type]

"""The constraint that a workload is submitted with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders.connector_builders import a_workload
from connectors.slurm.options import SlurmPool
from connectors.slurm.submissions import constraint_of


@pytest.mark.parametrize(
    ("own", "features", "sent"),
    [
        (None, (), None),
        ("h100", (), "h100"),
        ("a|b", (), "a|b"),
        (None, ("ib",), "ib"),
        (None, ("ib", "nvlink"), "ib&nvlink"),
        ("h100", ("ib",), "h100&ib"),
        ("h100&x", ("ib", "nvlink"), "h100&x&ib&nvlink"),
        ("a|b", ("ib",), "(a|b)&ib"),
        ("[a|b]", ("ib",), "[a|b]&ib"),
    ],
)
def test_the_pool_s_own_and_the_features(
    own: str | None, features: tuple[str, ...], sent: str | None
) -> None:
    pool = SlurmPool("gpu", "h100", own)
    assert constraint_of(pool, replace(a_workload(), features=features)) == sent

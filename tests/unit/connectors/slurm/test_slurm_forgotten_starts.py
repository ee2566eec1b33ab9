"""Whether a start is the only one that Slurm knows of: another one before it, it has forgotten."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from builders.slurm_rest_builders import PlainTokens
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.naming import tag
from connectors.slurm.neutral import HistoryJob
from connectors.slurm.options import parse_options

SECRET = "0123456789abcdef0123456789abcdef"
KEY = "tg-0190a000-0000-7000-8000-000000000001"
RUN = HistoryJob(
    job_id=7,
    name=tag(SECRET.encode(), KEY, "ana"),
    user="ana",
    account="acme_nlp",
    cluster="c",
    partition="h100",
    qos="g-acme_nlp",
    comment="",
    state="COMPLETED",
    state_flags=frozenset(),
    reason="None",
    submit_time=100,
    eligible_time=100,
    start_time=118,
    end_time=170,
    nodes=("n1",),
    gpus={"h100": 1},
    exit_code=0,
    exit_signal=None,
    time_limit_s=600,
)
REQUEUED = replace(RUN, submit_time=90, start_time=95, end_time=100, state="REQUEUED")
STRANGER = replace(REQUEUED, name="tg-of-somebody-else")


def a_connector(*runs: HistoryJob) -> SlurmConnector:
    """Its accounting has these records of number 7, and nothing else."""
    connector = SlurmConnector(
        parse_options(
            {
                "url": "http://slurm.test",
                "service_user": "tidegate",
                "token_socket": "/run/tidegate/minter",
                "tag_secret": SECRET,
                "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
            }
        ),
        PlainTokens(),
    )
    accounting: Any = SimpleNamespace(job_history=lambda job_id: runs)
    connector._rest = SimpleNamespace(accounting=accounting)  # type: ignore[assignment]
    return connector


@pytest.mark.parametrize(
    ("records", "started_at", "is_only_run"),
    [
        ((RUN,), 118, True),
        ((RUN, REQUEUED), 118, False),
        ((REQUEUED, RUN), 118, False),
        ((STRANGER, RUN), 118, True),
    ],
    ids=["alone", "requeued", "in any order", "a stranger's number"],
)
def test_the_only_record_under_our_name_is_the_only_run(
    records: tuple[HistoryJob, ...], started_at: int, is_only_run: bool
) -> None:
    """Planted: a requeued run, which was used, taken for a start that Slurm forgot."""
    found = a_connector(*records).find_ended(KEY, "7")
    assert found is not None
    assert (found.started_at, found.is_only_run) == (started_at, is_only_run)

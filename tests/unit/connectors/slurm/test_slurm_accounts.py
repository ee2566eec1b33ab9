"""Records of slurmdbd as the runs of a day."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from connectors.accounts import AccountLate
from connectors.errors import ClusterUnavailable
from connectors.slurm.accounting import SlurmAccounting
from connectors.slurm.accounts import PART_S, SlurmAccount
from connectors.slurm.controller import SlurmController
from connectors.slurm.naming import tag
from connectors.slurm.neutral import Diag, HistoryJob
from connectors.slurm.options import parse_options

SECRET = "0123456789abcdef"
OPTIONS: dict[str, Any] = {
    "url": "http://127.0.0.1:1",
    "service_user": "tidegate",
    "token_socket": "/run/minter",
    "tag_secret": SECRET,
    "pools": {
        "h100": {"partition": "gpu", "gres_type": "h100"},
        "a100": {"partition": "old", "gres_type": "a100"},
    },
}
RUN = HistoryJob(
    job_id=7,
    name=tag(SECRET.encode(), "tg-1", "bob"),
    user="bob",
    account="ai-company_research_nlp",
    cluster="alpha",
    partition="gpu",
    qos="normal",
    comment="",
    state="COMPLETED",
    state_flags=frozenset(),
    reason="",
    submit_time=90,
    eligible_time=90,
    start_time=110,
    end_time=150,
    nodes=("h001",),
    gpus={"h100": 8},
    exit_code=0,
    exit_signal=None,
    time_limit_s=None,
)


class Records:
    """What is asked of controller and accounting, with fixed answers."""

    def __init__(
        self,
        *runs: HistoryJob,
        clusters: tuple[str, ...] = ("alpha",),
        backlog: int = 0,
        now: int = 10**6,
    ) -> None:
        self.runs, self.names = runs, clusters
        self.told = Diag(now, backlog)
        self.asked: list[tuple[int, int]] = []
        self.looked_up: list[int] = []
        self.before: tuple[HistoryJob, ...] = ()

    def clusters(self) -> tuple[str, ...]:
        return self.names

    def diag(self) -> Diag:
        return self.told

    def history(self, *, start: int, end: int) -> tuple[HistoryJob, ...]:
        self.asked.append((start, end))
        return self.runs

    def job_history(self, job_id: int) -> tuple[HistoryJob, ...]:
        self.looked_up.append(job_id)
        return tuple(run for run in (*self.before, *self.runs) if run.job_id == job_id)


def account(records: Records, **options: Any) -> SlurmAccount:
    return SlurmAccount(
        cast(SlurmController, records),
        cast(SlurmAccounting, records),
        parse_options({**OPTIONS, **options}),
    )


def test_a_run_in_the_words_of_the_protocol() -> None:
    found = account(Records(RUN)).runs(start=100, end=200)
    (run,) = found.runs
    assert (found.as_of, run.key, run.native_id, run.submitted_at) == (10**6, "tg-1", "7", 90)
    assert (run.account, run.user, run.pool, run.mgpu) == (RUN.account, "bob", "h100", 8_000)
    assert (run.started_at, run.ended_at, run.state) == (110, 150, "COMPLETED")


@pytest.mark.parametrize(
    ("change", "pool_and_mgpu"),
    [
        ({"gpus": {"": 2}}, ("h100", 2_000)),
        ({"gpus": {"": 2}, "partition": "old"}, ("a100", 2_000)),
        ({"gpus": {"a100": 3}}, ("a100", 3_000)),
        # Ours, on a cluster that keeps no account of GPUs.
        ({"gpus": {}}, ("h100", 0)),
        ({"gpus": {}, "user": "eve"}, None),
        ({"gpus": {"": 2}, "partition": "cpu"}, None),
        ({"nodes": ()}, None),
        ({"start_time": None}, None),
        ({"end_time": 110}, None),
        ({"cluster": "beta"}, None),
        ({"end_time": 100, "start_time": 95}, None),
        ({"start_time": 200, "end_time": 210}, None),
        ({"end_time": None}, ("h100", 8_000)),
    ],
)
def test_what_counts(change: dict[str, Any], pool_and_mgpu: tuple[str, int] | None) -> None:
    found = account(Records(replace(RUN, **change))).runs(start=100, end=200)
    wanted = [] if pool_and_mgpu is None else [pool_and_mgpu]
    assert [(run.pool, run.mgpu) for run in found.runs] == wanted


def test_a_name_on_the_job_of_somebody_else_is_not_ours() -> None:
    (run,) = account(Records(replace(RUN, user="eve"))).runs(start=100, end=200).runs
    assert run.key is None


def test_a_requeued_job_has_a_record_for_each_run() -> None:
    again = replace(RUN, submit_time=150, start_time=160, end_time=None)
    found = account(Records(RUN, again)).runs(start=100, end=200)
    assert [(run.submitted_at, run.ended_at) for run in found.runs] == [(90, 150), (150, None)]


def resized(*changes: int, began: int = 20) -> tuple[HistoryJob, ...]:
    """The records of RUN if it had begun with 8 GPUs then, and one less from each of `changes`."""
    moments = (10, *changes)
    return tuple(
        replace(
            RUN,
            submit_time=moment,
            start_time=began,
            gpus={"h100": 8 - index},
            end_time=changes[index] if index < len(changes) else RUN.end_time,
            state="RESIZING" if index < len(changes) else RUN.state,
        )
        for index, moment in enumerate(moments)
    )


@pytest.mark.parametrize("listed", [1, 2])
def test_what_a_run_had_before_the_window_belongs_to_it(listed: int) -> None:
    """Planted and seen to die: only what the window has; other runs of the job, which may have
    begun after the account's time; one look for each record."""
    earlier, *later = resized(30, 120)
    records = Records(*later[-listed:], replace(RUN, job_id=8), now=155)
    again = replace(RUN, submit_time=151, start_time=160, end_time=None)
    records.before = (earlier, *later, again)
    found = account(records).runs(start=100, end=200).runs
    assert [(run.native_id, run.submitted_at, run.mgpu, run.before) for run in found] == [
        ("7", 10, 6_000, ((30, 8_000), (120, 7_000))),
        ("8", 90, 8_000, ()),
    ]
    assert records.looked_up == [7]


def test_what_the_window_has_is_not_looked_up_again() -> None:
    records = Records(*resized(120))
    (run,) = account(records).runs(start=100, end=200).runs
    assert (run.submitted_at, run.before) == (10, ((120, 8_000),))
    assert records.looked_up == []


def test_a_day_is_asked_for_in_parts_and_each_run_is_told_once() -> None:
    records = Records(RUN)
    assert len(account(records).runs(start=100, end=100 + 2 * PART_S + 5).runs) == 1
    assert [end - start for start, end in records.asked] == [PART_S, PART_S, 5]


def test_what_has_not_come_is_not_asked_for() -> None:
    records = Records(RUN, now=150)
    account(records).runs(start=100, end=86_500)
    assert records.asked == [(100, 150)]


def test_a_late_account_is_none() -> None:
    with pytest.raises(AccountLate, match="3 messages"):
        account(Records(RUN, backlog=3)).runs(start=100, end=200)


def test_of_several_clusters_ours_must_be_named() -> None:
    records = Records(replace(RUN, cluster="beta"), clusters=("alpha", "beta"))
    with pytest.raises(ClusterUnavailable, match="cluster_name"):
        account(records).runs(start=100, end=200)
    with pytest.raises(ClusterUnavailable, match="cluster_name"):
        account(records, cluster_name="gamma").runs(start=100, end=200)
    assert len(account(records, cluster_name="beta").runs(start=100, end=200).runs) == 1


def test_the_account_of_a_team() -> None:
    named = account(Records(), account_prefix="tg_")
    assert named.account_of("ai-company/research") == "tg_ai-company_research"

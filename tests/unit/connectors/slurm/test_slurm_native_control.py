"""Jobs that were submitted beside the portal are only touched when they are the ones meant."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from connectors.errors import ClusterUnavailable, NotOffered, WorkloadRejected
from connectors.natives import NativeRef
from connectors.protocol import Outcome, RankSlot, WorkloadPhase
from connectors.slurm.natives import SlurmNatives
from connectors.slurm.neutral import Diag, HistoryJob, SlurmJob
from connectors.slurm.observing import native_of, spread
from connectors.slurm.options import SlurmOptions, parse_options

OPTIONS: SlurmOptions = parse_options(
    {
        "url": "http://127.0.0.1:6820",
        "service_user": "tidegate",
        "token_socket": "/run/tidegate/minter",
        "tag_secret": "0123456789abcdef0123456789abcdef",
        "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
        "working_directory": "/home/{user}",
    }
)
REF = NativeRef("7", 100, "ana")
JOB = SlurmJob(
    job_id=7,
    name="train.sh",
    user="ana",
    account="ai-company_research_nlp",
    partition="h100",
    qos="normal",
    comment="",
    state="RUNNING",
    state_flags=frozenset(),
    reason="None",
    is_held=False,
    submit_time=100,
    start_time=110,
    end_time=170,
    exit_code=None,
    exit_signal=None,
    node_count=2,
    nodes=("n1", "n2"),
    gpus_requested={"h100": 4},
    gpus_allocated={"h100": 4},
    gpus_by_node={"n1": 3, "n2": 1},
    time_limit_s=600,
)
RUN = HistoryJob(
    job_id=7,
    name="train.sh",
    user="ana",
    account="ai-company_research_nlp",
    cluster="c",
    partition="h100",
    qos="normal",
    comment="",
    state="COMPLETED",
    state_flags=frozenset(),
    reason="None",
    submit_time=100,
    eligible_time=100,
    start_time=110,
    end_time=170,
    nodes=("n1", "n2"),
    gpus={"h100": 4},
    exit_code=0,
    exit_signal=None,
    time_limit_s=600,
)


@dataclass
class ARest:
    """Answers what it was given and remembers what it cancelled."""

    listed: SlurmJob | None = JOB
    runs: tuple[HistoryJob, ...] = (RUN,)
    backlog: int = 0
    refuses: Exception | None = None
    cancelled: list[tuple[int, str | None]] = field(default_factory=list)

    def job(self, job_id: int) -> SlurmJob | None:
        """The job of this number."""
        return self.listed

    def cancel(self, job_id: int, *, signal: str | None = None) -> None:
        """Remember it."""
        if self.refuses is not None:
            raise self.refuses
        self.cancelled.append((job_id, signal))

    def job_history(self, job_id: int) -> tuple[HistoryJob, ...]:
        """All runs of this number."""
        return self.runs

    def diag(self) -> Diag:
        """How late the accounting is."""
        return Diag(200, self.backlog)


def control(rest: ARest, **options: Any) -> SlurmNatives:
    return SlurmNatives(rest, rest, replace(OPTIONS, **options))  # type: ignore[arg-type]


def test_it_is_told_and_ended() -> None:
    rest = ARest()
    control(rest).notify(REF)
    control(rest).stop(REF)
    assert rest.cancelled == [(7, "TERM"), (7, None)]


@pytest.mark.parametrize(
    "ref",
    [
        replace(REF, user="leo"),
        replace(REF, submitted_at=99),
        replace(REF, native_id="7; rm -rf /"),
        replace(REF, native_id=""),
        replace(REF, native_id="07"),
        replace(REF, native_id="٧"),
    ],
)
def test_another_job_under_its_number_is_left_alone(ref: NativeRef) -> None:
    """Planted: comparing the number only."""
    rest = ARest()
    control(rest).notify(ref)
    control(rest).stop(ref)
    assert rest.cancelled == []
    assert control(rest).find_ended(ref) is None


@pytest.mark.parametrize(
    ("job", "told", "ended"),
    [
        (None, False, False),
        (replace(JOB, state="COMPLETED"), False, False),
        (replace(JOB, state="RUNNING", state_flags=frozenset({"COMPLETING"})), False, False),
        (replace(JOB, state="PENDING", nodes=()), False, True),
        (replace(JOB, state="SUSPENDED"), True, True),
        (replace(JOB, state="NOBODY_KNOWS"), False, True),
    ],
)
def test_only_what_runs_is_told_and_what_is_over_is_not_ended(
    job: SlurmJob | None, told: bool, ended: bool
) -> None:
    rest = ARest(job)
    control(rest).notify(REF)
    assert bool(rest.cancelled) is told
    rest.cancelled.clear()
    control(rest).stop(REF)
    assert bool(rest.cancelled) is ended


@pytest.mark.parametrize("refusal", [WorkloadRejected("2002"), NotOffered("v0.0.38")])
def test_what_slurm_does_not_let_us_do_is_tried_again(refusal: Exception) -> None:
    for act in (control(ARest(refuses=refusal)).notify, control(ARest(refuses=refusal)).stop):
        with pytest.raises(ClusterUnavailable, match="does not let us"):
            act(REF)


def test_accounting_tells_of_the_run_that_is_meant() -> None:
    later = replace(RUN, submit_time=180, state="FAILED", end_time=300)
    others = replace(RUN, user="leo", state="FAILED")
    found = control(ARest(runs=(later, others, RUN))).find_ended(REF)
    assert found is not None
    assert (found.outcome, found.started_at, found.ended_at) == (Outcome.SUCCEEDED, 110, 170)
    assert (found.phase, found.is_released, found.mgpu) == (WorkloadPhase.ENDED, True, 4000)
    assert found.slots == (RankSlot("n1", 2000), RankSlot("n2", 2000))


@pytest.mark.parametrize(
    ("state", "flags", "outcome"),
    [
        ("REQUEUED", set(), Outcome.PREEMPTED),
        ("PENDING", {"REQUEUED"}, Outcome.PREEMPTED),
        ("PREEMPTED", set(), Outcome.PREEMPTED),
        ("NODE_FAIL", set(), Outcome.NODE_FAILED),
        ("CANCELLED", set(), Outcome.STOPPED),
        ("NOBODY_KNOWS", set(), Outcome.FAILED),
    ],
)
def test_how_a_run_ended(state: str, flags: set[str], outcome: Outcome) -> None:
    run = replace(RUN, state=state, state_flags=frozenset(flags))
    found = control(ARest(runs=(run,))).find_ended(REF)
    assert found is not None
    assert found.outcome is outcome


def test_nothing_is_said_while_accounting_is_late_or_says_that_it_runs() -> None:
    with pytest.raises(ClusterUnavailable, match="late"):
        control(ARest(runs=(), backlog=3)).find_ended(REF)
    with pytest.raises(ClusterUnavailable, match="runawayjobs"):
        control(ARest(runs=(replace(RUN, end_time=None),))).find_ended(REF)
    assert control(ARest(runs=())).find_ended(REF) is None


def test_accounts_are_teams() -> None:
    assert control(ARest()).team_of("ai-company_research_nlp") == "ai-company/research/nlp"
    prefixed = control(ARest(), account_prefix="tg-")
    assert prefixed.team_of("tg-ai-company") == "ai-company"
    assert prefixed.team_of("ai-company") is None


def test_gpus_of_a_running_job_are_somewhere_even_if_nobody_says_where() -> None:
    job = replace(JOB, gpus_by_node={}, gpus_allocated={"h100": 5}, nodes=("n1", "n2"))
    assert native_of(job, pool="h100", gpus=5, borrow_qos="b").slots == (
        RankSlot("n1", 3000),
        RankSlot("n2", 2000),
    )
    waiting = replace(job, state="PENDING", nodes=("n1", "n2"))
    assert native_of(waiting, pool="h100", gpus=5, borrow_qos="b").slots == ()
    assert spread((), 5) == ()

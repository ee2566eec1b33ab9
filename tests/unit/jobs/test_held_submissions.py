"""What is submitted held for the job of a claim, and who may let it run.

Bugs that were planted and seen to die here: a start takes over what is borrowed, another size, or
what the claim of another cluster has; the number of a given-up submission is used again; copies
that wait for a start are removed, or those of a given-up claim are not; a late answer replaces the
recorded id; the start sends what the cluster has acknowledged; one that its user released is taken
over all the same; one that was cancelled on its cluster is taken for an attempt that a restore
forgot.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from arbiter.api.plan import Plan, Start
from arbiter.api.plan import Reclaim as PlannedReclaim
from arbiter.api.snapshot import Slot
from billing.models import MeteredAttempt
from builders.held_cluster import AClusterThatHolds
from builders.loop_builders import Fenced, a_job
from builders.planned_cycles import use_plan
from builders.portal_builders import NOW, Company, a_company
from connectors.errors import ClusterUnavailable, WorkloadRejected
from connectors.protocol import Listing, Observation, RankSlot, Workload, WorkloadPhase
from connectors.registry import kind_named
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.snapshots import load_snapshot
from jobs.execution.dispatch import handlers
from jobs.execution.held_submissions import due_for_release
from jobs.execution.restoring import ClusterMemory
from jobs.execution.settling import settle
from jobs.execution.strays import find_strays
from jobs.models import (
    Attempt,
    HeldSubmission,
    Job,
    JobOrigin,
    Reclaim,
    attempt_id,
)
from outbox.delivery import NotYet
from outbox.models import Message
from outbox.quarantine import begin_quarantine, is_quarantined
from quotas.models import ClusterUser
from tenants.models import User

pytestmark = pytest.mark.django_db

AT = int(NOW.timestamp())
GPUS = 8_000
NODE = "ai-company-000"


@pytest.fixture
def company() -> Company:
    company = a_company()
    company.cluster.kind = "slurm"
    company.cluster.observed_at = NOW
    company.cluster.save()
    return company


@pytest.fixture
def job(company: Company, bob: User) -> Job:
    ClusterUser.objects.create(cluster=company.cluster, user=bob, name="tg-bob")
    return a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)


class ASlurm(AClusterThatHolds):
    """It takes each submission under the next number, or answers it with `error`."""

    def __init__(self, *, error: Exception | None = None) -> None:
        super().__init__()
        self.sent: list[tuple[Workload, bool]] = []
        self.error = error

    def submit(self, workload: Workload, *, is_first: bool = False) -> str:
        """The cluster's id."""
        self.sent.append((workload, is_first))
        if self.error is not None:
            raise self.error
        return str(6 + len(self.sent))


def claim(
    cycles: Cycles, monkeypatch: pytest.MonkeyPatch, job: Job, company: Company
) -> HeldSubmission | None:
    """Have a cycle store a claim of the job for a node that comes back."""
    where = (str(job.id), str(company.cluster.id), (Slot(NODE, GPUS),), ())
    use_plan(monkeypatch, Plan(0, reclaims=(PlannedReclaim(*where, AT + 60),)))
    assert cycles.run(NOW).reclaims == 1
    return HeldSubmission.objects.filter(reclaim__closed_at=None).first()


def held(
    cycles: Cycles, monkeypatch: pytest.MonkeyPatch, job: Job, company: Company
) -> HeldSubmission:
    found = claim(cycles, monkeypatch, job, company)
    assert found is not None
    return found


def start(
    cycles: Cycles, monkeypatch: pytest.MonkeyPatch, job: Job, company: Company, **changes: Any
) -> Attempt:
    """Have a cycle start the job there, all of it within its guarantee, unless changed."""
    where = {
        "job": str(job.id),
        "cluster": str(company.cluster.id),
        "slots": (Slot(NODE, GPUS),),
        "guaranteed_mgpu": GPUS,
    }
    use_plan(monkeypatch, Plan(0, starts=(Start(**{**where, **changes}),)))
    assert cycles.run(NOW + timedelta(seconds=60)).started == 1
    return Attempt.objects.get()


def give_up(cycles: Cycles, monkeypatch: pytest.MonkeyPatch, job: Job) -> None:
    use_plan(monkeypatch, Plan(0, dropped_claims=(str(job.id),)))
    cycles.run(NOW)


def deliver(submission: HeldSubmission, cluster: ASlurm, *, sends: int = 1) -> None:
    message = Message(kind="submit_held", subject=submission.pk, sends=sends)
    observer: Any = Fenced("observer")
    finish = handlers(observer, lambda: NOW, lambda _: cluster)["submit_held"](message)  # type: ignore[arg-type, return-value]
    if finish is not None:
        finish()
    submission.refresh_from_db()


def listed(*ids: Any, native_id: str = "7", **changes: Any) -> Listing:
    found = {
        f"tg-{pk}": replace(
            Observation(f"tg-{pk}", native_id, "PENDING", WorkloadPhase.HELD, submitted_at=AT - 10),
            **changes,
        )
        for pk in ids
    }
    return Listing(AT, found)


def settled(company: Company, listing: Listing) -> AClusterThatHolds:
    cluster = AClusterThatHolds()
    settle(company.cluster, cluster, listing, leadership=Fenced("observer"))  # type: ignore[arg-type]
    return cluster


def test_the_job_of_a_claim_is_submitted_held_and_nothing_else_changes(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arbiter sees a queued job with a claim; nothing is in use and nothing is charged."""
    submission = held(cycles, monkeypatch, job, company)
    assert (submission.id, submission.number) == (attempt_id(job.id, 1), 1)
    message = Message.objects.get()
    assert (message.kind, message.subject) == ("submit_held", submission.id)
    assert message.shard == str(company.cluster.id)
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == ("queued", 0)
    assert not Attempt.objects.exists()
    assert not MeteredAttempt.objects.exists()
    snapshot = load_snapshot(NOW)
    assert ([one.id for one in snapshot.queued], snapshot.running) == ([str(job.id)], ())


@pytest.mark.parametrize("what", ["a local cluster", "a native job"])
def test_what_starts_at_once_or_is_there_already_is_not_submitted(
    what: str, cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "a local cluster":
        company.cluster.kind = "local"
        company.cluster.save()
    else:
        Job.objects.update(
            origin=JobOrigin.NATIVE, native_id="5", cluster=company.cluster, script=""
        )
    assert not kind_named("local").submits_held
    assert claim(cycles, monkeypatch, job, company) is None
    assert not Message.objects.exists()


def test_a_start_takes_over_what_its_cluster_holds_and_only_then_it_is_released(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = held(cycles, monkeypatch, job, company)
    cluster = ASlurm()
    deliver(submission, cluster)
    ((workload, is_first),) = cluster.sent
    assert (workload.key, workload.cluster_user, is_first) == (
        f"tg-{submission.id}",
        "tg-bob",
        True,
    )
    assert (workload.is_borrowed, workload.environment["TIDEGATE_ATTEMPT"]) == (False, "1")
    before = settled(company, listed(submission.id))
    assert (before.released, before.removed) == ([], [])

    attempt = start(cycles, monkeypatch, job, company)
    assert (attempt.id, attempt.number) == (submission.id, 1)
    assert (attempt.state, attempt.native_id, attempt.cluster_user) == ("starting", "7", "tg-bob")
    assert attempt.granted_at == NOW + timedelta(seconds=60)
    assert not Message.objects.filter(kind="start_attempt").exists()
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == ("starting", 1)
    assert Reclaim.objects.get().closed_at == attempt.granted_at
    assert due_for_release(company.cluster.id) == {attempt.id}
    after = settled(company, listed(submission.id))
    assert (after.released, after.removed) == ([(attempt.key, "7")], [])
    assert due_for_release(company.cluster.id) == frozenset()


@pytest.mark.parametrize(
    "changes",
    [
        {"guaranteed_mgpu": GPUS - 1_000},
        {"slots": (Slot(NODE, GPUS), Slot("ai-company-001", GPUS))},
        {"slots": (Slot(NODE, GPUS - 1_000),), "guaranteed_mgpu": GPUS - 1_000},
        {"cluster": ...},
        {"pool": ...},
        {"closed_nodes": ("ai-company-001",)},
    ],
    ids=["borrowed", "more nodes", "smaller", "elsewhere", "another pool", "other closed nodes"],
)
def test_what_is_not_what_was_granted_is_removed_and_the_job_is_submitted_anew(
    changes: dict[str, Any],
    cycles: Cycles,
    company: Company,
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submission = held(cycles, monkeypatch, job, company)
    deliver(submission, ASlurm())
    if "cluster" in changes:
        Reclaim.objects.update(cluster=another(company))
        changes = {}
    elif "pool" in changes:
        changes = {"pool": str(company.pool.id)}
    attempt = start(cycles, monkeypatch, job, company, **changes)
    assert (attempt.id, attempt.number) == (attempt_id(job.id, 2), 2)
    assert (attempt.state, attempt.native_id) == ("reserved", None)
    assert Message.objects.get(kind="start_attempt").subject == attempt.id
    assert attempt.closed_nodes == list(changes.get("closed_nodes", ()))
    Reclaim.objects.update(cluster=company.cluster)
    cluster = settled(company, listed(submission.id))
    assert (cluster.released, cluster.removed) == ([], [(f"tg-{submission.id}", "7")])


def test_what_is_under_way_when_the_job_starts_becomes_its_attempt_too(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start is sent, too, and finds what arrived. Whichever answer comes first is recorded.
    Planted: the late answer known to the held submission alone; the start sent as if it were the
    first, without a look at what arrived."""
    submission = held(cycles, monkeypatch, job, company)
    under_way = ASlurm()
    message = Message(kind="submit_held", subject=submission.pk, sends=1)
    answer = handlers(Fenced("observer"), lambda: NOW, lambda _: under_way)  # type: ignore[arg-type, return-value]
    finish = answer["submit_held"](message)
    attempt = start(cycles, monkeypatch, job, company)
    assert (attempt.id, attempt.state, attempt.native_id) == (submission.id, "reserved", None)
    waits = settled(company, listed(submission.id))
    assert (waits.released, waits.removed) == ([], [])
    sent = Message.objects.get(kind="start_attempt")
    sent.sends = 1
    again = answer["start_attempt"](sent)
    assert [is_first for _, is_first in under_way.sent] == [True, False]
    assert finish is not None
    assert again is not None
    finish()
    again()
    attempt.refresh_from_db()
    assert (attempt.state, attempt.native_id) == ("starting", "7")
    assert settled(company, listed(submission.id)).released == [(attempt.key, "7")]


def another(company: Company) -> Any:
    from builders.portal_builders import a_cluster

    return a_cluster("another", kind="slurm")


def test_what_a_given_up_claim_has_on_its_cluster_is_removed_and_its_number_is_not_used_again(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = held(cycles, monkeypatch, job, company)
    give_up(cycles, monkeypatch, job)
    # It was under way when the claim was closed.
    cluster = settled(company, listed(first.id))
    assert (cluster.released, cluster.removed) == ([], [(f"tg-{first.id}", "7")])
    late = ASlurm()
    deliver(first, late)
    assert (late.sent, first.native_id) == ([], None)

    second = held(cycles, monkeypatch, job, company)
    assert (second.number, second.id) == (2, attempt_id(job.id, 2))
    give_up(cycles, monkeypatch, job)
    assert start(cycles, monkeypatch, job, company).number == 3


def test_the_first_answer_is_recorded_and_a_repeat_goes_out_as_the_same_user(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = held(cycles, monkeypatch, job, company)
    with pytest.raises(NotYet, match="no answer"):
        deliver(submission, ASlurm(error=ClusterUnavailable("no answer")))
    ClusterUser.objects.update(name="tg-another")
    cluster = ASlurm()
    message = Message(kind="submit_held", subject=submission.pk, sends=2)
    answer = handlers(Fenced("observer"), lambda: NOW, lambda _: cluster)["submit_held"]  # type: ignore[arg-type, return-value]
    both = answer(message), answer(message)
    for finish in both:
        assert finish is not None
        finish()
    submission.refresh_from_db()
    assert submission.native_id == "7"
    assert {(one.cluster_user, is_first) for one, is_first in cluster.sent} == {("tg-bob", False)}


@pytest.mark.parametrize("why", ["refused", "nobody"])
def test_what_cannot_be_submitted_waits_for_its_start_and_is_told_then(
    why: str, cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = held(cycles, monkeypatch, job, company)
    if why == "nobody":
        ClusterUser.objects.all().delete()
    cluster = ASlurm(error=WorkloadRejected("no such account"))
    deliver(submission, cluster)
    assert submission.refusal == (
        "no such account" if why == "refused" else "Its user has no user on the cluster."
    )
    assert len(cluster.sent) == (why == "refused")
    job.refresh_from_db()
    assert job.state == "queued"
    # A copy that arrived before the refusal is nobody's any more.
    assert settled(company, listed(submission.id)).removed == [(f"tg-{submission.id}", "7")]
    assert start(cycles, monkeypatch, job, company).number == 2


def test_nothing_is_submitted_in_quarantine(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = held(cycles, monkeypatch, job, company)
    begin_quarantine("restored", since=NOW, now=NOW)
    cluster = ASlurm()
    with pytest.raises(NotYet, match="quarantine"):
        deliver(submission, cluster)
    assert cluster.sent == []


def test_what_its_user_released_is_theirs_and_no_start_takes_it_over(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scontrol release` by its owner, before anything was granted."""
    submission = held(cycles, monkeypatch, job, company)
    deliver(submission, ASlurm())
    runs = listed(
        submission.id,
        phase=WorkloadPhase.RUNNING,
        started_at=AT,
        slots=(RankSlot(NODE, GPUS),),
        user="tg-bob",
        account="nlp",
        pool="h100",
    )
    for _ in range(2):
        found = find_strays(company.cluster, runs, Fenced("observer"))  # type: ignore[arg-type]
        assert [one.native_id for one in found.natives] == ["7"]
    attempt = start(cycles, monkeypatch, job, company)
    assert (attempt.number, attempt.native_id) == (2, None)


def test_what_a_start_took_over_is_not_its_users(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = held(cycles, monkeypatch, job, company)
    deliver(submission, ASlurm())
    start(cycles, monkeypatch, job, company)
    runs = listed(submission.id, phase=WorkloadPhase.RUNNING, slots=(RankSlot(NODE, GPUS),))
    found = find_strays(company.cluster, runs, Fenced("observer"))  # type: ignore[arg-type]
    assert (found.natives, found.strays) == ([], [])
    submission.refresh_from_db()
    assert submission.refusal == ""


CANCELLED = {"phase": WorkloadPhase.ENDED, "started_at": AT, "ended_at": AT, "is_released": True}


@pytest.mark.parametrize(
    ("changes", "silent_s", "is_strange"),
    [
        ({}, 1, False),
        ({}, 60, False),
        (CANCELLED, 60, False),
        ({"phase": WorkloadPhase.RUNNING, "slots": (RankSlot(NODE, GPUS),)}, 1, True),
        ({**CANCELLED, "ended_at": AT + 9}, 60, True),
    ],
    ids=["held", "held after a silence", "cancelled", "runs", "ran"],
)
def test_a_restore_is_noticed_by_what_ran_and_not_by_what_is_held(
    changes: dict[str, Any],
    silent_s: int,
    is_strange: bool,
    cycles: Cycles,
    company: Company,
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An observer that begins to look cannot know whether a start is missing since a restore."""
    submission = held(cycles, monkeypatch, job, company)
    listing = listed(submission.id, **changes)
    memory = ClusterMemory()

    def compare() -> None:
        memory.compare(
            company.cluster,
            listing,
            ask=lambda since, known: {key: listing.all_of(key) for key in listing.observations},
            leadership=Fenced("observer"),  # type: ignore[arg-type]
            now=NOW + timedelta(seconds=silent_s),
        )

    compare()
    assert is_quarantined() is is_strange
    assert Attempt.objects.exists() is is_strange


def test_what_its_user_released_is_no_restore(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither while somebody looks, nor for the next observer."""
    submission = held(cycles, monkeypatch, job, company)
    runs = listed(submission.id, phase=WorkloadPhase.RUNNING, slots=(RankSlot(NODE, GPUS),))
    memory = ClusterMemory()
    memory.is_compared = True
    for one in (memory, ClusterMemory()):
        one.compare(
            company.cluster,
            runs,
            ask=lambda since, known: {},
            leadership=Fenced("observer"),  # type: ignore[arg-type]
            now=NOW,
        )
        find_strays(company.cluster, runs, Fenced("observer"))  # type: ignore[arg-type]
    assert not is_quarantined()


def test_two_submissions_of_one_number_are_refused_by_the_database(
    cycles: Cycles, company: Company, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = held(cycles, monkeypatch, job, company)
    give_up(cycles, monkeypatch, job)
    other = Reclaim.objects.create(
        job=job, cluster=company.cluster, slots=[], created_at=NOW, grace_until=NOW
    )
    with (
        pytest.raises(IntegrityError, match="held_submission_number_once_per_job"),
        transaction.atomic(),
    ):
        HeldSubmission.objects.create(
            id=attempt_id(job.id, 9), job=job, number=submission.number, reclaim=other
        )

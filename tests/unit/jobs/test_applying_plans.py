"""What a cycle writes, and what it leaves alone when the world moved on meanwhile."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from arbiter.api.plan import Classed, Plan, Start, Victim
from arbiter.api.plan import Reclaim as PlannedReclaim
from arbiter.api.snapshot import Slot
from arbiter.cycle.result import Decided
from billing.metering import Grant, register_attempts
from billing.models import MeterEvent
from builders.job_builders import an_attempt
from builders.loop_builders import Fenced, a_job
from builders.planned_cycles import AsPlanned, use_plan
from builders.portal_builders import NOW, Company, a_company, a_user, an_actor
from jobs.actions.cancellation import cancel_job, hold_job, release_job
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.memory import Memory
from jobs.arbitration.recording import Recorder
from jobs.arbitration.snapshots import load_snapshot
from jobs.leadership import NotLeading
from jobs.models import Attempt, Change, Job, JobEvent, JobState, Leadership, Reclaim
from jobs.reading.explaining import explanation_of
from jobs.reading.queries import get_job
from outbox.models import Message
from primitives.errors import Conflict, Forbidden, NotFound
from quotas.models import NodeUse
from tenants.access import actor_of
from tenants.models import Node, User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def bob(company: Company) -> User:
    return a_user(company.organization, "bob")


def a_start(job: Job, company: Company) -> Start:
    slots = tuple(
        Slot(f"ai-company-{index:03d}", job.mgpu_per_node) for index in range(job.node_count)
    )
    return Start(str(job.id), str(company.cluster.id), slots, job.mgpu)


def a_running_attempt(job: Job, company: Company, *, started: bool = True) -> Attempt:
    job.state = JobState.RUNNING if started else JobState.STARTING
    job.attempt_number = 1
    job.save()
    attempt = Attempt.objects.create(
        job=job,
        number=1,
        cluster=company.cluster,
        slots=[
            {"node": f"ai-company-{index:03d}", "mgpu": job.mgpu_per_node}
            for index in range(job.node_count)
        ],
        mgpu=job.mgpu,
        guaranteed_mgpu=0,
        state="running" if started else "reserved",
        epoch=1,
        granted_at=NOW,
        started_at=NOW if started else None,
        native_id="1" if started else None,
    )
    register_attempts(
        [
            Grant(
                attempt_id=attempt.id,
                job_id=job.id,
                job_name=job.name,
                number=1,
                organization_id=job.organization_id,
                team_id=job.team_id,
                user_id=job.user_id,
                pool_id=job.pool_id,
                cluster_id=company.cluster.id,
                priority_class="normal",
                multiplier_ppm=1_000_000,
                job_type=job.type,
                mgpu=job.mgpu,
                guaranteed_mgpu=0,
                at=NOW,
            )
        ],
        now=NOW,
    )
    return attempt


def test_a_start_becomes_an_attempt_an_account_and_an_intention(
    cycles: Cycles, company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    report = cycles.run(NOW)
    assert report.started == 1
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == ("starting", 1)
    attempt = job.attempts.get()
    assert (attempt.state, attempt.mgpu, attempt.guaranteed_mgpu) == ("reserved", 8000, 8000)
    message = Message.objects.get()
    assert (message.kind, message.subject) == ("start_attempt", attempt.id)
    assert [event.event for event in job.events.order_by("id")] == ["granted"]


def test_what_a_cycle_wrote_is_known_to_the_next(
    cycles: Cycles, company: Company, bob: User
) -> None:
    """Read when nobody waits for it any more. Planted: not caught up at the end."""
    cycles.run(NOW)
    a_job(company.nlp, bob, company.pool, now=NOW)
    Change.objects.filter(job_id=None).delete()
    assert cycles.run(NOW).started == 1
    Change.objects.all().delete()
    assert cycles._memory.read(NOW).snapshot == load_snapshot(NOW)


def test_a_job_cancelled_since_the_snapshot_is_not_started(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: without `state=QUEUED` in `_apply_starts` a cancelled job starts; dies here."""
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    use_plan(monkeypatch, Plan(0, starts=(a_start(job, company),)))
    cancel_job(job.id, actor=actor_of(bob), now=NOW)
    assert cycles.run(NOW).started == 0
    assert not Attempt.objects.exists()
    assert not Message.objects.exists()


@pytest.mark.parametrize("stopped", ["user", "team"])
def test_a_job_that_is_withheld_since_the_snapshot_is_not_started(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch, stopped: str
) -> None:
    """Planted: `_refused_by_now` without users, without teams; then the database refuses the whole
    cycle."""
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    other = a_job(company.inference, a_user(company.organization), company.pool, now=NOW)
    use_plan(monkeypatch, Plan(0, starts=(a_start(job, company), a_start(other, company))))
    if stopped == "user":
        User.objects.filter(pk=bob.pk).update(is_active=False)
    else:
        Node.objects.filter(pk=company.nlp.pk).update(archived_at=NOW)
    assert cycles.run(NOW).started == 1
    assert [attempt.job_id for attempt in Attempt.objects.all()] == [other.pk]


def test_a_leader_of_an_old_epoch_writes_nothing(
    cycles: Cycles, company: Company, bob: User
) -> None:
    a_job(company.nlp, bob, company.pool, now=NOW)
    Leadership.objects.filter(role="arbiter").update(epoch=2)
    with pytest.raises(NotLeading):
        cycles.run(NOW)
    assert not Attempt.objects.exists()


class LosesAfter:
    """A leader that is deposed after so many fenced transactions."""

    def __init__(self, fences: int) -> None:
        self.epoch = 1
        self._leader, self._left = Fenced("arbiter"), fences

    def fence(self) -> AbstractContextManager[None]:
        if self._left == 0:
            raise NotLeading("arbiter epoch 1 is over")
        self._left -= 1
        return self._leader.fence()


def test_what_starts_stands_when_the_rest_of_the_plan_is_lost_and_the_next_leader_decides_that(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: all of the plan in one transaction; given-up claims closed with the new ones."""
    starts, lender, gives_up, borrower = (
        a_job(team, bob, company.pool, gpus=8, now=NOW)
        for team in (company.nlp, company.nlp, company.nlp, company.inference)
    )
    attempt = a_running_attempt(borrower, company)
    Reclaim.objects.create(
        job=gives_up, cluster=company.cluster, slots=[], created_at=NOW, grace_until=NOW
    )
    victim = Victim(str(attempt.id), str(borrower.id), str(company.inference.id), 8000, 120)
    slots = (Slot("ai-company-000", 8000),)
    until = int(NOW.timestamp()) + 120
    place = (str(lender.id), str(company.cluster.id), slots, (victim,), until)
    plan = Plan(
        0,
        starts=(a_start(starts, company),),
        reclaims=(PlannedReclaim(*place),),
        dropped_claims=(str(gives_up.id),),
        classed=(Classed(str(attempt.id), 8000),),
    )
    use_plan(monkeypatch, plan)
    leader = LosesAfter(1)
    with pytest.raises(NotLeading):
        Cycles(leader).run(NOW)  # type: ignore[arg-type]
    starts.refresh_from_db()
    attempt.refresh_from_db()
    assert (starts.state, starts.attempts.count()) == ("starting", 1)
    assert Reclaim.objects.get().closed_at == NOW
    assert (attempt.state, attempt.guaranteed_mgpu) == ("running", 0)
    use_plan(monkeypatch, replace(plan, starts=(), dropped_claims=()))
    report = cycles.run(NOW)
    attempt.refresh_from_db()
    assert (report.started, report.reclaims, report.victims) == (0, 1, 1)
    assert (attempt.state, attempt.guaranteed_mgpu) == ("stopping", 8000)


def test_a_plan_stands_when_its_reasons_are_not_stored_and_the_next_leader_stores_them(
    cycles: Cycles, company: Company, bob: User
) -> None:
    """Planted: `remember` before the reasons are committed, seen by the same leader's next
    cycle that leaves the job unexplained; dies here."""
    starts = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    waits = a_job(company.nlp, bob, company.pool, gpus=8, nodes=1_000, now=NOW)
    leader = LosesAfter(2)
    deposed = Cycles(leader)  # type: ignore[arg-type]
    with pytest.raises(NotLeading):
        deposed.run(NOW)
    starts.refresh_from_db()
    waits.refresh_from_db()
    assert (starts.state, starts.attempts.count()) == ("starting", 1)
    assert (waits.state, waits.explanation) == ("queued", None)
    assert deposed._reasons._stored == {}
    assert cycles.run(NOW).explained == 1
    waits.refresh_from_db()
    assert waits.explanation["code"] == "never_fits"


@pytest.mark.parametrize("is_meanwhile", [False, True], ids=["between cycles", "during one"])
def test_an_explanation_that_was_taken_away_is_stored_again_and_nobody_else_is_asked(
    cycles: Cycles,
    company: Company,
    bob: User,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    is_meanwhile: bool,
) -> None:
    """Planted: what a reading found changed forgotten, by the one at a cycle's begin or by the one
    at its end; each dies here."""
    settings.CYCLES_COMPARED_EVERY_S = 300
    actor = actor_of(bob)
    waits = a_job(company.nlp, bob, company.pool, gpus=8, nodes=1_000, now=NOW)
    assert cycles.run(NOW).explained == 1
    Change.objects.all().delete()
    with CaptureQueriesContext(connection) as queries:
        assert cycles.run(NOW).explained == 0
    assert not [query for query in queries if "explanation IS NULL" in query["sql"]]

    def take_away() -> None:
        hold_job(waits.id, actor=actor, now=NOW)
        release_job(waits.id, actor=actor, now=NOW)

    if is_meanwhile:
        a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
        recorded = Recorder.record

        def recording(*arguments: Any, **more: Any) -> None:
            take_away()
            recorded(*arguments, **more)

        monkeypatch.setattr(Recorder, "record", recording)
        assert cycles.run(NOW).started == 1
        Change.objects.all().delete()
    else:
        take_away()
    waits.refresh_from_db()
    assert waits.explanation is None
    assert cycles.run(NOW).explained == 1
    waits.refresh_from_db()
    assert waits.explanation["code"] == "never_fits"


def test_nobody_who_starts_waits_until_the_others_are_told_why_they_do_not(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the reasons, or where the nodes stand, worked out before the plan is committed."""
    starts = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    seen: list[tuple[str, int]] = []
    explained = Decided.explained

    def explaining(self: Decided) -> Plan:
        if Attempt.objects.exists():
            starts.refresh_from_db()
            seen.append((starts.state, NodeUse.objects.count()))
        return explained(self)

    monkeypatch.setattr(Decided, "explained", explaining)
    cycles.run(NOW)
    assert seen == [("starting", 0)]
    assert NodeUse.objects.filter(node=company.nlp, in_use_mgpu=8_000).exists()


def test_a_reclaim_is_stored_with_its_victims_and_deadlines_before_anybody_is_told(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    lender = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    borrower = a_job(company.inference, bob, company.pool, gpus=8, now=NOW)
    attempt = a_running_attempt(borrower, company)
    victim = Victim(str(attempt.id), str(borrower.id), str(company.inference.id), 8000, 120)
    until = int(NOW.timestamp()) + 120
    slots = (Slot("ai-company-000", 8000),)
    use_plan(
        monkeypatch,
        Plan(
            0,
            reclaims=(
                PlannedReclaim(str(lender.id), str(company.cluster.id), slots, (victim,), until),
            ),
        ),
    )
    report = cycles.run(NOW)
    assert (report.reclaims, report.victims) == (1, 1)
    attempt.refresh_from_db()
    claim = Reclaim.objects.get()
    assert (attempt.state, attempt.stop_reason, attempt.reclaim_id) == (
        "stopping",
        "preempted",
        claim.id,
    )
    assert attempt.notice_at == NOW
    assert attempt.grace_until == claim.grace_until == NOW + timedelta(seconds=120)
    assert Message.objects.get().kind == "notify_attempt"
    borrower.refresh_from_db()
    assert borrower.state == "preempting"
    # The same plan again, as after a crash before the answer: no second claim, no second notice.
    assert cycles.run(NOW).reclaims == 0
    assert (Reclaim.objects.count(), Message.objects.count()) == (1, 1)


def test_who_starts_has_what_was_claimed_and_nobody_else_loses_a_claim(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also not who is planned and waits no more. Planted: claims of what starts stay; those of all
    that was planned are closed."""
    jobs = [a_job(company.nlp, bob, company.pool, gpus=8, now=NOW) for _ in range(3)]
    starts, is_held, waits = jobs
    for job in jobs:
        Reclaim.objects.create(
            job=job, cluster=company.cluster, slots=[], created_at=NOW, grace_until=NOW
        )
    Job.objects.filter(pk=is_held.pk).update(state=JobState.HELD)
    plan = Plan(0, starts=(a_start(starts, company), a_start(is_held, company)))
    use_plan(monkeypatch, plan)
    assert cycles.run(NOW).started == 1
    closed = dict(Reclaim.objects.values_list("job_id", "closed_at"))
    assert closed == {starts.pk: NOW, is_held.pk: None, waits.pk: None}


def test_whose_claim_is_given_up_may_claim_again_in_the_same_plan(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    place = (str(job.id), str(company.cluster.id), (Slot("ai-company-000", 8000),))
    use_plan(monkeypatch, Plan(0, reclaims=(PlannedReclaim(*place, (), 1),)))
    cycles.run(NOW)
    until = int(NOW.timestamp()) + 120
    plan = Plan(0, reclaims=(PlannedReclaim(*place, (), until),), dropped_claims=(str(job.id),))
    use_plan(monkeypatch, plan)
    assert cycles.run(NOW).reclaims == 1
    first, second = Reclaim.objects.order_by("created_at", "pk")
    assert (first.closed_at, second.closed_at) == (NOW, None)
    assert second.grace_until == NOW + timedelta(seconds=120)


def test_a_reclaim_whose_victim_has_ended_meanwhile_is_left_for_the_next_cycle(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    lender = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    borrower = a_job(company.inference, bob, company.pool, gpus=8, now=NOW)
    attempt = a_running_attempt(borrower, company)
    victim = Victim(str(attempt.id), str(borrower.id), str(company.inference.id), 8000, 120)
    planned = PlannedReclaim(
        str(lender.id), str(company.cluster.id), (Slot("ai-company-000", 8000),), (victim,), 1
    )

    def decide(memory: Memory, now: datetime) -> AsPlanned:
        Attempt.objects.filter(pk=attempt.pk).update(
            state="ended", ended_at=NOW, released_at=NOW, outcome="succeeded"
        )
        return AsPlanned(Plan(0, reclaims=(planned,)))

    monkeypatch.setattr(Memory, "decide", decide)
    assert cycles.run(NOW).reclaims == 0
    assert not Reclaim.objects.exists()


def test_one_that_was_made_smaller_since_the_snapshot_is_guaranteed_what_it_has(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the amount of the plan as it is, which takes the whole cycle back; dies here."""
    job = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    attempt = a_running_attempt(job, company)
    other = a_running_attempt(a_job(company.nlp, bob, company.pool, gpus=8, now=NOW), company)
    Attempt.objects.filter(pk=attempt.pk).update(mgpu=4000)
    classed = tuple(Classed(str(one.id), 8000) for one in (other, attempt))
    use_plan(monkeypatch, Plan(0, classed=classed))
    with CaptureQueriesContext(connection) as queries:
        cycles.run(NOW)
    assert dict(Attempt.objects.values_list("id", "guaranteed_mgpu")) == {
        attempt.id: 4000,
        other.id: 8000,
    }
    assert list(
        MeterEvent.objects.filter(attempt=attempt.id, kind="classed")
        .order_by("pk")
        .values_list("guaranteed_mgpu", flat=True)
    ) == [4000]
    (locked,) = (
        position
        for position, query in enumerate(queries)
        if "FROM jobs_attempt WHERE" in query["sql"] and "ORDER BY id FOR NO KEY" in query["sql"]
    )
    (written,) = (
        position for position, query in enumerate(queries) if "SET guaranteed_mgpu" in query["sql"]
    )
    assert locked < written


def test_the_forced_stop_comes_at_the_deadline_and_once(
    cycles: Cycles, company: Company, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = a_job(company.inference, bob, company.pool, gpus=8, now=NOW)
    attempt = a_running_attempt(job, company)
    deadline = NOW + timedelta(seconds=60)
    Attempt.objects.filter(pk=attempt.pk).update(
        state="stopping", stop_reason="preempted", notice_at=NOW, grace_until=deadline
    )
    use_plan(monkeypatch, Plan(0))
    cycles.run(deadline - timedelta(seconds=1))
    assert not Message.objects.exists()
    cycles.run(deadline)
    cycles.run(deadline + timedelta(seconds=1))
    assert [message.kind for message in Message.objects.all()] == ["stop_attempt"]


def test_the_snapshot_holds_what_is_not_released(company: Company, bob: User) -> None:
    job = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    attempt = a_running_attempt(job, company)
    Attempt.objects.filter(pk=attempt.pk).update(state="ended", ended_at=NOW, outcome="failed")
    (running,) = load_snapshot(NOW).running
    assert (running.attempt, running.phase, running.mgpu) == (str(attempt.id), "stopping", 8000)
    Attempt.objects.filter(pk=attempt.pk).update(released_at=NOW)
    assert load_snapshot(NOW).running == ()


def test_an_explanation_is_written_when_it_changes_only(
    cycles: Cycles, company: Company, bob: User
) -> None:
    everything = a_job(company.inference, bob, company.pool, gpus=8, nodes=4, now=NOW)
    a_running_attempt(everything, company)
    waiting = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    cycles.run(NOW)
    waiting.refresh_from_db()
    assert waiting.explanation["code"] == "waiting_for_reclaim"
    assert waiting.explanation["sentence"]
    assert waiting.explained_at == NOW
    # The claim is stored now; what the job is told does not change with the clock alone.
    later = NOW + timedelta(seconds=2)
    cycles.run(later)
    assert cycles.run(later).explained == 0


# What people do to jobs.


def test_a_held_job_does_not_start_until_it_is_released(
    cycles: Cycles, company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    held = hold_job(job.id, actor=actor_of(bob), now=NOW)
    assert held.state == "held"
    assert cycles.run(NOW).started == 0
    release_job(job.id, actor=actor_of(bob), now=NOW)
    assert cycles.run(NOW).started == 1


def test_a_job_that_was_never_sent_is_cancelled_at_once(
    cycles: Cycles, company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    cycles.run(NOW)
    cancelled = cancel_job(job.id, actor=actor_of(bob), now=NOW)
    assert (cancelled.state, cancelled.end_reason) == ("cancelled", "cancelled_by_user")
    attempt = job.attempts.get()
    assert (attempt.state, attempt.released_at) == ("ended", NOW)
    assert Message.objects.get().done_at == NOW


def test_a_job_that_may_have_been_sent_is_stopped_with_notice(
    cycles: Cycles, company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    cycles.run(NOW)
    Message.objects.update(sends=1)
    cancelled = cancel_job(job.id, actor=actor_of(bob), now=NOW)
    assert (cancelled.state, cancelled.cancel_requested_at) == ("starting", NOW)
    attempt = job.attempts.get()
    assert (attempt.state, attempt.grace_until) == ("stopping", NOW + timedelta(seconds=30))
    assert cancel_job(job.id, actor=actor_of(bob), now=NOW).cancel_requested_at == NOW


def test_a_stranger_sees_nothing_and_a_colleague_may_not_cancel(
    company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    charlie = an_actor(a_company("other").nlp, Role.ORGANIZATION_ADMIN, "charlie")
    finance = an_actor(company.organization, Role.FINANCE, "fin")
    for act in (cancel_job, hold_job, release_job):
        with pytest.raises(NotFound):
            act(job.id, actor=charlie, now=NOW)
        with pytest.raises(Forbidden):
            act(job.id, actor=finance, now=NOW)
    job.refresh_from_db()
    assert job.state == "queued"
    assert not JobEvent.objects.exists()


@pytest.mark.parametrize("asked_before", [None, NOW])
def test_what_has_ended_cannot_be_cancelled(
    company: Company, bob: User, asked_before: datetime | None
) -> None:
    """Also where somebody asked before it ended by itself."""
    job = a_job(company.nlp, bob, company.pool, now=NOW)
    Job.objects.filter(pk=job.pk).update(
        state="succeeded", ended_at=NOW, cancel_requested_at=asked_before
    )
    with pytest.raises(
        Conflict, match=r"already ended: succeeded\. There is nothing left to cancel\."
    ):
        cancel_job(job.id, actor=actor_of(bob), now=NOW)
    with pytest.raises(Conflict, match="Only a queued job can be held"):
        hold_job(job.id, actor=actor_of(bob), now=NOW)


def test_the_owner_of_a_victim_is_told_since_when_and_until_when(
    company: Company, bob: User
) -> None:
    job = a_job(company.inference, bob, company.pool, gpus=8, now=NOW)
    attempt = a_running_attempt(job, company)
    Job.objects.filter(pk=job.pk).update(state=JobState.PREEMPTING)
    Attempt.objects.filter(pk=attempt.pk).update(
        state="stopping",
        stop_reason="preempted",
        notice_at=NOW,
        grace_until=NOW + timedelta(seconds=300),
    )
    actor = actor_of(bob)
    told = explanation_of(get_job(job.id, actor=actor, now=NOW), actor=actor, now=NOW)
    assert told["sentence"] == (
        "Its GPUs are taken back: it is being stopped, by force at 2026-11-21T12:05:00Z. It got "
        "its notice at 2026-11-21T12:00:00Z. It queues again at its old place, unless it was "
        "submitted without requeue."
    )


def test_the_snapshot_counts_how_often_a_job_was_stopped_for_others(
    company: Company, bob: User
) -> None:
    """Not what was taken back before it ran, nor what ended for another reason."""
    job = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    other = a_job(company.inference, bob, company.pool, gpus=8, now=NOW)
    reclaim = Reclaim.objects.create(
        job=other,
        cluster=company.cluster,
        slots=[],
        created_at=NOW,
        grace_until=NOW,
        closed_at=NOW,
    )
    over = {"state": "ended", "ended_at": NOW, "released_at": NOW, "outcome": "preempted"}
    for number, more in enumerate(
        (
            {"reclaim": reclaim, "started_at": NOW},
            {"reclaim": reclaim, "started_at": None},
            {"started_at": NOW},
            {"reclaim": reclaim, "started_at": NOW},
        ),
        1,
    ):
        an_attempt(job, cluster=company.cluster, number=number, **over, **more)
    an_attempt(job, cluster=company.cluster, number=5, started_at=NOW)
    first = a_running_attempt(other, company)
    found = {run.attempt: run.preemptions for run in load_snapshot(NOW).running}
    assert found.pop(str(first.id)) == 0
    assert list(found.values()) == [2]

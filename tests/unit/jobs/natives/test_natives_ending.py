"""Jobs beside the portal: how they end, who may end them, and what is not done to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import IntegrityError, transaction

from billing.models import MeterAnomaly
from builders.loop_builders import Fenced, a_job
from builders.native_builders import (
    T0,
    AControl,
    a_native,
    a_waiting_native,
    at,
    decide,
    deliver,
    look,
    reasons,
    segments,
)
from builders.portal_builders import (
    NOW,
    Company,
    a_grant,
    a_user,
)
from clusters.models import ClusterNode
from connectors.natives import NativeRef
from connectors.protocol import (
    Listing,
    Outcome,
    WorkloadPhase,
)
from jobs.actions.cancellation import cancel_job, hold_job, release_job
from jobs.execution.observation import apply_listing
from jobs.execution.retention import forget_ended_attempts
from jobs.models import Attempt, Job, JobState
from outbox.models import Message
from primitives.errors import Conflict, Forbidden
from quotas.models import ClusterUser, Quota
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


# How it ends


@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [
        (Outcome.SUCCEEDED, "succeeded", None),
        (Outcome.FAILED, "failed", "exit_code"),
        (Outcome.TIMED_OUT, "timed_out", "time_limit"),
        (Outcome.STOPPED, "cancelled", "stopped_on_cluster"),
        (Outcome.NODE_FAILED, "failed", "node_failed"),
        (Outcome.PREEMPTED, "failed", "preempted"),
        (Outcome.START_FAILED, "failed", "rejected_by_cluster"),
    ],
)
@pytest.mark.usefixtures("bob")
def test_it_ends_as_the_cluster_says_and_never_queues(
    company: Company, control: AControl, outcome: Outcome, state: str, reason: str | None
) -> None:
    look(company, control, a_native())
    look(company, control, a_native(ended_s=30, outcome=outcome), at_s=31, previous_s=1)
    job = Job.objects.get()
    assert (job.state, job.end_reason, job.ended_at) == (state, reason, at(30))
    assert segments() == [(0, 30, 8000, 0)]
    assert MeterAnomaly.objects.count() == 0
    look(company, control, a_native(ended_s=30, outcome=outcome), at_s=32, previous_s=31)
    assert Job.objects.get().attempts.count() == 1


@pytest.mark.usefixtures("bob")
def test_gpus_are_held_while_it_completes(company: Company, control: AControl) -> None:
    look(company, control, a_native())
    look(company, control, a_native(phase=WorkloadPhase.STOPPING), at_s=9, previous_s=1)
    assert (Job.objects.get().state, Attempt.objects.get().released_at) == ("running", None)


@pytest.mark.usefixtures("bob")
def test_one_that_is_being_configured_is_in_use(company: Company, control: AControl) -> None:
    waiting = a_native(phase=WorkloadPhase.STARTING, started_s=None)
    look(company, control, waiting)
    assert (Job.objects.get().state, segments()) == ("starting", [])
    look(company, control, a_native(started_s=3), at_s=4, previous_s=1)
    assert (Job.objects.get().state, segments()) == ("running", [(3, None, 8000, 0)])


@pytest.mark.usefixtures("bob")
def test_accounting_is_asked_about_one_that_vanished(company: Company, control: AControl) -> None:
    look(company, control, a_native())
    control.accounting = {NativeRef("7", T0, "tg-bob"): a_native(ended_s=40)}
    for at_s in (61, 62):
        look(company, control, at_s=at_s, previous_s=60)
        assert (Job.objects.get().state, control.asked) == ("running", [])
    look(company, control, at_s=63, previous_s=60)
    assert (Job.objects.get().state, segments()) == ("succeeded", [(0, 40, 8000, 0)])


@pytest.mark.usefixtures("bob")
def test_nothing_is_concluded_of_a_native_while_accounting_is_silent(
    company: Company, control: AControl
) -> None:
    look(company, control, a_native())
    control.accounting = None
    for at_s in range(61, 70):
        look(company, control, at_s=at_s, previous_s=60)
    assert (Job.objects.get().state, Attempt.objects.get().missed_listings) == ("running", 2)


@pytest.mark.usefixtures("bob")
def test_one_that_nobody_knows_is_lost_and_nothing_is_stopped(
    company: Company, control: AControl
) -> None:
    """Should it turn up again it is nobody's: its GPUs are held outside. Planted: stopping it."""
    look(company, control, a_native())
    for at_s in (61, 62, 63):
        look(company, control, at_s=at_s, previous_s=60)
    job = Job.objects.get()
    assert (job.state, job.end_reason, segments()) == ("failed", "lost", [(0, 60, 8000, 0)])
    assert Message.objects.count() == 0
    assert reasons(look(company, control, a_native(), at_s=90)) == [("given_up", 8000)]


@pytest.mark.usefixtures("bob")
def test_a_run_that_slurm_requeued_is_over(company: Company, control: AControl) -> None:
    """It waits again under its number, and its next run is a job of its own."""
    look(company, control, a_native())
    again = replace(a_waiting_native("7"), submitted_at=T0 + 50)
    control.accounting = {
        NativeRef("7", T0, "tg-bob"): a_native(ended_s=50, outcome=Outcome.PREEMPTED)
    }
    for at_s in (61, 62, 63):
        look(company, control, again, at_s=at_s, previous_s=60)
    assert (Job.objects.get().state, Job.objects.get().end_reason) == ("failed", "preempted")
    look(company, control, a_native(submitted_s=50, started_s=70), at_s=71, previous_s=63)
    assert segments() == [(0, 50, 8000, 0), (70, None, 8000, 0)]


def test_mapping_and_team_are_those_of_its_start(
    company: Company, control: AControl, bob: User
) -> None:
    look(company, control, a_native())
    ClusterUser.objects.all().delete()
    use = look(company, control, a_native(), at_s=2, previous_s=1)
    assert (Job.objects.get().user, use.by_node) == (bob, {})


# What the portal does not do to it


@pytest.mark.usefixtures("bob")
def test_attempts_of_natives_are_not_looked_up_by_key(company: Company, control: AControl) -> None:
    """Planted: without the filter three listings of our own jobs lose it."""
    look(company, control, a_native())
    for at_s in (61, 62, 63):
        apply_listing(
            company.cluster,
            Listing(T0 + at_s, {}),
            connector=None,  # type: ignore[arg-type]
            previous_at=at(60),
            leadership=Fenced("observer"),  # type: ignore[arg-type]
            now=at(at_s),
        )
    assert (Job.objects.get().state, Attempt.objects.get().missed_listings) == ("running", 0)


def test_it_is_neither_held_nor_released(company: Company, control: AControl, bob: User) -> None:
    look(company, control, a_native())
    for act in (hold_job, release_job):
        with pytest.raises(Conflict, match="this one is running"):
            act(Job.objects.get().id, actor=actor_of(bob), now=NOW)


@pytest.mark.usefixtures("bob")
def test_its_cluster_is_not_asked_to_forget_it(company: Company, control: AControl) -> None:
    look(company, control, a_native(ended_s=1), at_s=2)
    assert Job.objects.get().state == "succeeded"
    assert forget_ended_attempts(now=at(90 * 86_400)) == 0


@pytest.mark.usefixtures("bob")
def test_the_database_refuses_a_native_job_that_waits(company: Company, control: AControl) -> None:
    look(company, control, a_native())
    for values in ({"state": JobState.QUEUED}, {"script": "exit 0"}):
        with (
            pytest.raises(IntegrityError, match="native_job_waits_only_where_we_start_it"),
            transaction.atomic(),
        ):
            Job.objects.update(**values)


# Cancelled by people, reclaimed by the arbiter


def test_its_owner_cancels_it(company: Company, control: AControl, bob: User) -> None:
    look(company, control, a_native())
    cancel_job(Job.objects.get().id, actor=actor_of(bob), now=at(5))
    ref = NativeRef("7", T0, "tg-bob")
    assert deliver(company, at(6)) == 1
    assert (control.notified, control.stopped) == ([ref], [])
    decide(at(35))
    assert deliver(company, at(36)) == 1
    assert control.stopped == [ref]
    look(company, control, a_native(ended_s=37, outcome=Outcome.STOPPED), at_s=38, previous_s=34)
    job = Job.objects.get()
    assert (job.state, job.end_reason) == ("cancelled", "cancelled_by_user")


def test_a_lead_cancels_it_and_a_colleague_may_not(
    company: Company, control: AControl, bob: User
) -> None:
    lead, colleague = (
        a_user(company.organization, "lead"),
        a_user(company.organization, "colleague"),
    )
    a_grant(lead, Role.TEAM_LEAD, company.nlp)
    a_grant(colleague, Role.AUDITOR, company.nlp)
    look(company, control, a_native())
    job = Job.objects.get()
    with pytest.raises(Forbidden):
        cancel_job(job.id, actor=actor_of(colleague), now=NOW)
    cancel_job(job.id, actor=actor_of(lead), now=NOW)
    assert Attempt.objects.get().stop_reason == "cancelled"


def test_a_cluster_that_is_away_is_told_again(
    company: Company, control: AControl, bob: User
) -> None:
    look(company, control, a_native())
    control.away = True
    cancel_job(Job.objects.get().id, actor=actor_of(bob), now=NOW)
    deliver(company, at(1))
    assert Message.objects.get().done_at is None
    control.away = False
    deliver(company, at(120))
    assert control.notified == [NativeRef("7", T0, "tg-bob")]


@pytest.mark.usefixtures("bob")
def test_an_ended_one_is_not_told_anything(company: Company, control: AControl, bob: User) -> None:
    look(company, control, a_native())
    cancel_job(Job.objects.get().id, actor=actor_of(bob), now=NOW)
    look(company, control, a_native(ended_s=3), at_s=4, previous_s=1)
    deliver(company, at(5))
    assert (control.notified, Message.objects.get().done_at is None) == ([], False)


def test_a_borrowing_native_gives_back(company: Company, control: AControl, bob: User) -> None:
    """nlp runs natively on all 32 GPUs; inference submits here and gets what is its own."""
    look(
        company,
        control,
        *(a_native(str(n + 1), nodes=(f"ai-company-{n:03d}",), started_s=n) for n in range(4)),
        at_s=5,
    )
    decide(at(6))
    assert sorted(
        Attempt.objects.values_list("native_id", "guaranteed_mgpu"), key=lambda row: row[0]
    ) == [("1", 8000), ("2", 0), ("3", 0), ("4", 0)]
    wanted = a_job(company.inference, bob, company.pool, gpus=8, now=at(7))
    report = decide(at(7))
    assert (report.reclaims, report.victims) == (1, 1)
    victim = Attempt.objects.get(stop_reason="preempted")
    assert (victim.state, victim.grace_until) == ("stopping", at(307))
    assert victim.native_id != "1"
    deliver(company, at(8))
    assert victim.native_id is not None
    ref = NativeRef(victim.native_id, T0, "tg-bob")
    assert control.notified == [ref]
    decide(at(307))
    deliver(company, at(308))
    assert control.stopped == [ref]
    number = int(victim.native_id)
    look(
        company,
        control,
        *(
            a_native(
                str(n + 1),
                nodes=(f"ai-company-{n:03d}",),
                started_s=n,
                ended_s=310 if n + 1 == number else None,
                outcome=Outcome.STOPPED if n + 1 == number else None,
            )
            for n in range(4)
        ),
        at_s=311,
        previous_s=306,
    )
    victim.refresh_from_db()
    job = Job.objects.get(pk=victim.job_id)
    assert (job.state, job.end_reason, victim.released_at) == ("failed", "preempted", at(310))
    ClusterNode.objects.update(seen_at=at(311))
    company.cluster.seen_at = at(311)
    company.cluster.save()
    ClusterUser.objects.filter(user=bob).update(name="tg-bob")
    assert decide(at(312)).started == 1
    wanted.refresh_from_db()
    assert wanted.state == "starting"


def test_a_native_within_the_guarantee_is_never_taken(
    company: Company, control: AControl, bob: User
) -> None:
    Quota.objects.filter(node=company.organization).update(borrow_limit_mgpu=0)
    natives = [a_native("1", gpus=8)]
    look(company, control, *natives)
    a_job(company.inference, bob, company.pool, gpus=8, nodes=4, now=NOW)
    assert decide(at(2)).reclaims == 0

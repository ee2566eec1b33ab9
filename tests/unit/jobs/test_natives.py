"""Jobs that people gave to a cluster beside the portal: whose they are and what becomes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction

from arbiter.snapshot import Device
from billing.models import MeterAnomaly, MeteredAttempt, UsageSegment
from builders.loop_builders import Fenced, a_job
from builders.native_builders import T0, AControl, a_native, a_slurm, a_waiting_native
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_grant,
    a_priority_class,
    a_quota,
    a_user,
    an_organization,
)
from clusters.models import CapacitySegment, ClusterNode
from clusters.observation import record_inventory
from clusters.outside import OutsideUse, record_outside_use
from clusters.queries import devices, shares_of
from connectors.natives import NativeRef
from connectors.protocol import (
    Inventory,
    Listing,
    NativeWorkload,
    NodeCapacity,
    Outcome,
    RankSlot,
    Unread,
    WorkloadPhase,
)
from jobs.arbitration import CycleReport, Cycles
from jobs.cancellation import cancel_job, hold_job, release_job
from jobs.dispatch import handlers
from jobs.intentions import stop_shard
from jobs.models import Attempt, Job, JobEvent, JobOrigin, JobState
from jobs.natives import ADOPTED_MAX, apply_natives, attempt_id, job_id, plain_name
from jobs.observation import apply_listing
from jobs.retention import forget_ended_attempts
from outbox.delivery import deliver_due
from outbox.models import Message
from primitives.errors import Conflict, Forbidden
from quotas.models import ClusterUser, PriorityClass, Quota
from tenants.access import actor_of
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    company = a_company()
    a_slurm(company.cluster)
    return company


@pytest.fixture
def bob(company: Company) -> User:
    bob = a_user(company.organization, "bob")
    ClusterUser.objects.create(cluster=company.cluster, user=bob, name="tg-bob")
    return bob


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> AControl:
    control = AControl()
    monkeypatch.setattr("connectors.registry.NATIVE_CONTROLS", {"slurm": lambda _: control})
    return control


def at(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


def look(
    company: Company,
    control: AControl,
    *natives: NativeWorkload,
    at_s: int = 1,
    previous_s: int | None = -1,
) -> OutsideUse:
    use = apply_natives(
        company.cluster,
        Listing(T0 + at_s, {}, natives=natives),
        control=control,
        previous_at=None if previous_s is None else at(previous_s),
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=at(at_s),
    )
    record_outside_use(company.cluster, use)
    return use


def decide(now: datetime = NOW) -> CycleReport:
    return Cycles(Fenced("arbiter")).run(now)  # type: ignore[arg-type]


def deliver(company: Company, now: datetime = NOW) -> int:
    observer = Fenced("observer")
    return deliver_due(
        handlers(observer, lambda: now, lambda cluster: None),  # type: ignore[arg-type,return-value]
        shard=stop_shard(company.cluster.pk),
        clock=lambda: now,
        fence=observer.fence,
    )


def segments() -> list[tuple[int, int | None, int, int]]:
    return [
        (
            int(row.start.timestamp()) - T0,
            None if row.end is None else int(row.end.timestamp()) - T0,
            row.guaranteed_mgpu,
            row.borrowed_mgpu,
        )
        for row in UsageSegment.objects.order_by("start")
    ]


def reasons(use: OutsideUse) -> list[tuple[str, int]]:
    return [(holder.reason, holder.mgpu) for holder in use.holders]


# Whose it is


def test_a_running_native_becomes_a_job_of_its_team(
    company: Company, control: AControl, bob: User
) -> None:
    use = look(company, control, a_native(time_limit_s=600, is_preemptible=True))
    job = Job.objects.get()
    attempt = job.attempts.get()
    assert (job.origin, job.state, job.team, job.user) == ("native", "running", company.nlp, bob)
    assert (job.name, job.script, job.mgpu, job.node_count) == ("train.sh", "", 8000, 1)
    assert (job.time_limit_s, job.is_preemptible, job.is_requeueable) == (600, True, False)
    assert (job.priority_class.name, job.attempt_number) == ("normal", 1)
    assert (job.submitted_at, job.started_at) == (NOW, NOW)
    assert attempt.id == attempt_id(company.cluster, a_native())
    assert (attempt.native_id, attempt.cluster_user, attempt.epoch) == ("7", "tg-bob", 0)
    assert attempt.slots == [{"node": "ai-company-000", "mgpu": 8000}]
    assert (attempt.mgpu, attempt.guaranteed_mgpu) == (8000, 8000)
    assert segments() == [(0, None, 8000, 0)]
    assert (use.by_node, use.holders, use.pending) == ({}, (), 0)
    assert list(JobEvent.objects.order_by("id").values_list("event", flat=True)) == [
        "submitted_on_cluster",
        "started",
    ]


@pytest.mark.usefixtures("bob")
def test_a_repeated_listing_changes_nothing(company: Company, control: AControl) -> None:
    look(company, control, a_native())
    before = list(Attempt.objects.values()), list(Job.objects.values())
    look(company, control, a_native(), at_s=2, previous_s=1)
    assert (list(Attempt.objects.values()), list(Job.objects.values())) == before
    assert JobEvent.objects.count() == 2


@pytest.mark.usefixtures("bob")
def test_a_number_that_is_given_again_is_another_job(company: Company, control: AControl) -> None:
    look(company, control, a_native())
    look(
        company,
        control,
        a_native(ended_s=5),
        a_native(submitted_s=9, started_s=9),
        at_s=10,
        previous_s=1,
    )
    assert list(Job.objects.order_by("id").values_list("state", flat=True)) == [
        "succeeded",
        "running",
    ]


def test_ids_follow_from_what_the_cluster_says(company: Company) -> None:
    """The job's is a version 7 of its submit time, so that lists have it in its place."""
    one = job_id(company.cluster, a_native())
    assert one == job_id(company.cluster, a_native(name="other", gpus=1))
    assert (one.version, one.variant, one.int >> 80) == (7, "specified in RFC 4122", T0 * 1000)
    assert one != job_id(company.cluster, a_native("9"))
    later = job_id(company.cluster, a_native(submitted_s=1))
    assert one < later
    assert attempt_id(company.cluster, a_native()).version == 5


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        (a_native(account="ai-company_research_nobody"), "unknown_account"),
        (a_native(account="ai-company_research"), "unknown_account"),
        (a_native(account="root"), "unknown_account"),
        (a_native(account="AI-company_research_nlp"), "unknown_account"),
        (a_native(account="ai-company/research/nlp"), "unknown_account"),
        (a_native(user="tg-stranger"), "unknown_user"),
        (a_native(user="tg-charlie"), "other_organization"),
        (a_native(user="tg-root"), "other_organization"),
    ],
)
@pytest.mark.usefixtures("bob")
def test_what_is_nobodys_is_held_outside(
    company: Company, control: AControl, native: NativeWorkload, reason: str
) -> None:
    for name, user in (
        ("tg-charlie", a_user(an_organization("other-company"), "charlie")),
        ("tg-root", a_user(None, "operator")),
    ):
        ClusterUser.objects.create(cluster=company.cluster, user=user, name=name)
    use = look(company, control, native)
    assert Job.objects.count() == 0
    assert use.by_node == {("ai-company-000", "h100"): 8000}
    assert reasons(use) == [(reason, 8000)]


@pytest.mark.usefixtures("bob")
def test_one_that_holds_gpus_of_several_pools_counts_for_nobody(
    company: Company, control: AControl
) -> None:
    parts = [
        replace(a_native(f"7 ({n})", nodes=(f"ai-company-00{n}",)), is_mixed=True) for n in (0, 1)
    ]
    use = look(company, control, *parts)
    assert reasons(use) == [("several_pools", 16_000)]
    assert use.by_node == {("ai-company-000", "h100"): 8000, ("ai-company-001", "h100"): 8000}
    assert Attempt.objects.count() == 0


@pytest.mark.usefixtures("bob")
def test_without_a_priority_class_nothing_is_counted(company: Company, control: AControl) -> None:
    PriorityClass.objects.all().delete()
    assert reasons(look(company, control, a_native())) == [("no_priority_class", 8000)]


@pytest.mark.parametrize(
    ("names", "expected"), [(["high", "normal", "low"], "normal"), (["high", "low"], "low")]
)
@pytest.mark.usefixtures("bob")
def test_it_has_the_class_of_those_who_name_none(
    company: Company, control: AControl, names: list[str], expected: str
) -> None:
    PriorityClass.objects.all().delete()
    for order, name in enumerate(reversed(names)):
        a_priority_class(company.organization, name, order=order)
    look(company, control, a_native())
    assert Job.objects.get().priority_class.name == expected


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("train", "train"),
        ("", "job 7"),
        ("\x1b[31mred\x00\n", "[31mred"),
        ("\u202egpj.exe", "gpj.exe"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("\ud800 x", "x"),
        ("x" * 5000, "x" * 200),
    ],
)
def test_names_are_anybodys_text(given: str, shown: str) -> None:
    assert plain_name(a_native(name=given)) == shown


@pytest.mark.usefixtures("bob")
def test_uneven_nodes_are_told_as_their_sum(company: Company, control: AControl) -> None:
    native = replace(
        a_native(), slots=(RankSlot("ai-company-000", 8000), RankSlot("ai-company-001", 2000))
    )
    look(company, control, native)
    job = Job.objects.get()
    assert (job.mgpu, job.node_count, job.type) == (10_000, 1, "distributed")
    assert [slot["mgpu"] for slot in job.attempts.get().slots] == [8000, 2000]


@pytest.mark.usefixtures("bob")
def test_what_waits_in_slurm_is_only_counted(company: Company, control: AControl) -> None:
    use = look(company, control, a_waiting_native(), a_waiting_native("9", user="tg-x", gpus=4))
    assert (use.pending, use.pending_mgpu, use.by_node, Job.objects.count()) == (2, 12_000, {}, 0)


def test_two_jobs_of_one_team_share_its_guarantee(
    company: Company, control: AControl, bob: User
) -> None:
    """The first to start has it until the arbiter says otherwise; what is over leaves it."""
    look(
        company,
        control,
        a_native("1", gpus=6, submitted_s=0),
        a_native("2", gpus=4, submitted_s=0, started_s=1, nodes=("ai-company-001",)),
        a_native("3", gpus=2, started_s=0, ended_s=1, nodes=("ai-company-002",)),
    )
    assert list(
        Attempt.objects.order_by("native_id").values_list("guaranteed_mgpu", flat=True)
    ) == [
        6000,
        2000,
        2000,
    ]


@pytest.mark.usefixtures("bob")
def test_so_many_at_once_and_the_others_next_time(
    company: Company, control: AControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ADOPTED_MAX == 500
    monkeypatch.setattr("jobs.natives.ADOPTED_MAX", 2)
    natives = [a_native(str(number), gpus=1) for number in range(1, 4)]
    use = look(company, control, *natives)
    assert (Job.objects.count(), reasons(use)) == (2, [("not_yet_counted", 1000)])
    use = look(company, control, *natives, at_s=5, previous_s=1)
    assert (Job.objects.count(), use.holders) == (3, ())
    assert sorted(segments(), key=str) == [
        (0, None, 1000, 0),
        (0, None, 1000, 0),
        (5, None, 1000, 0),
    ]


# Since when it counts


@pytest.mark.usefixtures("bob")
def test_nobody_is_charged_for_time_in_which_it_was_outside(
    company: Company, control: AControl
) -> None:
    """Its user is mapped while it runs. Planted: charging from its start."""
    ClusterUser.objects.all().update(name="tg-other")
    look(company, control, a_native())
    ClusterUser.objects.all().update(name="tg-bob")
    look(company, control, a_native(), at_s=60, previous_s=59)
    job = Job.objects.get()
    assert (job.started_at, job.attempts.get().granted_at) == (NOW, at(60))
    assert segments() == [(60, None, 8000, 0)]
    assert JobEvent.objects.last().event == "counted_from_here"  # type: ignore[union-attr]


@pytest.mark.usefixtures("bob")
def test_what_ran_before_the_cluster_was_seen_counts_from_then(
    company: Company, control: AControl
) -> None:
    look(company, control, a_native(), a_native("9", ended_s=3), at_s=60, previous_s=None)
    assert segments() == [(60, None, 8000, 0)]


@pytest.mark.usefixtures("bob")
def test_what_began_while_nobody_looked_counts_from_its_start(
    company: Company, control: AControl
) -> None:
    look(company, control, a_native(started_s=10), at_s=600, previous_s=0)
    assert segments() == [(10, None, 8000, 0)]


@pytest.mark.usefixtures("bob")
def test_a_job_that_came_and_went_between_two_listings_is_charged(
    company: Company, control: AControl
) -> None:
    use = look(company, control, a_native(started_s=2, ended_s=4), at_s=5, previous_s=1)
    job = Job.objects.get()
    assert (job.state, job.ended_at, use.by_node) == ("succeeded", at(4), {})
    assert segments() == [(2, 4, 8000, 0)]
    look(company, control, a_native(started_s=2, ended_s=4), at_s=6, previous_s=5)
    assert Job.objects.count() == 1


@pytest.mark.usefixtures("bob")
def test_what_ended_outside_stays_outside(company: Company, control: AControl) -> None:
    """It ran unmapped, ended, and its user is mapped while it is still listed."""
    look(company, control, a_native(ended_s=4), at_s=10, previous_s=5)
    assert Job.objects.count() == 0


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


# What is held outside


@pytest.mark.usefixtures("bob")
def test_gpus_that_are_held_outside_are_not_offered(company: Company, control: AControl) -> None:
    look(company, control, a_native(user="tg-x", gpus=6))
    fleet, _ = devices(now=NOW, stale_after=timedelta(seconds=15))
    cluster, pool = str(company.cluster.pk), str(company.pool.pk)
    assert fleet[:2] == (
        Device(cluster, "ai-company-000", pool, 2000, 6000),
        Device(cluster, "ai-company-001", pool, 8000),
    )
    look(company, control, at_s=2)
    fleet, _ = devices(now=NOW, stale_after=timedelta(seconds=15))
    assert fleet[0] == Device(cluster, "ai-company-000", pool, 8000)


def test_nothing_starts_where_somebody_else_is(
    company: Company, control: AControl, bob: User
) -> None:
    """All four nodes are partly taken: a whole node waits, and is never said to be impossible."""
    natives = [
        a_native(str(n + 1), user="tg-x", gpus=1, nodes=(f"ai-company-{n:03d}",)) for n in range(4)
    ]
    look(company, control, *natives)
    job = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    assert decide(at(2)).started == 0
    job.refresh_from_db()
    assert job.explanation is not None
    assert job.explanation["code"] != "never_fits"
    look(company, control, *natives[1:], at_s=3)
    assert decide(at(4)).started == 1


@pytest.mark.usefixtures("bob")
def test_capacity_that_is_held_outside_is_not_idle(company: Company, control: AControl) -> None:
    record_inventory(
        company.cluster,
        Inventory(
            T0,
            tuple(
                NodeCapacity(f"ai-company-{n:03d}", "h100", 8000, True, "idle") for n in range(4)
            ),
        ),
        now=NOW,
    )
    look(company, control, a_native(user="tg-x"), at_s=10)
    look(company, control, a_native(user="tg-x"), at_s=11, previous_s=10)
    look(company, control, at_s=30, previous_s=11)
    assert [
        (int(s.start.timestamp()) - T0, s.capacity_mgpu, s.outside_mgpu)
        for s in CapacitySegment.objects.order_by("start")
    ] == [(0, 32_000, 0), (10, 32_000, 8000), (30, 32_000, 0)]


@pytest.mark.parametrize(
    "odd",
    [
        {"started_at": 1 << 62},
        {"submitted_at": -(1 << 40)},
        {"native_id": "9" * 201},
        # Only the database finds these out.
        {"time_limit_s": 1 << 70},
    ],
)
def test_one_that_makes_no_sense_does_not_hold_up_the_others(
    company: Company, control: AControl, bob: User, odd: dict[str, object]
) -> None:
    """Planted: without the check of times and without the second try one by one, all stay out."""
    complaints: list[str] = []
    use = apply_natives(
        company.cluster,
        Listing(
            T0 + 1,
            {},
            natives=(
                a_native("7"),
                replace(a_native("8", nodes=("ai-company-001",)), **odd),  # type: ignore[arg-type]
                a_native("9", nodes=("ai-company-002",)),
            ),
        ),
        control=control,
        previous_at=at(-1),
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=at(1),
        complain=complaints.append,
    )
    assert set(Attempt.objects.values_list("native_id", flat=True)) == {"7", "9"}
    assert reasons(use) == [("makes_no_sense", 8000)]
    assert use.by_node == {("ai-company-001", "h100"): 8000}
    assert len(complaints) == 1
    assert complaints[0].startswith(
        "What the cluster says of some of its jobs makes no sense, so that they are not counted "
    )


def test_jobs_that_cannot_be_read_are_told(company: Company, control: AControl) -> None:
    complaints: list[str] = []
    apply_natives(
        company.cluster,
        Listing(T0 + 1, {}, unread=tuple(Unread(str(n), "no state") for n in range(7))),
        control=control,
        previous_at=None,
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=at(1),
        complain=complaints.append,
    )
    assert complaints == [
        "What the cluster says of some of its jobs makes no sense, so that they are not counted "
        "for anybody: job 0: no state; job 1: no state; job 2: no state; job 3: no state; job 4: "
        "no state and 2 more. Look at them with scontrol."
    ]


def test_what_may_be_there_unseen_is_told_apart(company: Company, control: AControl) -> None:
    complaints: list[str] = []
    apply_natives(
        company.cluster,
        Listing(T0 + 1, {}, unread=(Unread(None, "the queue is empty"),)),
        control=control,
        previous_at=None,
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=at(1),
        complain=complaints.append,
    )
    assert complaints == ["Nothing that is missing there is called lost now: the queue is empty."]


def test_a_native_that_cannot_be_read_is_not_missing(
    company: Company, control: AControl, bob: User
) -> None:
    look(company, control, a_native("7"))
    for at_s in (2, 3, 4):
        apply_natives(
            company.cluster,
            Listing(T0 + at_s, {}, unread=(Unread("7", "no state"),)),
            control=control,
            previous_at=at(at_s - 1),
            leadership=Fenced("observer"),  # type: ignore[arg-type]
            now=at(at_s),
        )
    assert Attempt.objects.get().state == "running"


@pytest.mark.usefixtures("bob")
def test_the_cluster_says_who_holds_what(company: Company, control: AControl) -> None:
    look(
        company,
        control,
        a_native("1", account="root", gpus=1),
        a_native("2", account="root", gpus=2),
        a_native("3", user="\x1bevil\u202e", gpus=4),
        a_native("4"),
        a_waiting_native(),
    )
    company.cluster.refresh_from_db()
    assert company.cluster.outside == {
        "running": 3,
        "running_mgpu": 7000,
        "pending": 1,
        "pending_mgpu": 8000,
        "holders": [
            {
                "account": "ai-company_research_nlp",
                "user": " evil ",
                "pool": "h100",
                "reason": "unknown_user",
                "mgpu": 4000,
                "workloads": 1,
            },
            {
                "account": "root",
                "user": "tg-bob",
                "pool": "h100",
                "reason": "unknown_account",
                "mgpu": 3000,
                "workloads": 2,
            },
        ],
    }
    assert shares_of([company.cluster])[company.cluster.pk][0].outside_mgpu == 7000


def test_a_team_without_quota_borrows_all_of_it(
    company: Company, control: AControl, bob: User
) -> None:
    Quota.objects.filter(node=company.nlp).delete()
    look(company, control, a_native())
    assert segments() == [(0, None, 0, 8000)]
    metered = MeteredAttempt.objects.get()
    assert (metered.team_id, metered.user_id, metered.mgpu) == (company.nlp.pk, bob.pk, 8000)
    assert isinstance(metered.pk, UUID)
    assert Job.objects.get().origin == JobOrigin.NATIVE
    a_quota(company.nlp, company.pool, 8)

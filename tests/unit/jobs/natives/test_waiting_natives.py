"""Jobs that people gave to a cluster beside the portal, and that wait there for the arbiter."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from billing.models import UsageSegment
from builders.gated_cluster import AGatedCluster, a_gated_native
from builders.loop_builders import Fenced, a_job
from builders.native_builders import T0
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_grant,
    a_user,
    an_organization,
)
from clusters.observation import record_inventory
from clusters.outside import OutsideUse, record_outside_use
from connectors.errors import ClusterUnavailable
from connectors.natives import NativeRef, NativeSize, size_of
from connectors.protocol import Inventory, NodeCapacity, Outcome, RankSlot, Unread, WorkloadPhase
from jobs.arbitration import Cycles
from jobs.cancellation import cancel_job, hold_job, release_job
from jobs.dispatch import handlers
from jobs.intentions import start_shard, stop_shard
from jobs.models import Attempt, Job, JobEvent, JobState, attempt_id
from jobs.natives import job_id
from jobs.waiting_natives import CALLS_MAX, Memory, apply_waiting_natives
from outbox.delivery import deliver_due
from outbox.quarantine import begin_quarantine
from quotas.cluster_users import SOMEBODY
from quotas.models import Quota
from tenants.access import actor_of
from tenants.models import User, UserKind
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@dataclass
class Story:
    """The product's steps around one gated cluster, on its clock."""

    company: Company
    cluster: AGatedCluster
    memory: Memory = field(default_factory=Memory)
    complaints: list[str] = field(default_factory=list)
    previous_s: int = -1

    def __post_init__(self) -> None:
        self.arbiter = Cycles(Fenced("arbiter"))  # type: ignore[arg-type]
        self.observer = Fenced("observer")

    @property
    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.cluster.now_s)

    def at(self, seconds: int) -> Story:
        self.cluster.now_s = seconds
        return self

    def look(self) -> OutsideUse:
        """The observer's step."""
        nodes = tuple(
            NodeCapacity(f"ai-company-{n:03}", "h100", 8000, is_schedulable=True, state="Ready")
            for n in range(4)
        )
        inventory = Inventory(T0 + self.cluster.now_s, nodes)
        record_inventory(self.company.cluster, inventory, now=self.now)
        use = apply_waiting_natives(
            self.company.cluster,
            self.cluster.listing(),
            control=self.cluster,
            starter=self.cluster,
            previous_at=NOW + timedelta(seconds=self.previous_s),
            leadership=self.observer,  # type: ignore[arg-type]
            now=self.now,
            memory=self.memory,
            complain=self.complaints.append,
        )
        self.previous_s = self.cluster.now_s
        record_outside_use(self.company.cluster, use)
        return use

    def decide(self) -> None:
        """The arbiter's step."""
        self.arbiter.run(self.now)

    def deliver(self) -> None:
        """What was decided is carried out."""
        for shard in (start_shard(self.company.cluster.pk), stop_shard(self.company.cluster.pk)):
            deliver_due(
                handlers(self.observer, lambda: self.now, lambda _: self.cluster),  # type: ignore[arg-type,return-value]
                shard=shard,
                clock=lambda: self.now,
                fence=self.observer.fence,
            )

    def turn(self, seconds: int) -> OutsideUse:
        """Everything once, at this second."""
        use = self.at(seconds).look()
        self.decide()
        self.deliver()
        return use

    def job(self) -> Job:
        """The native job, as it is now."""
        return Job.objects.get(origin="native")

    def states(self) -> list[tuple[int, str, str | None]]:
        """Number, state and outcome of its attempts."""
        return list(
            Attempt.objects.filter(job=self.job())
            .order_by("number")
            .values_list("number", "state", "outcome")
        )


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    company = a_company()
    company.cluster.kind = "kubernetes"
    company.cluster.save(update_fields=["kind"])
    cluster = AGatedCluster()
    monkeypatch.setattr("connectors.registry.NATIVE_CONTROLS", {"kubernetes": lambda _: cluster})
    return Story(company, cluster)


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


def events() -> list[str]:
    return list(JobEvent.objects.order_by("id").values_list("event", flat=True))


# It waits


def test_one_that_waits_is_a_queued_job_of_its_team(story: Story) -> None:
    native = a_gated_native(submitted_s=-5, gpus=4, ranks=2, time_limit_s=600)
    story.cluster.add(native)
    use = story.at(1).look()
    job = story.job()
    assert job.id == job_id(story.company.cluster, native)
    assert (job.state, job.team, job.pool) == ("queued", story.company.nlp, story.company.pool)
    assert (job.mgpu_per_node, job.node_count, job.mgpu) == (4000, 2, 8000)
    assert (job.name, job.type, job.script) == ("train", "distributed", "")
    assert (job.time_limit_s, job.is_requeueable, job.attempt_number) == (600, True, 0)
    assert (job.cluster, job.native_id) == (story.company.cluster, "uid-1")
    assert (job.priority_class.name, job.submitted_at) == ("normal", NOW - timedelta(seconds=5))
    assert Attempt.objects.count() == 0
    assert segments() == []
    assert (use.pending, use.holders) == (0, ())
    event = JobEvent.objects.get()
    assert (event.event, event.detail["user"]) == ("submitted_on_cluster", "somebody")


def test_a_repeated_listing_changes_nothing(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    before = list(Job.objects.values()), JobEvent.objects.count()
    story.at(2).look()
    assert (list(Job.objects.values()), JobEvent.objects.count()) == before
    assert story.cluster.calls == []


def test_who_is_not_known_is_one_user_of_the_organization_who_cannot_sign_in(story: Story) -> None:
    story.cluster.add(a_gated_native("uid-1"), a_gated_native("uid-2", user="else"))
    story.at(1).look()
    user = User.objects.get(username=SOMEBODY)
    assert (user.organization, user.kind) == (story.company.organization, UserKind.SERVICE)
    assert (user.is_active, user.has_usable_password()) == (False, False)
    assert {job.user for job in Job.objects.all()} == {user}


def test_who_signs_in_here_by_that_name_is_its_user(story: Story) -> None:
    bob = a_user(story.company.organization, "bob")
    a_user(an_organization("other"), "eve")
    story.cluster.add(
        a_gated_native("uid-1", user="bob@ai-company"), a_gated_native("uid-2", user="eve@other")
    )
    story.at(1).look()
    assert Job.objects.get(native_id="uid-1").user == bob
    assert Job.objects.get(native_id="uid-2").user.username == SOMEBODY


@pytest.mark.parametrize(
    ("ranks", "each", "count"),
    [
        ((8000,), 8000, 1),
        ((8000,) * 16, 8000, 16),
        ((0, 8000, 8000), 8000, 2),
        ((4000, 8000, 8000), 4000, 5),
        ((500, 750), 250, 5),
    ],
)
def test_uneven_ranks_are_counted_exactly(ranks: tuple[int, ...], each: int, count: int) -> None:
    assert size_of("h100", ranks) == NativeSize("h100", each, count)
    assert each * count == sum(ranks)


def test_what_belongs_to_no_team_waits_outside(story: Story) -> None:
    story.cluster.add(a_gated_native(account="default"), a_gated_native("uid-2", account=""))
    use = story.turn(1)
    assert Job.objects.count() == 0
    assert (use.pending, use.pending_mgpu) == (2, 16_000)
    assert story.cluster.asked("start") == []


def test_one_whose_pool_is_not_known_is_told_what_to_do(story: Story) -> None:
    story.cluster.add(a_gated_native(pool=""))
    use = story.turn(1)
    assert (Job.objects.count(), use.pending) == (0, 1)
    assert story.cluster.asked("start") == []
    (told,) = story.cluster.told
    assert told[:2] == ("uid-1", "unknown_account")
    assert "node selector of one kind of GPU" in told[2]


def test_one_that_asks_for_no_gpus_is_started_at_once(story: Story) -> None:
    story.cluster.add(a_gated_native(gpus=0))
    story.turn(1)
    assert (Job.objects.count(), story.cluster.asked("start")) == (0, ["uid-1"])
    story.turn(2)
    assert story.cluster.asked("start") == ["uid-1"]
    assert story.cluster.granted == {"uid-1": None}


def test_whose_it_is_may_be_unknown_for_a_while(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.cluster.away = True
    story.at(1).look()
    assert Job.objects.count() == 0
    story.cluster.away = False
    story.at(2).look()
    assert story.job().state == "queued"


def test_the_database_lets_only_those_wait_that_we_start(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    for values in ({"native_id": None}, {"cluster": None}, {"origin": "portal"}):
        with pytest.raises(IntegrityError, match="native"), transaction.atomic():
            Job.objects.update(**values)


# It runs


def test_it_is_started_when_it_is_granted_and_metered_while_it_runs(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.turn(1)
    assert story.cluster.asked("start") == ["uid-1"]
    attempt = Attempt.objects.get()
    assert (attempt.id, attempt.number) == (attempt_id(story.job().id, 1), 1)
    assert (attempt.state, attempt.native_id, attempt.epoch) == ("starting", "uid-1", 1)
    assert attempt.release_sent_at is not None
    story.turn(2)
    assert (story.job().state, story.states()) == ("running", [(1, "running", None)])
    assert segments() == [(1, None, 8000, 0)]
    story.at(9)
    story.cluster.finish("uid-1")
    story.turn(10)
    job = story.job()
    assert (job.state, job.end_reason) == ("succeeded", None)
    assert job.ended_at == NOW + timedelta(seconds=9)
    assert segments() == [(1, 9, 8000, 0)]
    assert story.cluster.asked("start") == ["uid-1"]
    assert events() == ["submitted_on_cluster", "granted", "started", "succeeded"]


def test_a_failed_one_stays_failed(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.turn(1)
    story.turn(2)
    story.cluster.finish("uid-1", Outcome.FAILED)
    story.turn(3)
    story.turn(4)
    assert (story.job().state, story.job().end_reason) == ("failed", "exit_code")
    assert story.cluster.asked("start") == ["uid-1"]


def over_quota(story: Story) -> Job:
    """One that runs has all of the guarantee, and nothing may be borrowed."""
    Quota.objects.update(borrow_limit_mgpu=0)
    story.cluster.add(a_gated_native(), a_gated_native("uid-2", submitted_s=1))
    for second in range(1, 5):
        story.turn(second)
    return Job.objects.get(native_id="uid-2")


def test_one_over_quota_waits_and_is_told_why_once(story: Story) -> None:
    job = over_quota(story)
    assert (job.state, job.attempt_number, story.cluster.asked("start")) == ("queued", 0, ["uid-1"])
    assert job.explanation is not None
    assert job.explanation["code"] == "borrow_limit_reached"
    assert story.cluster.told == [("uid-2", "borrow_limit_reached", job.explanation["sentence"])]


def test_a_reason_of_which_only_numbers_change_is_told_again_after_a_minute(story: Story) -> None:
    over_quota(story)
    for second, sentence in ((5, "It waits, 2 ahead."), (6, "It waits, 1 ahead.")):
        Job.objects.filter(native_id="uid-2").update(
            explanation={"code": "borrow_limit_reached", "sentence": sentence}
        )
        story.at(second).look()
    assert len(story.cluster.told) == 1
    story.at(62).look()
    assert story.cluster.told[1:] == [("uid-2", "borrow_limit_reached", "It waits, 1 ahead.")]
    Job.objects.filter(native_id="uid-2").update(
        explanation={"code": "budget_exhausted", "sentence": "It has none."}
    )
    story.at(63).look()
    assert story.cluster.told[2:] == [("uid-2", "budget_exhausted", "It has none.")]


def test_a_start_that_the_cluster_forgot_is_told_again(story: Story) -> None:
    story.cluster.lazy = True
    story.cluster.add(a_gated_native())
    story.turn(1)
    story.cluster.lazy = False
    assert story.cluster.natives["uid-1"].phase is WorkloadPhase.HELD
    story.at(2).look()
    assert story.cluster.asked("start") == ["uid-1", "uid-1"]
    story.at(3).look()
    assert (story.job().state, story.states()) == ("running", [(1, "running", None)])


def test_a_start_waits_for_a_cluster_that_is_away(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    story.decide()
    story.cluster.away = True
    story.deliver()
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.native_id) == ("reserved", None)
    assert attempt.release_sent_at is not None
    story.cluster.away = False
    # Whichever comes first: the observer, or what delivers.
    story.at(2).look()
    attempt.refresh_from_db()
    assert (attempt.state, attempt.native_id) == ("starting", "uid-1")
    assert story.cluster.asked("start") == ["uid-1"]


def test_what_the_cluster_does_not_start_is_given_back_after_five_minutes(story: Story) -> None:
    story.cluster.lazy = True
    story.cluster.add(replace(a_gated_native(), message="topology allows 1 of 2"))
    for second in (1, 30, 80, 130, 180, 230, 280, 329, 331):
        story.turn(second)
    story.turn(332)
    assert story.states() == [(1, "ended", "not_started")]
    assert (story.job().state, segments()) == ("queued", [])
    assert "stop" in {kind for kind, _ in story.cluster.calls}


# Its owner changes it


def shape(job: Job) -> tuple[str, int, int, str]:
    return job.state, job.mgpu_per_node, job.node_count, job.type


def test_one_that_waits_follows_what_it_asks_for(story: Story) -> None:
    """Mutant: counted when it was first listed; eight GPUs were granted, and 64 started."""
    Quota.objects.update(borrow_limit_mgpu=0)
    story.cluster.add(a_gated_native(gpus=2))
    story.at(1).look()
    assert shape(story.job()) == ("queued", 2000, 1, "training")
    story.cluster.resize("uid-1", gpus=8, ranks=2)
    story.turn(2)
    assert shape(story.job()) == ("queued", 8000, 2, "distributed")
    assert story.cluster.asked("start") == []
    story.cluster.resize("uid-1", gpus=4, ranks=1)
    story.turn(3)
    assert shape(story.job()) == ("starting", 4000, 1, "training")
    assert story.cluster.granted == {"uid-1": NativeSize("h100", 4000, 1)}
    changes = JobEvent.objects.filter(event="resized_on_cluster").order_by("id")
    assert [event.detail for event in changes] == [
        {"mgpu": 16_000, "before_mgpu": 2000},
        {"mgpu": 4000, "before_mgpu": 16_000},
    ]


def test_one_that_is_held_here_follows_it_too(story: Story) -> None:
    story.cluster.add(a_gated_native(gpus=2))
    story.at(1).look()
    hold_job(story.job().id, actor=actor_of(_lead(story)), now=story.now)
    story.cluster.resize("uid-1", gpus=8, ranks=2)
    story.at(2).look()
    assert shape(story.job()) == ("held", 8000, 2, "distributed")


def test_one_that_grew_after_its_grant_is_not_started_and_queues_as_it_is_now(
    story: Story,
) -> None:
    """Mutants: the start repeated whatever it asked for; its attempt kept with the old size; its
    job resized one look later, so that it was granted as it was again and again."""
    Quota.objects.update(borrow_limit_mgpu=0)
    story.cluster.add(a_gated_native(gpus=2))
    story.at(1).look()
    story.decide()
    story.cluster.resize("uid-1", gpus=8, ranks=4)
    story.deliver()
    # What grew meanwhile is not started with the grant of what it was.
    assert story.cluster.granted == {"uid-1": NativeSize("h100", 2000, 1)}
    assert story.cluster.natives["uid-1"].phase is WorkloadPhase.HELD
    story.at(2).look()
    assert story.states() == [(1, "ended", "preempted")]
    assert Attempt.objects.get().message == (
        "What it asks for was changed while it waited; it queues again as it is now."
    )
    assert story.cluster.asked("stop") == ["uid-1"]
    assert shape(story.job()) == ("queued", 8000, 4, "distributed")
    story.decide()
    story.deliver()
    story.turn(3)
    assert shape(story.job()) == ("queued", 8000, 4, "distributed")
    assert Attempt.objects.count() == 1
    assert story.cluster.asked("start") == ["uid-1"]
    assert segments() == []
    Quota.objects.update(borrow_limit_mgpu=24_000)
    story.turn(4)
    story.turn(5)
    assert story.states() == [(1, "ended", "preempted"), (2, "running", None)]
    assert segments() == [(4, None, 8000, 24_000)]


@pytest.mark.parametrize(("gpus", "pool"), [(8, "another"), (0, ""), (2**60, "h100")])
def test_one_that_changes_to_what_cannot_be_is_told_and_not_started(
    story: Story, gpus: int, pool: str
) -> None:
    story.cluster.add(a_gated_native(gpus=2))
    story.at(1).look()
    story.cluster.resize("uid-1", gpus=gpus, ranks=1, pool=pool)
    story.turn(2)
    story.turn(3)
    assert story.cluster.natives["uid-1"].phase is WorkloadPhase.HELD
    story.turn(4)
    # Its cluster is avoided for a while, so that it is not granted again at once.
    story.turn(5)
    assert story.states() == [(1, "ended", "not_started")]
    assert shape(story.job()) == ("queued", 2000, 1, "training")
    assert story.cluster.told[-1][1] == "changed_too_much"
    assert "delete it and submit it again" in story.cluster.told[-1][2]


# It is preempted


def preempted(story: Story) -> Job:
    """A native borrows all, and the other team takes half of it back."""
    story.cluster.add(a_gated_native(ranks=4))
    story.turn(1)
    story.turn(2)
    assert segments() == [(1, None, 8000, 24_000)]
    bob = a_user(story.company.organization, "bob")
    other = a_job(story.company.inference, bob, story.company.pool, gpus=8, nodes=2, now=story.now)
    story.turn(3)
    return other


def test_after_a_preemption_it_waits_here_and_runs_again_as_the_next_attempt(
    story: Story,
) -> None:
    other = preempted(story)
    assert (story.job().state, story.cluster.asked("notify")) == ("preempting", ["uid-1"])
    grace_until = Attempt.objects.get(job=story.job()).grace_until
    assert grace_until is not None
    forced_s = int(grace_until.timestamp()) - T0
    story.turn(forced_s)
    assert story.cluster.asked("stop") == ["uid-1"]
    story.at(forced_s + 1).look()
    job = story.job()
    assert (job.state, job.submitted_at) == ("queued", NOW)
    assert story.states() == [(1, "ended", "stopped")]
    assert [segment[1] for segment in segments()][-1] == forced_s + 1
    starts = story.cluster.asked("start")
    story.at(forced_s + 2).look()
    # It stays off until it is granted again.
    assert story.cluster.asked("start") == starts
    cancel_job(other.id, actor=actor_of(_lead(story)), now=story.now)
    story.turn(forced_s + 3)
    story.turn(forced_s + 4)
    assert story.job().state == "running"
    assert story.states() == [(1, "ended", "stopped"), (2, "running", None)]
    assert Attempt.objects.get(number=2, job=story.job()).native_id == "uid-1"
    assert segments()[-1][:2] == (forced_s + 3, None)


def _lead(story: Story) -> User:
    lead = a_user(story.company.organization, "lead")
    a_grant(lead, Role.ORGANIZATION_ADMIN, story.company.organization)
    return lead


def test_one_that_ends_by_itself_after_its_notice_has_ended(story: Story) -> None:
    preempted(story)
    story.at(5)
    story.cluster.finish("uid-1")
    story.turn(6)
    assert (story.job().state, story.states()) == ("succeeded", [(1, "ended", "succeeded")])
    story.turn(7)
    assert story.cluster.asked("cancel") == []


def test_one_that_its_cluster_evicts_is_kept_off_until_it_is_granted_again(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.turn(1)
    story.turn(2)
    story.at(5)
    story.cluster.evict("uid-1")
    story.look()
    assert story.cluster.asked("stop") == ["uid-1"]
    assert (story.job().state, story.states()) == ("queued", [(1, "ended", "preempted")])
    assert segments() == [(1, 5, 8000, 0)]
    story.turn(6)
    story.turn(7)
    assert (story.job().state, story.job().attempt_number) == ("running", 2)


def test_of_a_time_in_which_nobody_looked_only_its_own_is_charged(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.turn(1)
    story.turn(2)
    story.at(100)
    story.cluster.evict("uid-1")
    story.at(5000).look()
    assert (story.job().state, segments()) == ("queued", [(1, 100, 8000, 0)])


def test_it_is_not_closed_before_its_cluster_keeps_it_off(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.turn(1)
    story.turn(2)
    story.cluster.evict("uid-1")
    story.cluster.away = True
    story.at(3).look()
    assert (story.job().state, story.states()) == ("running", [(1, "running", None)])
    story.cluster.away = False
    story.at(4).look()
    assert story.job().state == "queued"


# It is cancelled


def test_one_that_waits_and_is_cancelled_here_is_ended_there(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    cancel_job(story.job().id, actor=actor_of(_lead(story)), now=story.now)
    story.turn(2)
    assert story.cluster.asked("cancel") == ["uid-1"]
    assert (story.job().state, story.job().end_reason) == ("cancelled", "cancelled_by_user")
    use = story.turn(3)
    assert story.cluster.asked("cancel") == ["uid-1"]
    assert story.cluster.asked("start") == []
    assert use.pending == 0


def test_one_that_runs_and_is_cancelled_here_is_stopped_then_ended_there(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.turn(1)
    story.turn(2)
    cancel_job(story.job().id, actor=actor_of(_lead(story)), now=story.now)
    story.turn(3)
    assert story.cluster.asked("notify") == ["uid-1"]
    story.turn(33)
    assert story.cluster.asked("stop")[0] == "uid-1"
    story.turn(34)
    assert (story.job().state, segments()) == ("cancelled", [(1, 34, 8000, 0)])
    story.turn(35)
    assert story.cluster.asked("cancel") == ["uid-1"]


def test_one_that_is_cancelled_before_it_was_sent_never_starts(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    story.decide()
    assert story.job().state == "starting"
    cancel_job(story.job().id, actor=actor_of(_lead(story)), now=story.now)
    story.deliver()
    story.turn(2)
    assert (story.job().state, story.cluster.asked("start")) == ("cancelled", [])
    assert story.cluster.asked("cancel") == ["uid-1"]


def test_one_that_is_held_here_waits_until_it_is_released(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    lead = actor_of(_lead(story))
    hold_job(story.job().id, actor=lead, now=story.now)
    story.turn(2)
    assert (story.job().state, story.cluster.asked("start")) == ("held", [])
    assert [told[1] for told in story.cluster.told] == ["held_by_user"]
    release_job(story.job().id, actor=lead, now=story.now)
    story.turn(3)
    assert story.cluster.asked("start") == ["uid-1"]


def test_one_that_its_owner_removes_while_it_waits_is_cancelled(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    story.cluster.remove("uid-1")
    story.turn(2)
    job = story.job()
    assert (job.state, job.end_reason) == ("cancelled", "removed_on_cluster")
    assert (job.ended_at, Attempt.objects.count()) == (NOW + timedelta(seconds=2), 0)
    assert story.cluster.asked("find_ended") == ["uid-1"]


def test_what_could_not_be_read_is_not_called_removed(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    listing = replace(story.cluster.listing(), natives=(), unread=(Unread("uid-1", "odd"),))
    story.cluster.listing = lambda: listing  # type: ignore[method-assign]
    story.turn(2)
    assert story.job().state in ("queued", "starting")
    assert story.cluster.asked("find_ended") == []


def test_one_that_its_owner_removes_while_it_runs_is_metered_up_to_then(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.turn(1)
    story.turn(2)
    story.turn(5)
    story.cluster.remove("uid-1")
    for second in (6, 7, 8, 9):
        story.turn(second)
    job = story.job()
    assert (job.state, job.end_reason) == ("cancelled", "removed_on_cluster")
    assert story.states() == [(1, "ended", "lost")]
    assert segments() == [(1, 5, 8000, 0)]


def test_one_that_ends_while_it_waits_was_ended_there(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    story.cluster.finish("uid-1", Outcome.STOPPED)
    story.turn(2)
    assert (story.job().state, story.job().end_reason) == ("cancelled", "removed_on_cluster")


# What runs without a grant


def running(native_id: str = "uid-1", *, started_s: int = 0, ranks: int = 1) -> object:
    return replace(
        a_gated_native(native_id, ranks=ranks),
        phase=WorkloadPhase.RUNNING,
        started_at=T0 + started_s,
        slots=tuple(RankSlot(f"ai-company-{n:03}", 8000) for n in range(ranks)),
    )


def test_what_was_found_running_counts_from_then_on(story: Story) -> None:
    story.cluster.add(running(started_s=-100))  # type: ignore[arg-type]
    story.at(1).look()
    job = story.job()
    assert (job.state, job.attempt_number, job.native_id) == ("running", 1, "uid-1")
    assert Attempt.objects.get().id == attempt_id(job.id, 1)
    assert segments() == [(1, None, 8000, 0)]
    story.cluster.finish("uid-1")
    story.turn(2)
    assert story.job().state == "succeeded"


def test_one_that_runs_though_it_is_queued_here_is_counted(story: Story) -> None:
    """As after a restore from a backup: the grant is forgotten, what it started is not."""
    story.cluster.add(a_gated_native())
    story.at(1).look()
    story.cluster.natives["uid-1"] = running(started_s=2)  # type: ignore[assignment]
    story.at(3).look()
    assert (story.job().state, story.states()) == ("running", [(1, "running", None)])
    assert segments() == [(2, None, 8000, 0)]
    story.at(8)
    story.cluster.evict("uid-1")
    story.look()
    assert (story.job().state, segments()) == ("queued", [(2, 8, 8000, 0)])


def test_one_that_runs_though_it_is_held_here_is_stopped(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    hold_job(story.job().id, actor=actor_of(_lead(story)), now=story.now)
    story.cluster.natives["uid-1"] = running(started_s=2)  # type: ignore[assignment]
    use = story.at(3).look()
    assert story.cluster.asked("stop") == ["uid-1"]
    assert [(holder.reason, holder.mgpu) for holder in use.holders] == [("ended_and_back", 8000)]
    assert Attempt.objects.count() == 0


def test_one_that_runs_though_it_was_cancelled_is_ended_and_held_outside(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    cancel_job(story.job().id, actor=actor_of(_lead(story)), now=story.now)
    story.cluster.natives["uid-1"] = running(started_s=2)  # type: ignore[assignment]
    use = story.at(3).look()
    assert story.cluster.asked("cancel") == ["uid-1"]
    assert use.by_node == {("ai-company-000", "h100"): 8000}


def test_a_foreign_pod_is_held_outside(story: Story) -> None:
    story.cluster.add(replace(running("pod-1"), account="", user=""))  # type: ignore[type-var,arg-type]
    use = story.at(1).look()
    assert use.by_node == {("ai-company-000", "h100"): 8000}
    assert (Job.objects.count(), segments()) == (0, [])
    assert story.cluster.calls == []


# Bounds


def test_only_so_many_are_asked_for_after_one_listing(story: Story) -> None:
    count = CALLS_MAX + 5
    story.cluster.add(*(a_gated_native(f"uid-{n:03}", pool="") for n in range(count)))
    story.at(1).look()
    assert len(story.cluster.told) == CALLS_MAX
    story.at(2).look()
    assert sorted(told[0] for told in story.cluster.told) == [f"uid-{n:03}" for n in range(count)]


def granted(story: Story, count: int) -> list[str]:
    """So many that were granted and sent, and that their cluster does not start."""
    story.cluster.lazy = True
    names = [f"uid-{n:03}" for n in range(count)]
    story.cluster.add(*(a_gated_native(name, gpus=1) for name in names))
    story.turn(1)
    assert Attempt.objects.filter(state="starting").count() == count
    story.cluster.calls.clear()
    return names


def test_starts_that_are_repeated_come_round(story: Story) -> None:
    """Mutant: always the first twenty; those behind them were never told again."""
    names = granted(story, CALLS_MAX + 5)
    story.at(2).look()
    assert len(story.cluster.asked("start")) == CALLS_MAX
    story.at(3).look()
    asked = story.cluster.asked("start")
    assert len(asked) == 2 * CALLS_MAX
    assert sorted(set(asked)) == names


def test_one_that_is_refused_does_not_stop_the_others(story: Story) -> None:
    """Mutant: a refusal taken for a cluster that is away; nothing behind it was started."""
    names = granted(story, 3)
    story.cluster.lazy = False
    first = min(Job.objects.all(), key=lambda job: job.id).native_id
    assert first is not None
    story.cluster.refuses = {first}
    story.at(2).look()
    assert sorted(story.cluster.asked("start")) == names
    held = [
        one.native_id for one in story.cluster.natives.values() if one.phase is WorkloadPhase.HELD
    ]
    assert held == [first]


def test_one_whose_start_is_refused_is_given_back(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.cluster.refuses = {"uid-1"}
    story.turn(1)
    assert story.states() == [(1, "starting", None)]
    for second in (*range(2, 303, 50), 303):
        story.turn(second)
    assert Attempt.objects.get().stop_reason == "withdrawn"


def test_a_cluster_that_is_away_is_asked_once_and_the_next_time_for_another(story: Story) -> None:
    names = granted(story, 3)
    tried: list[str] = []

    def start(ref: NativeRef, granted: NativeSize | None) -> None:
        tried.append(ref.native_id)
        raise ClusterUnavailable("away")

    story.cluster.start = start  # type: ignore[method-assign]
    for second in (2, 3, 4):
        story.at(second).look()
        assert len(tried) == second - 1
    assert sorted(tried) == names


def test_in_quarantine_nothing_is_started_or_ended_there(story: Story) -> None:
    story.cluster.add(a_gated_native(), a_gated_native("uid-2", gpus=0), a_gated_native("uid-3"))
    story.turn(1)
    story.cluster.calls.clear()
    story.cluster.lazy = True
    cancelled = Job.objects.get(native_id="uid-3")
    Job.objects.filter(pk=cancelled.pk).update(state=JobState.CANCELLED, ended_at=NOW)
    Attempt.objects.filter(job=cancelled).update(
        state="ended", outcome="stopped", ended_at=NOW, released_at=NOW
    )
    begin_quarantine("restored", since=NOW, now=NOW)
    for native_id in ("uid-1", "uid-2", "uid-3"):
        story.cluster.natives[native_id] = replace(
            story.cluster.natives[native_id], phase=WorkloadPhase.HELD, slots=(), started_at=None
        )
    story.at(2).look()
    assert {kind for kind, _ in story.cluster.calls} <= {"explain"}

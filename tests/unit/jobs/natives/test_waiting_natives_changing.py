"""Jobs that wait on their cluster and are changed there, or preempted: they wait again."""

from __future__ import annotations

import pytest

from builders.gated_cluster import a_gated_native
from builders.loop_builders import a_job
from builders.native_builders import T0
from builders.portal_builders import NOW, a_user
from builders.waiting_story import Story, lead_of, segments
from connectors.natives import NativeSize
from connectors.protocol import WorkloadPhase
from jobs.actions.cancellation import cancel_job, hold_job
from jobs.models import Attempt, Job, JobEvent
from quotas.models import Quota
from tenants.access import actor_of

pytestmark = pytest.mark.django_db


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
    hold_job(story.job().id, actor=actor_of(lead_of(story)), now=story.now)
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
        "Its request was changed while it waited. It was requeued with the new request."
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
    cancel_job(other.id, actor=actor_of(lead_of(story)), now=story.now)
    story.turn(forced_s + 3)
    story.turn(forced_s + 4)
    assert story.job().state == "running"
    assert story.states() == [(1, "ended", "stopped"), (2, "running", None)]
    assert Attempt.objects.get(number=2, job=story.job()).native_id == "uid-1"
    assert segments()[-1][:2] == (forced_s + 3, None)


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

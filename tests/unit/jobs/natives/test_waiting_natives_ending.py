"""Jobs that wait on their cluster: cancelled or removed; and what runs there without a grant."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from builders.gated_cluster import a_gated_native
from builders.native_builders import T0
from builders.portal_builders import NOW
from builders.waiting_story import Story, lead_of, segments
from connectors.protocol import Outcome, RankSlot, Unread, WorkloadPhase
from jobs.actions.cancellation import cancel_job, hold_job, release_job
from jobs.models import Attempt, Job, attempt_id
from tenants.access import actor_of

pytestmark = pytest.mark.django_db


# It is cancelled


def test_one_that_waits_and_is_cancelled_here_is_ended_there(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    cancel_job(story.job().id, actor=actor_of(lead_of(story)), now=story.now)
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
    cancel_job(story.job().id, actor=actor_of(lead_of(story)), now=story.now)
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
    cancel_job(story.job().id, actor=actor_of(lead_of(story)), now=story.now)
    story.deliver()
    story.turn(2)
    assert (story.job().state, story.cluster.asked("start")) == ("cancelled", [])
    assert story.cluster.asked("cancel") == ["uid-1"]


def test_one_that_is_held_here_waits_until_it_is_released(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    lead = actor_of(lead_of(story))
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
    hold_job(story.job().id, actor=actor_of(lead_of(story)), now=story.now)
    story.cluster.natives["uid-1"] = running(started_s=2)  # type: ignore[assignment]
    use = story.at(3).look()
    assert story.cluster.asked("stop") == ["uid-1"]
    assert [(holder.reason, holder.mgpu) for holder in use.holders] == [("ended_and_back", 8000)]
    assert Attempt.objects.count() == 0


def test_one_that_runs_though_it_was_cancelled_is_ended_and_held_outside(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    cancel_job(story.job().id, actor=actor_of(lead_of(story)), now=story.now)
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

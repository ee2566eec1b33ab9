"""How many calls for what waits on a cluster are made at once, and what a refused one holds up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders.gated_cluster import a_gated_native
from builders.portal_builders import NOW
from builders.waiting_story import Story, segments
from connectors.errors import ClusterUnavailable
from connectors.natives import NativeRef, NativeSize
from connectors.protocol import WorkloadPhase
from jobs.models import Attempt, Job, JobState
from jobs.natives.asking_natives import CALLS_MAX
from outbox.quarantine import begin_quarantine

pytestmark = pytest.mark.django_db


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


def test_one_that_gets_no_pods_is_given_back_and_costs_nothing(story: Story) -> None:
    """Mutant: left alone. Pod Security refused its Pods, and its GPUs were held for ever."""
    story.cluster.add(a_gated_native())
    story.turn(1)
    refused = replace(
        story.cluster.natives["uid-1"],
        phase=WorkloadPhase.STARTING,
        slots=(),
        started_at=None,
        is_stuck=True,
        message="The cluster does not start it: no.",
    )
    story.cluster.natives["uid-1"] = refused
    for second in range(2, 302, 20):
        story.turn(second)
    assert story.states() == [(1, "starting", None)]
    # It passed for a moment.
    story.cluster.natives["uid-1"] = replace(refused, is_stuck=False)
    story.turn(310)
    story.cluster.natives["uid-1"] = refused
    for second in range(320, 620, 20):
        story.turn(second)
    assert story.states() == [(1, "starting", None)]
    story.turn(620)
    assert story.cluster.asked("stop") == ["uid-1"]
    story.cluster.natives["uid-1"] = replace(refused, phase=WorkloadPhase.HELD, is_stuck=False)
    story.turn(621)
    job = story.job()
    assert (job.state, story.states()) == ("queued", [(1, "ended", "not_started")])
    assert Attempt.objects.get().message == (
        "Withdrawn after 5 minutes. The cluster does not start it: no."
    )
    assert segments() == []
    # It is not granted again at once, and its owner reads why.
    story.turn(622)
    story.turn(623)
    assert len(story.states()) == 1
    assert story.cluster.told[-1][:2] == ("uid-1", "cluster_unavailable")
    assert story.cluster.told[-1][2].startswith(
        "Withdrawn after 5 minutes. The cluster does not start it: no. No cluster"
    )


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

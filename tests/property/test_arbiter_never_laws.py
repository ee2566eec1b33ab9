"""The law of `why_never`: it answers as a cycle does in which the job is alone."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import event, given
from hypothesis import strategies as st

from arbiter import Policy, decide, why_never
from arbiter.api.plan import Code
from arbiter.api.snapshot import Level, PriorityClass, QueuedJob
from builders.arbiter_builders import GPU
from builders.arbiter_worlds import FEATURES, empty_worlds, teams


@st.composite
def cases(draw: st.DrawFn) -> tuple:  # type: ignore[type-arg]
    """A world without jobs, and a job that often asks for more than there is."""
    world = draw(empty_worlds())
    counts_resources = draw(st.booleans())
    world = replace(
        world,
        devices=tuple(
            replace(device, cpu_milli=draw(st.integers(0, 9)) * 1_000 if counts_resources else None)
            for device in world.devices
        ),
        priority_classes=(PriorityClass("hi", 9, team_cap_mgpu=2 * GPU), PriorityClass("lo", 1)),
        clusters=draw(st.sampled_from([world.clusters, world.clusters, frozenset({"c0"})])),
    )
    job = QueuedJob(
        id="j",
        team=draw(st.sampled_from([*teams(world), *teams(world), "nobody"])),
        user="u",
        pool="p",
        mgpu_per_node=draw(st.integers(1, 5)) * GPU,
        node_count=draw(st.integers(1, 3)),
        priority_class=draw(st.sampled_from(["lo", "hi"])),
        submitted_at=0,
        clusters=draw(st.sampled_from([None, None, frozenset({"c0"}), frozenset({"c1"})])),
        features=draw(st.sampled_from([None, *FEATURES])),
        required_topology=draw(st.sampled_from([None, Level.RACK])),
        cpu_milli=draw(st.sampled_from([None, 4_000, 8_000])) if counts_resources else None,
    )
    return world, job


@given(cases())
def test_it_says_what_a_cycle_with_the_job_alone_says(case: tuple) -> None:  # type: ignore[type-arg]
    """Planted: the class's cap forgotten; CPU and memory not counted; every cluster taken as one
    that accepts starts; the numbers of an unknown team left out."""
    world, job = case
    plan = decide(replace(world, queued=(job,)), Policy())
    expected = next((one for one in plan.waiting if one.code is Code.NEVER_FITS), None)
    event("never" if expected else "some day")
    found = why_never(
        job,
        nodes=world.nodes,
        quotas=world.quotas,
        priority_classes=world.priority_classes,
        devices=world.devices,
        clusters=world.clusters,
    )
    assert found == expected

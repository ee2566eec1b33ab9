"""Slices and fractions of GPUs count as what they are, to the milli-GPU."""

from __future__ import annotations

from dataclasses import replace

from arbiter.api.plan import Code
from arbiter.api.policy import Policy
from arbiter.api.snapshot import Device, PriorityClass, QueuedJob, Quota
from arbiter.cycle.decide import decide
from builders.arbiter_builders import NOW, a_queued, a_snapshot

#: A seventh of a GPU, as a cluster that counts them so gives it out.
SLICE = 142
NODE = Device("alpha", "n1", "h100", 7 * SLICE)


def slices(count: int, *, of: int = 1) -> list[QueuedJob]:
    return [
        replace(a_queued(f"s{i}", "o/a", submitted_at=NOW - 100 + i), mgpu_per_node=of * SLICE)
        for i in range(count)
    ]


def quota(mgpu: int, *, borrow: int | None = None) -> list[Quota]:
    return [
        Quota(node, "h100", mgpu, borrow_limit_mgpu=limit)
        for node, limit in (("o", None), ("o/a", borrow))
    ]


def test_a_gpu_in_slices_holds_as_many_as_there_are() -> None:
    """Mutant: slices are rounded to whole GPUs."""
    plan = decide(a_snapshot(quotas=quota(500), devices=[NODE], queued=slices(8)), Policy())
    assert [start.job for start in plan.starts] == [f"s{i}" for i in range(7)]
    assert {slot.mgpu for start in plan.starts for slot in start.slots} == {SLICE}
    # What is metered as guaranteed is the guarantee, to the milli-GPU.
    assert sum(start.guaranteed_mgpu for start in plan.starts) == 500
    (waiting,) = plan.waiting
    assert (waiting.code, waiting.numbers["free_mgpu"]) == (Code.WAITING_FOR_FREE_GPUS, 0)


def test_limits_hold_to_the_slice() -> None:
    limited = a_snapshot(quotas=quota(284, borrow=141), devices=[NODE], queued=slices(4))
    plan = decide(limited, Policy())
    assert [start.job for start in plan.starts] == ["s0", "s1"]
    assert plan.waiting[0].code is Code.BORROW_LIMIT_REACHED
    capped = [PriorityClass("normal", 10, team_cap_mgpu=3 * SLICE - 1)]
    plan = decide(
        a_snapshot(quotas=quota(0), devices=[NODE], queued=slices(4), classes=capped), Policy()
    )
    assert [start.job for start in plan.starts] == ["s0", "s1"]
    assert plan.waiting[0].code is Code.CLASS_CAP_REACHED


def test_several_slices_are_of_one_node() -> None:
    """Four nodes with two free each hold no job of three."""
    nodes = [replace(NODE, node=f"n{i}", capacity_mgpu=2 * SLICE) for i in range(4)]
    plan = decide(a_snapshot(quotas=quota(0), devices=nodes, queued=slices(1, of=3)), Policy())
    (waiting,) = plan.waiting
    assert (waiting.code, waiting.numbers["could_ever_mgpu"]) == (Code.NEVER_FITS, 0)


def test_slices_come_with_their_part_of_the_cpus() -> None:
    """Rounded down, as Kubernetes is asked for them: so they always go into a node together."""
    node = replace(NODE, cpu_milli=8_000, cpu_milli_per_gpu=8_048, memory_mib=None)
    asks = [*slices(7), replace(slices(8)[7], cpu_milli=1)]
    plan = decide(a_snapshot(quotas=quota(0), devices=[node], queued=asks), Policy())
    assert len(plan.starts) == 7

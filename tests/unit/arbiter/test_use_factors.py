"""Use in a class with a use factor counts at a discount (R-115)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arbiter.api.plan import Code
from arbiter.api.snapshot import PriorityClass, Snapshot
from arbiter.fairshare.fair_tree import counted_mgpu
from builders.arbiter_builders import CLASSES, GPU, a_queued, a_running, a_snapshot, devices, slots
from builders.arbiter_plans import plan_of, started, why

NOTHING = {"o": 0, "o/a": 0, "o/b": 0}


def at(percent: int) -> tuple[PriorityClass, ...]:
    """The standard classes, of which `low` counts so much."""
    return tuple(
        replace(cls, use_factor_percent=percent) if cls.id == "low" else cls for cls in CLASSES
    )


def a_race(percent: int, *, runs: str = "low") -> Snapshot:
    """a runs 4 GPUs since a moment ago, b 3 of class normal; one GPU is free, both want it."""
    return replace(
        a_snapshot(
            quotas=NOTHING,
            devices=devices(1),
            running=[
                a_running("ra", "o/a", slots(0, 1, gpus=4), priority=runs),
                a_running("rb", "o/b", slots(0, 1, gpus=3)),
            ],
            queued=[a_queued("a", "o/a", priority="low"), a_queued("b", "o/b")],
        ),
        priority_classes=at(percent),
    )


@pytest.mark.parametrize(("percent", "first"), [(100, "b"), (76, "b"), (74, "a"), (50, "a")])
def test_the_first_hour_of_a_class_counts_at_its_factor(percent: int, first: str) -> None:
    """4 GPUs at 50 % are 2, fewer than 3.

    Planted: the factor left out of the charges of running jobs.
    """
    assert started(plan_of(a_race(percent))) == [first]
    assert started(plan_of(a_race(percent, runs="normal"))) == ["b"]


def test_a_start_is_charged_at_its_factor_in_its_own_cycle() -> None:
    """Of 4 free GPUs a gets all but one at 25 %: its three starts charge less than one of b.

    Planted: starts of the cycle charged in full.
    """

    def wins(percent: int) -> list[str]:
        snapshot = a_snapshot(
            quotas=NOTHING,
            devices=devices(1, gpus=4),
            queued=[
                *(a_queued(f"a{i}", "o/a", priority="low") for i in range(4)),
                *(a_queued(f"b{i}", "o/b") for i in range(4)),
            ],
        )
        return sorted(started(plan_of(replace(snapshot, priority_classes=at(percent)))))

    assert wins(100) == ["a0", "a1", "b0", "b1"]
    assert wins(25) == ["a0", "a1", "a2", "b0"]


def test_the_reason_says_so() -> None:
    """Planted: said of classes that count in full."""
    told = why(plan_of(a_race(90)), "a")
    assert (told.code, told.numbers["use_factor_percent"]) == (Code.BEHIND_FAIR_SHARE, 90)
    assert "use_factor_percent" not in why(plan_of(a_race(100)), "a").numbers


def test_it_is_rounded_down() -> None:
    third = PriorityClass("third", 1, use_factor_percent=33)
    assert [counted_mgpu(mgpu, third) for mgpu in (1, 3, 4, GPU)] == [0, 0, 1, 330]
    assert counted_mgpu(7, None) == 7

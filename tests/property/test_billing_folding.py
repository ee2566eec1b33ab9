"""Laws of the meter's fold (R-97).

Mutants tried, each of which died here: the latest start instead of the first recorded, changes
of class after the end counted, a class told at the very start not counted for it, no cut of an
amount above the holding, `lost` before `ended`, classes of one second in no order, an end at
the start taken for usage; a size before the start forgotten, the granted size kept, sizes of one
second in no order, the guaranteed part not cut to the size; the first `anew` instead of the latest,
one after the end counted, one at the end not, one before the start counted.

Against: a fault after the end, unpaid use beside a fault, unpaid use above what is borrowed, a loss
that ended as a fault, an early preemption that frees only the rest.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from billing.folding import EARLY, Event, EventKind, Segment, Unpaid, fold

DAY = datetime(2026, 11, 1, tzinfo=UTC)
MGPU = 4

seconds = st.integers(0, 12)  # small, so that times coincide in most examples
kinds: st.SearchStrategy[EventKind] = st.sampled_from(["started", "ended", "lost"])


#: Unpaid use of at most two times that do not overlap.
unpaid_uses = st.lists(seconds, min_size=4, max_size=4).map(
    lambda edges: [
        Unpaid(DAY + timedelta(seconds=start), DAY + timedelta(seconds=end), 1 + start % 3)
        for start, end in [tuple(sorted(edges)[:2]), tuple(sorted(edges)[2:])]
        if start < end
    ]
)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Facts of one attempt, recorded in any order; most have a start."""
    told: list[tuple[EventKind, int, int | None]] = []
    if draw(st.integers(0, 9)) > 0:
        told.append(("started", draw(st.integers(0, 4)), None))
    told += [(kind, draw(seconds), None) for kind in draw(st.lists(kinds, max_size=3))]
    told += [
        ("classed", at, amount)
        for at, amount in draw(st.lists(st.tuples(seconds, st.integers(-1, MGPU + 2)), max_size=6))
    ]
    told += [
        ("sized", at, size)
        for at, size in draw(st.lists(st.tuples(seconds, st.integers(1, MGPU + 3)), max_size=3))
    ]
    told += [("anew", at, None) for at in draw(st.lists(seconds, max_size=2))]
    told += [("fault", at, None) for at in draw(st.lists(seconds, max_size=1))]
    told = draw(st.permutations(told))
    reason = draw(st.sampled_from(["node_failed", "lost", "preempted"]))
    return [
        Event(kind, DAY + timedelta(seconds=at), sequence, reason=reason)
        if kind == "fault"
        else Event(kind, DAY + timedelta(seconds=at), sequence, mgpu=amount)
        if kind == "sized"
        else Event(kind, DAY + timedelta(seconds=at), sequence, amount)
        for sequence, (kind, at, amount) in enumerate(told)
    ]


def held_at(events: list[Event], second: int) -> tuple[int, int] | None:
    """The plain meaning: guaranteed and borrowed in this second, None when nothing is held."""
    now = DAY + timedelta(seconds=second)

    def first(kind: str) -> datetime | None:
        return next((event.at for event in events if event.kind == kind), None)

    start, ended, lost = first("started"), first("ended"), first("lost")
    end = ended if ended is not None else lost
    for event in events:
        if event.kind == "anew" and start is not None and (end is None or event.at <= end):
            start = max(start, event.at)
    if start is None or now < start or (end is not None and now >= end):
        return None
    classes = sorted(
        (e for e in events if e.kind == "classed" and (end is None or e.at < end)),
        key=lambda e: (e.at, e.sequence),
    )
    told = [e for e in classes if e.at <= now]
    amount = told[-1].guaranteed_mgpu if told else classes[0].guaranteed_mgpu if classes else 0
    sizes = sorted(
        (e for e in events if e.kind == "sized" and e.at <= now), key=lambda e: (e.at, e.sequence)
    )
    size = (sizes[-1].mgpu or 0) if sizes else MGPU
    guaranteed = max(0, min(amount or 0, size))
    return guaranteed, size - guaranteed


def class_at(
    events: list[Event], unpaid: list[Unpaid], segment: Segment, second: int
) -> tuple[int, str]:
    """The plain meaning: what is unpaid, and the reason for which all is free, in this second."""
    now = DAY + timedelta(seconds=second)
    kinds = {event.kind for event in events}
    start = fold([event for event in events if event.kind != "fault"], mgpu=MGPU)[0].start
    for event in events:
        if event.kind != "fault" or (event.reason == "lost" and "ended" in kinds):
            continue
        if event.reason == "preempted":
            if event.at < start + EARLY:
                return 0, event.reason
        elif event.at <= now:
            return 0, event.reason
    told = sum(one.mgpu for one in unpaid if one.start <= now < one.end)
    return min(told, segment.borrowed_mgpu), ""


@given(histories(), unpaid_uses)
def test_each_gpu_second_has_the_class_of_its_time(
    events: list[Event], unpaid: list[Unpaid]
) -> None:
    """The classes change no use: guaranteed and borrowed are those of the fold without them."""
    segments = fold(events, mgpu=MGPU, unpaid=unpaid)
    plain = fold([event for event in events if event.kind != "fault"], mgpu=MGPU)
    for second in range(20):
        for segment, without in zip(
            covering(segments, second), covering(plain, second), strict=True
        ):
            assert segment.guaranteed_mgpu == without.guaranteed_mgpu
            assert segment.borrowed_mgpu == without.borrowed_mgpu
            assert (segment.unpaid_mgpu, segment.fault) == class_at(events, unpaid, segment, second)


def covering(segments: tuple[Segment, ...], second: int) -> list[Segment]:
    now = DAY + timedelta(seconds=second)
    return [s for s in segments if s.start <= now and (s.end is None or now < s.end)]


@given(histories(), st.randoms(use_true_random=False))
def test_permuted_and_repeated_events_give_the_same_segments(
    events: list[Event], chance: random.Random
) -> None:
    again = [*events, *chance.choices(events, k=3)] if events else []
    chance.shuffle(again)
    assert fold(again, mgpu=MGPU) == fold(events, mgpu=MGPU)


@given(histories())
def test_segments_say_what_the_events_mean_second_by_second(events: list[Event]) -> None:
    segments = fold(events, mgpu=MGPU)
    for second in range(20):
        found = [(s.guaranteed_mgpu, s.borrowed_mgpu) for s in covering(segments, second)]
        meant = held_at(events, second)
        assert found == ([] if meant is None else [meant])


@given(histories())
def test_segments_follow_each_other_without_gap_and_each_has_a_length(
    events: list[Event],
) -> None:
    segments = fold(events, mgpu=MGPU)
    for segment in segments:
        assert segment.end is None or segment.start < segment.end
        if not any(event.kind == "sized" for event in events):
            assert segment.guaranteed_mgpu + segment.borrowed_mgpu == MGPU
        assert segment.guaranteed_mgpu >= 0
        assert segment.borrowed_mgpu >= 0
    for one, following in itertools.pairwise(segments):
        assert one.end == following.start
        assert replace(one, end=None) != replace(following, start=one.start, end=None)


@given(histories(), st.integers(0, 5))
def test_what_comes_after_the_end_changes_nothing(events: list[Event], amount: int) -> None:
    segments = fold(events, mgpu=MGPU)
    if segments and (end := segments[-1].end) is not None:
        late = Event("classed", end, len(events), amount)
        assert fold([*events, late], mgpu=MGPU) == segments
        late = Event("sized", end, len(events), mgpu=amount + 1)
        assert fold([*events, late], mgpu=MGPU) == segments

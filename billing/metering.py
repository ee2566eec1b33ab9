"""The meter: takes what was observed of attempts and keeps their usage segments true to it.

Attempts are locked in the order of their ids; whatever a caller locks besides must come before.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from django.db import transaction

from billing.folding import Event, EventKind, Segment, fold
from billing.late_use import late_use
from billing.models import (
    LateUse,
    MeterAnomaly,
    MeterAnomalyReason,
    MeteredAttempt,
    MeterEvent,
    UsageSegment,
)
from bulk.inserting import insert_rows

log = logging.getLogger(__name__)

#: Facts of which there may be many, each from its own time on.
_CHANGES = frozenset({"classed", "sized", "anew"})
#: How far a cluster's clock may be ahead of ours before its times are not believed.
CLOCK_AHEAD_MAX = timedelta(minutes=5)


class AttemptNotMetered(LookupError):
    """The meter was told of an attempt that nobody registered: a mistake of the caller."""


@dataclass(frozen=True, slots=True)
class Grant:
    """An attempt as the arbiter granted it at `at`: whose it is, and the class that it starts in.

    `multiplier_ppm` is the price multiplier of its priority class at that moment.
    """

    attempt_id: UUID
    job_id: UUID
    job_name: str
    number: int
    organization_id: UUID
    team_id: UUID
    user_id: UUID
    pool_id: UUID
    cluster_id: UUID
    priority_class: str
    multiplier_ppm: int
    mgpu: int
    guaranteed_mgpu: int
    at: datetime


@dataclass(frozen=True, slots=True)
class _Told:
    attempt_id: UUID
    kind: EventKind
    at: datetime
    guaranteed_mgpu: int | None = None
    mgpu: int | None = None


@dataclass(slots=True)
class _Fact:
    """What the meter was told of an attempt as it is stored; `id` by the order of the recording, 0
    before it is, and for the class that came with the account."""

    attempt_id: UUID
    kind: EventKind
    at: datetime
    guaranteed_mgpu: int | None
    mgpu: int | None
    id: int = 0


@transaction.atomic
def register_attempts(grants: Sequence[Grant], *, now: datetime) -> None:
    """Open an account for each attempt, with its first class. A repeat changes nothing.

    Nothing is charged until `record_started`. A constant number of statements. A time more than
    five minutes ahead of `now` counts as `now`, with an anomaly. Raises ValueError for a time
    without a zone.
    """
    times = {grant.attempt_id: _believed("classed", grant.at, now) for grant in grants}
    ahead = [grant for grant in grants if times[grant.attempt_id].is_ahead]
    # Nobody who opens accounts waits for the database to say which ones, as long as all is well.
    opened = insert_rows(
        MeteredAttempt,
        [
            {
                "id": grant.attempt_id,
                "job_id": grant.job_id,
                "job_name": grant.job_name,
                "number": grant.number,
                "organization_id": grant.organization_id,
                "team_id": grant.team_id,
                "user_id": grant.user_id,
                "pool_id": grant.pool_id,
                "cluster_id": grant.cluster_id,
                "priority_class": grant.priority_class,
                "multiplier_ppm": grant.multiplier_ppm,
                "mgpu": grant.mgpu,
                "classed_at": times[grant.attempt_id].counts,
                "guaranteed_mgpu": grant.guaranteed_mgpu,
            }
            for grant in sorted(grants, key=lambda grant: grant.attempt_id)
        ],
        ignore_conflicts=True,
        returns_keys=bool(ahead),
    )
    anomalies = [
        _anomaly(
            grant.attempt_id,
            "classed",
            times[grant.attempt_id].told,
            MeterAnomalyReason.CLOCK_AHEAD,
            now,
        )
        for grant in ahead
        if grant.attempt_id in opened
    ]
    if anomalies:
        _set_aside(anomalies)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a cluster says of an attempt: "started", "ended" or "lost" at `at`; or "sized": that it
    holds `mgpu` from then on, whatever it was granted; or "anew": that it holds its GPUs since then
    only, and what it told of its start before is forgotten."""

    attempt_id: UUID
    kind: Literal["started", "ended", "lost", "sized", "anew"]
    at: datetime
    mgpu: int | None = None


def record_observed(observed: Sequence[Observed], now: datetime) -> None:
    """What clusters say of many attempts, in a constant number of statements; of one attempt in
    the given order. Starts and losses as in `record_started` and `record_lost`.

    An end says that the attempt's processes were gone, and its GPUs free. Repeats and strange
    times as in `record_started`. An end before the start means no usage, with an anomaly. It
    replaces what `record_lost` said, so a workload that turns up again after all is charged for
    what it really used. Of two sizes within one second the later one counts.
    """
    _record(
        [_Told(item.attempt_id, item.kind, item.at, mgpu=item.mgpu) for item in observed], now=now
    )


def record_started(attempt_id: UUID, at: datetime, now: datetime) -> None:
    """The cluster says that the attempt holds its GPUs since `at`, by the cluster's clock.

    The first time told counts; an equal repeat changes nothing; another time is kept aside as
    an anomaly. A time more than five minutes ahead of `now` counts as `now`, with an anomaly.
    Raises AttemptNotMetered, and ValueError for a time without a zone.
    """
    _record([_Told(attempt_id, "started", at)], now=now)


def record_lost(attempt_id: UUID, at: datetime, now: datetime) -> None:
    """The attempt vanished; the cluster last listed it at `at`, and usage ends there.

    Repeats and strange times as in `record_started`.
    """
    _record([_Told(attempt_id, "lost", at)], now=now)


def record_classed(pairs: Sequence[tuple[UUID, int]], at: datetime, now: datetime) -> None:
    """From `at` on, each attempt of `pairs` has that many milli-GPU inside its team's guarantee.

    Only what is stored with the attempts comes here, the decisions of the arbiter and the cuts to
    what became smaller, in their order: of two within one second the later one counts, and a
    repeat of the latest changes nothing. A constant number of
    statements, whatever the number of pairs. Raises as `record_started`.
    """
    _record([_Told(attempt_id, "classed", at, mgpu) for attempt_id, mgpu in pairs], now=now)


class _Time(NamedTuple):
    """A time as it was told, and the one that counts."""

    told: datetime
    counts: datetime
    is_ahead: bool


def _believed(kind: EventKind, told: datetime, now: datetime) -> _Time:
    """Raises ValueError for a time without a zone."""
    if told.tzinfo is None:
        raise ValueError(f"the time of {kind} has no zone: {told}")
    at = told.astimezone(UTC).replace(microsecond=0)
    is_ahead = at > now + CLOCK_AHEAD_MAX
    return _Time(at, now if is_ahead else at, is_ahead)


@transaction.atomic
def _record(told: Sequence[_Told], *, now: datetime) -> None:
    """Store what is told and refold what it changes."""
    if not told:
        return
    ids = {item.attempt_id for item in told}
    attempts, known = _lock(ids)
    _add_events(known)
    new: list[_Fact] = []
    anomalies: list[MeterAnomaly] = []
    for item in told:
        told_at, at, is_ahead = _believed(item.kind, item.at, now)
        if is_ahead:
            anomalies.append(
                _anomaly(item.attempt_id, item.kind, told_at, MeterAnomalyReason.CLOCK_AHEAD, now)
            )
        events = known[item.attempt_id]
        earlier = _same_fact(events, item.kind, at)
        if earlier is None or (earlier.guaranteed_mgpu, earlier.mgpu) != (
            item.guaranteed_mgpu,
            item.mgpu,
        ):
            fact = _Fact(item.attempt_id, item.kind, at, item.guaranteed_mgpu, item.mgpu)
            new.append(fact)
            events.append(fact)
        elif earlier.at != at and not is_ahead:
            anomalies.append(
                _anomaly(item.attempt_id, item.kind, at, MeterAnomalyReason.CONFLICT, now)
            )
    if new:
        _store_events(new, now)
        # Without a start there is no segment.
        changed = {
            fact.attempt_id
            for fact in new
            if any(other.kind == "started" for other in known[fact.attempt_id])
        }
        _refold({pk: attempts[pk] for pk in changed}, known, now)
        anomalies += _ends_before_start(new, known, now)
    if anomalies:
        _set_aside(anomalies)


def _store_events(new: Sequence[_Fact], now: datetime) -> None:
    """Append, in this order, and let each have the id that says when it was recorded."""
    rows = [
        {
            "attempt_id": fact.attempt_id,
            "kind": fact.kind,
            "at": fact.at,
            "guaranteed_mgpu": fact.guaranteed_mgpu,
            "mgpu": fact.mgpu,
        }
        for fact in new
    ]
    stored = insert_rows(MeterEvent, rows, same={"recorded_at": now})
    for fact, pk in zip(new, stored, strict=True):
        fact.id = pk


def _set_aside(anomalies: Sequence[MeterAnomaly]) -> None:
    """Store and log what was not known already. A time cut for a fast clock is no conflict
    when it is told again."""
    known = {
        (row.attempt_id, row.kind, row.at, row.reason)
        for row in MeterAnomaly.objects.filter(attempt_id__in={a.attempt_id for a in anomalies})
    }
    fresh = [
        anomaly
        for anomaly in anomalies
        if not known
        & {
            (anomaly.attempt_id, anomaly.kind, anomaly.at, reason)
            for reason in (anomaly.reason, MeterAnomalyReason.CLOCK_AHEAD.value)
        }
    ]
    for anomaly in fresh:
        log.warning(
            "meter: %s of attempt %s at %s is not taken as told: %s",
            anomaly.kind,
            anomaly.attempt_id,
            anomaly.at.isoformat(),
            anomaly.reason,
        )
    MeterAnomaly.objects.bulk_create(fresh, ignore_conflicts=True)


def _lock(ids: Collection[UUID]) -> tuple[Mapping[UUID, int], dict[UUID, list[_Fact]]]:
    """What milli-GPU the attempts with `ids` were granted, and the class of which their accounts
    themselves know; locked. Raises AttemptNotMetered when one is missing."""
    attempts: dict[UUID, int] = {}
    first: dict[UUID, list[_Fact]] = {}
    rows = MeteredAttempt.objects.filter(pk__in=ids).order_by("pk").select_for_update(no_key=True)
    for pk, granted_mgpu, at, guaranteed_mgpu in rows.values_list(
        "pk", "mgpu", "classed_at", "guaranteed_mgpu"
    ):
        attempts[pk] = granted_mgpu
        first[pk] = [] if at is None else [_Fact(pk, "classed", at, guaranteed_mgpu, None)]
    if missing := set(ids) - attempts.keys():
        raise AttemptNotMetered(f"not registered with the meter: {min(missing)}")
    return attempts, first


def _add_events(events: Mapping[UUID, list[_Fact]]) -> None:
    """Add the stored ones to what the accounts themselves know, in the order of recording."""
    rows = MeterEvent.objects.filter(attempt_id__in=events).order_by("pk")
    for attempt_id, kind, at, guaranteed_mgpu, mgpu, pk in rows.values_list(
        "attempt_id", "kind", "at", "guaranteed_mgpu", "mgpu", "pk"
    ):
        events[attempt_id].append(_Fact(attempt_id, _KINDS[kind], at, guaranteed_mgpu, mgpu, pk))


def _same_fact(events: Sequence[_Fact], kind: EventKind, at: datetime) -> _Fact | None:
    """What was told before of the same fact: a start, an end, or the latest class or size at
    `at`."""
    same = [e for e in events if e.kind == kind and (kind not in _CHANGES or e.at == at)]
    return same[-1] if same else None


def _anomaly(
    attempt_id: UUID, kind: EventKind, at: datetime, reason: MeterAnomalyReason, now: datetime
) -> MeterAnomaly:
    return MeterAnomaly(
        attempt_id=attempt_id, kind=kind, reason=reason.value, at=at, recorded_at=now
    )


def _ends_before_start(
    new: Iterable[_Fact], known: Mapping[UUID, Sequence[_Fact]], now: datetime
) -> list[MeterAnomaly]:
    """Anomalies of the attempts of `new` whose first told end lies before their start."""
    found = []
    for attempt_id in sorted({e.attempt_id for e in new if e.kind not in _CHANGES}):
        times = {event.kind: event.at for event in known[attempt_id]}
        kind: EventKind = "ended" if "ended" in times else "lost"
        if "started" in times and kind in times and times[kind] < times["started"]:
            reason = MeterAnomalyReason.ENDS_BEFORE_START
            found.append(_anomaly(attempt_id, kind, times[kind], reason, now))
    return found


def _refold(
    attempts: Mapping[UUID, int],
    known: Mapping[UUID, Sequence[_Fact]],
    now: datetime,
) -> None:
    """Make the stored segments of `attempts`, by what they were granted, equal to the fold of
    their events."""
    stored: dict[UUID, dict[Segment, int]] = defaultdict(dict)
    for row in UsageSegment.objects.filter(attempt_id__in=attempts):
        segment = Segment(row.start, row.end, row.guaranteed_mgpu, row.borrowed_mgpu)
        stored[row.attempt_id][segment] = row.pk
    superseded: list[int] = []
    fresh: list[UsageSegment] = []
    late: list[LateUse] = []
    for pk, mgpu in attempts.items():
        folded = fold((_event(fact) for fact in known[pk]), mgpu=mgpu)
        superseded += [row for segment, row in stored[pk].items() if segment not in folded]
        late += late_use(pk, stored[pk], folded, now)
        fresh += [
            UsageSegment(
                attempt_id=pk,
                start=segment.start,
                end=segment.end,
                guaranteed_mgpu=segment.guaranteed_mgpu,
                borrowed_mgpu=segment.borrowed_mgpu,
            )
            for segment in folded
            if segment not in stored[pk]
        ]
    if superseded:
        UsageSegment.objects.filter(pk__in=superseded).delete()
    if fresh:
        UsageSegment.objects.bulk_create(fresh)
    if late:
        LateUse.objects.bulk_create(late)


_KINDS: Mapping[str, EventKind] = {
    "started": "started",
    "ended": "ended",
    "lost": "lost",
    "classed": "classed",
    "sized": "sized",
    "anew": "anew",
}


def _event(fact: _Fact) -> Event:
    return Event(fact.kind, fact.at, fact.id, fact.guaranteed_mgpu, fact.mgpu)

"""The meter: stores observations of attempts and keeps their usage segments consistent.

Attempts are locked in the order of their ids. Callers must take other locks before.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from billing.folding import Event, EventKind, Segment, Unpaid, fold
from billing.late_use import changed_use, late_use
from billing.models import (
    ChangedUse,
    LateUse,
    MeterAnomaly,
    MeterAnomalyReason,
    MeteredAttempt,
    MeterEvent,
    UnpaidUse,
    UsageSegment,
)
from bulk.inserting import insert_rows

log = logging.getLogger(__name__)

#: Kinds of facts that may occur several times, each from its own time on.
_CHANGES = frozenset({"classed", "sized", "anew"})
#: A cluster's clock may be ahead of ours by this much. Later times are not accepted.
CLOCK_AHEAD_MAX = timedelta(minutes=5)


class AttemptNotMetered(LookupError):
    """The attempt was never registered with the meter, which is a mistake of the caller."""


@dataclass(frozen=True, slots=True)
class Grant:
    """An attempt as the arbiter granted it at `at`, with its owner and first class.

    `multiplier_ppm` is the price multiplier of its priority class at that time, and
    `use_factor_percent` how much of its use counts for fair-share.
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
    job_type: str
    mgpu: int
    guaranteed_mgpu: int
    at: datetime
    use_factor_percent: int = 100


@dataclass(frozen=True, slots=True)
class _Reported:
    attempt_id: UUID
    kind: EventKind
    at: datetime
    guaranteed_mgpu: int | None = None
    mgpu: int | None = None
    reason: str = ""


@dataclass(slots=True)
class _Fact:
    """A stored fact about an attempt.

    `id` gives the order of recording. It is 0 before that, and for the class that came with the
    account.
    """

    attempt_id: UUID
    kind: EventKind
    at: datetime
    guaranteed_mgpu: int | None
    mgpu: int | None
    id: int = 0
    reason: str = ""


@transaction.atomic
def register_attempts(grants: Sequence[Grant], *, now: datetime) -> None:
    """Open an account for each attempt, with its first class. A repeat changes nothing.

    No use is charged before `record_started`. Takes a constant number of statements. A time more
    than five minutes ahead of `now` counts as `now`, with an anomaly. Raises ValueError for a time
    without a zone.
    """
    times = {grant.attempt_id: _believed("classed", grant.at, now) for grant in grants}
    ahead = [grant for grant in grants if times[grant.attempt_id].is_ahead]
    # Ids are returned only if needed, so that usually nobody waits for the database.
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
                "use_factor_percent": grant.use_factor_percent,
                "job_type": grant.job_type,
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
            times[grant.attempt_id].reported,
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
    """A cluster's observation of an attempt at `at`.

    The kinds are "started", "ended" and "lost". "sized": it uses `mgpu` from then on, whatever it
    was granted. "anew": it uses its GPUs only since then, and its earlier start no longer counts.
    "fault": it ended by a fault for the `reason` (`FaultReason`), and its work since `at` was lost;
    of a preemption, `at` is the time.
    """

    attempt_id: UUID
    kind: Literal["started", "ended", "lost", "sized", "anew", "fault"]
    at: datetime
    mgpu: int | None = None
    reason: str = ""


def record_observed(observed: Sequence[Observed], now: datetime) -> None:
    """Store observations of many attempts, in a constant number of statements.

    Observations of one attempt are stored in the given order. Starts and losses work as in
    `record_started` and `record_lost`, and so do repeats and invalid times.

    An end means that the attempt's processes are gone and its GPUs free. An end before the start
    means no usage, with an anomaly. An end replaces a loss, so a workload that reappears is charged
    for its real use. Of two sizes in one second, the later one counts.
    """
    _record(
        [
            _Reported(item.attempt_id, item.kind, item.at, mgpu=item.mgpu, reason=item.reason)
            for item in observed
        ],
        now=now,
    )


def record_started(attempt_id: UUID, at: datetime, now: datetime) -> None:
    """Store that the attempt uses its GPUs since `at`, by the cluster's clock.

    The first time counts. An equal repeat changes nothing. Another time is stored as an anomaly. A
    time more than five minutes ahead of `now` counts as `now`, with an anomaly. Raises
    AttemptNotMetered, and ValueError for a time without a zone.
    """
    _record([_Reported(attempt_id, "started", at)], now=now)


def record_lost(attempt_id: UUID, at: datetime, now: datetime) -> None:
    """Store that the attempt vanished.

    The cluster last listed it at `at`, and its usage ends there. Repeats and invalid times work as
    in `record_started`.
    """
    _record([_Reported(attempt_id, "lost", at)], now=now)


def record_classed(pairs: Sequence[tuple[UUID, int]], at: datetime, now: datetime) -> None:
    """Store how many milli-GPU of each attempt are inside its team's guarantee from `at` on.

    The caller passes only stored values, from the arbiter's decisions and reductions of sizes, in
    their order. Of two values in one second, the later one counts. A repeat of the latest changes
    nothing. Takes a constant number of statements. Raises as `record_started`.
    """
    _record([_Reported(attempt_id, "classed", at, mgpu) for attempt_id, mgpu in pairs], now=now)


class _Time(NamedTuple):
    """A reported time, and the time that counts."""

    reported: datetime
    counts: datetime
    is_ahead: bool


def attempts_not_folded(ids: Collection[UUID]) -> frozenset[UUID]:
    """Return the attempts of `ids` whose stored segments are not the fold of their events."""
    events: dict[UUID, list[_Fact]] = {}
    mgpu_of: dict[UUID, int] = {}
    for pk, mgpu, at, guaranteed_mgpu in MeteredAttempt.objects.filter(pk__in=ids).values_list(
        "pk", "mgpu", "classed_at", "guaranteed_mgpu"
    ):
        mgpu_of[pk] = mgpu
        events[pk] = [] if at is None else [_Fact(pk, "classed", at, guaranteed_mgpu, None)]
    _add_events(events)
    stored, unpaid = _stored_segments(mgpu_of), _unpaid_uses(mgpu_of)
    return frozenset(
        pk
        for pk, mgpu in mgpu_of.items()
        if set(fold(map(_event, events[pk]), mgpu=mgpu, unpaid=unpaid[pk])) != stored[pk].keys()
    )


def _believed(kind: EventKind, reported: datetime, now: datetime) -> _Time:
    """Return the reported time and the one that counts.

    Raises ValueError for a time without a zone.
    """
    if reported.tzinfo is None:
        raise ValueError(f"the time of {kind} has no zone: {reported}")
    at = reported.astimezone(UTC).replace(microsecond=0)
    is_ahead = at > now + CLOCK_AHEAD_MAX
    return _Time(at, now if is_ahead else at, is_ahead)


@transaction.atomic
def _record(reported: Sequence[_Reported], *, now: datetime) -> None:
    """Store the facts and fold the changed attempts again."""
    if not reported:
        return
    ids = {item.attempt_id for item in reported}
    attempts, known = _lock(ids)
    _add_events(known)
    new: list[_Fact] = []
    anomalies: list[MeterAnomaly] = []
    for item in reported:
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
            fact.reason = item.reason
            new.append(fact)
            events.append(fact)
        elif earlier.at != at and not is_ahead:
            anomalies.append(
                _anomaly(item.attempt_id, item.kind, at, MeterAnomalyReason.CONFLICT, now)
            )
    if new:
        _store_events(new, now)
        # An attempt without a start has no segment.
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
    """Append the facts in this order, and set their ids."""
    rows = [
        {
            "attempt_id": fact.attempt_id,
            "kind": fact.kind,
            "at": fact.at,
            "guaranteed_mgpu": fact.guaranteed_mgpu,
            "mgpu": fact.mgpu,
            "reason": fact.reason,
        }
        for fact in new
    ]
    stored = insert_rows(MeterEvent, rows, same={"recorded_at": now})
    for fact, pk in zip(new, stored, strict=True):
        fact.id = pk


@dataclass(frozen=True, slots=True)
class UnpaidSpan:
    """Borrowed use of an attempt during `[start, end)` that a settlement left unpaid."""

    attempt_id: UUID
    start: datetime
    end: datetime
    mgpu: int


@transaction.atomic
def record_unpaid(
    spans: Sequence[UnpaidSpan],
    *,
    organization_id: UUID,
    pool_id: UUID,
    start: datetime,
    end: datetime,
    now: datetime,
) -> None:
    """Store all unpaid use of an organization's attempts in a pool during `[start, end)`.

    It replaces what was stored for that time, so a repeat changes nothing. The caller's spans lie
    in it and do not overlap.
    """
    stored = UnpaidUse.objects.filter(
        attempt__organization_id=organization_id,
        attempt__pool_id=pool_id,
        start__gte=start,
        start__lt=end,
    )
    before = {row.pk: UnpaidSpan(row.attempt_id, row.start, row.end, row.mgpu) for row in stored}
    fresh = [span for span in spans if span not in set(before.values())]
    superseded = [pk for pk, span in before.items() if span not in set(spans)]
    ids = {span.attempt_id for span in fresh} | {before[pk].attempt_id for pk in superseded}
    if not ids:
        return
    attempts, known = _lock(ids)
    _add_events(known)
    UnpaidUse.objects.filter(pk__in=superseded).delete()
    UnpaidUse.objects.bulk_create(
        [
            UnpaidUse(attempt_id=one.attempt_id, start=one.start, end=one.end, mgpu=one.mgpu)
            for one in fresh
        ]
    )
    _refold(attempts, known, now)


def _set_aside(anomalies: Sequence[MeterAnomaly]) -> None:
    """Store and log new anomalies.

    A time that was cut for a fast clock is no conflict when it is reported again.
    """
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
    """Lock the attempts with `ids`. Return their granted milli-GPU and their first classes.

    Raises AttemptNotMetered when one is missing.
    """
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
    """Add the stored events to those from the accounts, in the order of recording."""
    rows = MeterEvent.objects.filter(attempt_id__in=events).order_by("pk")
    for attempt_id, kind, at, guaranteed_mgpu, mgpu, pk, reason in rows.values_list(
        "attempt_id", "kind", "at", "guaranteed_mgpu", "mgpu", "pk", "reason"
    ):
        fact = _Fact(attempt_id, _KINDS[kind], at, guaranteed_mgpu, mgpu, pk, reason)
        events[attempt_id].append(fact)


def _same_fact(events: Sequence[_Fact], kind: EventKind, at: datetime) -> _Fact | None:
    """Return the earlier fact of the same kind; for a class or size, the latest at `at`."""
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
    """Return anomalies of the attempts of `new` whose first reported end is before their start."""
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
    """Update the stored segments of `attempts` to the fold of their events and unpaid use."""
    stored, unpaid = _stored_segments(attempts), _unpaid_uses(attempts)
    superseded: list[int] = []
    moved: list[tuple[int, datetime | None]] = []
    fresh: list[UsageSegment] = []
    late: list[LateUse] = []
    changed: list[ChangedUse] = []
    for pk, mgpu in attempts.items():
        folded = fold((_event(fact) for fact in known[pk]), mgpu=mgpu, unpaid=unpaid[pk])
        # Where only the end moved, the row stays, so that everybody sees what changed.
        fresh_by_start = {one.start: one for one in folded if one not in stored[pk]}
        for segment, row in stored[pk].items():
            new = fresh_by_start.get(segment.start)
            if new is not None and replace(new, end=segment.end) == segment:
                moved.append((row, new.end))
                del fresh_by_start[segment.start]
            elif segment not in folded:
                superseded.append(row)
        late += late_use(pk, stored[pk], folded, now)
        changed += changed_use(pk, stored[pk], folded, now)
        fresh += [
            UsageSegment(attempt_id=pk, **asdict(segment)) for segment in fresh_by_start.values()
        ]
    if superseded:
        UsageSegment.objects.filter(pk__in=superseded).delete()
    if moved:
        with connection.cursor() as cursor:
            cursor.execute(_MOVE_ENDS, [list(values) for values in zip(*moved, strict=True)])
    if fresh:
        UsageSegment.objects.bulk_create(fresh)
    if late:
        LateUse.objects.bulk_create(late)
    if changed:
        ChangedUse.objects.bulk_create(changed)


_MOVE_ENDS = """
UPDATE billing_usagesegment s SET "end" = m.until
FROM unnest(%s::bigint[], %s::timestamptz[]) AS m (id, until) WHERE s.id = m.id
"""


def _stored_segments(ids: Iterable[UUID]) -> dict[UUID, dict[Segment, int]]:
    """Return the stored segments of attempts, with their ids."""
    stored: dict[UUID, dict[Segment, int]] = defaultdict(dict)
    for row in UsageSegment.objects.filter(attempt_id__in=ids):
        segment = Segment(
            row.start, row.end, row.guaranteed_mgpu, row.borrowed_mgpu, row.unpaid_mgpu, row.fault
        )
        stored[row.attempt_id][segment] = row.pk
    return stored


def _unpaid_uses(ids: Iterable[UUID]) -> dict[UUID, list[Unpaid]]:
    """Return the unpaid use of attempts."""
    unpaid: dict[UUID, list[Unpaid]] = defaultdict(list)
    uses = UnpaidUse.objects.filter(attempt_id__in=ids)
    for pk, start, end, mgpu in uses.values_list("attempt_id", "start", "end", "mgpu"):
        unpaid[pk].append(Unpaid(start, end, mgpu))
    return unpaid


_KINDS: Mapping[str, EventKind] = {
    "started": "started",
    "ended": "ended",
    "lost": "lost",
    "classed": "classed",
    "sized": "sized",
    "anew": "anew",
    "fault": "fault",
}


def _event(fact: _Fact) -> Event:
    return Event(fact.kind, fact.at, fact.id, fact.guaranteed_mgpu, fact.mgpu, fact.reason)

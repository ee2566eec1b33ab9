"""Compares our meter with a cluster's own account of one day (R-100).

Pure functions. Both sides are integrals over time, so their difference is one too. It is split into
the time spans in which the two disagree. Each span has one run and one cause. No difference is left
over or rounded away: even one second is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from itertools import pairwise
from uuid import UUID

from connectors.accounts import AccountedRun

#: Later than every time: the end of use that continues.
_EVER = 1 << 60


class Cause(StrEnum):
    """The cause of a difference between meter and account."""

    #: Metered, but the account has no such run.
    ONLY_IN_METER = "only_in_meter"
    #: In the account as ours, but not metered.
    ONLY_IN_ACCOUNT = "only_in_account"
    START_DIFFERS = "start_differs"
    END_DIFFERS = "end_differs"
    #: One of the two says that the run continues, the other that it ended.
    STILL_RUNNING = "still_running"
    GPUS_DIFFER = "gpus_differ"
    #: The meter has a gap where the account has a run.
    METER_GAP = "meter_gap"
    #: Metered for one team, but in the account for another. Both teams have a difference.
    ACCOUNT_DIFFERS = "account_differs"
    POOL_DIFFERS = "pool_differs"
    #: The account has another run of an attempt that was metered once.
    SECOND_RUN = "second_run"
    #: Submitted directly to the cluster by a user that the portal does not know. It is never
    #: charged.
    NATIVE_UNMAPPED = "native_unmapped"
    #: Meter and account agreed once, and the account was changed since.
    ACCOUNT_CHANGED = "account_changed"


#: Expected causes. All others make a day red.
EXPECTED = frozenset({Cause.NATIVE_UNMAPPED})


@dataclass(frozen=True, slots=True)
class Piece:
    """Use of `mgpu` during `[start, end)`, epoch seconds.

    An end of None means that it continues.
    """

    start: int
    end: int | None
    mgpu: int


@dataclass(frozen=True, slots=True)
class MeteredRun:
    """One attempt as metered, with all its pieces, also those outside the day.

    `account` is the name of its team's account on the cluster. Its run in the account is found by
    `key`. An attempt that was not submitted by the portal is found by `native_id` and
    `submitted_at`.
    """

    attempt_id: UUID
    job_id: UUID
    account: str
    pool: str
    pieces: tuple[Piece, ...]
    key: str | None = None
    native_id: str | None = None
    submitted_at: int | None = None

    @property
    def start(self) -> int:
        """Return the first second of use. The run must have pieces."""
        return min(piece.start for piece in self.pieces)

    @property
    def end(self) -> int | None:
        """Return the second after its last use; None while it runs. The run must have pieces."""
        ends = [piece.end for piece in self.pieces]
        return None if None in ends else max(end for end in ends if end is not None)


@dataclass(frozen=True, slots=True)
class Span:
    """The compared time, `[start, end)`, epoch seconds."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of `mgpu_s` milli-GPU-seconds: account minus meter.

    `attempt_id` and `job_id` are set if the meter knows the run. The `metered_` and `accounted_`
    times are complete, not cut to the day.
    """

    account: str
    pool: str
    cause: Cause
    mgpu_s: int
    attempt_id: UUID | None = None
    job_id: UUID | None = None
    native_id: str | None = None
    user: str = ""
    state: str = ""
    metered_start: int | None = None
    metered_end: int | None = None
    metered_mgpu: int | None = None
    accounted_start: int | None = None
    accounted_end: int | None = None
    accounted_mgpu: int | None = None


@dataclass(frozen=True, slots=True)
class AccountReport:
    """One account and pool of the day, in milli-GPU-seconds.

    The differences, largest first, sum to `accounted_mgpu_s - metered_mgpu_s`.
    """

    account: str
    pool: str
    metered_mgpu_s: int
    accounted_mgpu_s: int
    differences: tuple[Difference, ...]

    @property
    def is_green(self) -> bool:
        """Return whether all differences are expected."""
        return all(difference.cause in EXPECTED for difference in self.differences)


def reconcile(
    metered: Sequence[MeteredRun],
    runs: Sequence[AccountedRun],
    day: Span,
    *,
    owned: Set[tuple[str, str]] = frozenset(),
) -> tuple[AccountReport, ...]:
    """Return the use of each account and pool on `day` by meter and by cluster, and differences.

    Sorted by account and pool. `owned` are the (account, user) whose runs submitted directly to the
    cluster should have been metered. If an attempt has several runs, the one with the recorded id
    is compared, then the one that overlaps the meter longest. The others are second runs.
    """
    metered_sums: dict[tuple[str, str], int] = defaultdict(int)
    accounted_sums: dict[tuple[str, str], int] = defaultdict(int)
    found: dict[tuple[str, str], list[Difference]] = defaultdict(list)
    matched, strangers = _matched(metered, runs)
    for use in metered:
        metered_sums[use.account, use.pool] += _metered_mgpu_s(use, day)
        of_use = matched.get(use.attempt_id, ())
        of_use = [*(_within_ranges(use, run) for run in of_use[:1]), *of_use[1:]]
        for run in of_use:
            accounted_sums[run.account, run.pool] += _accounted_mgpu_s(run, day)
        for difference in _of_attempt(use, of_use, day):
            found[difference.account, difference.pool].append(difference)
    for run in strangers:
        accounted_sums[run.account, run.pool] += _accounted_mgpu_s(run, day)
        is_ours = run.key is not None or (run.account, run.user) in owned
        cause = Cause.ONLY_IN_ACCOUNT if is_ours else Cause.NATIVE_UNMAPPED
        if amount := _accounted_mgpu_s(run, day):
            found[run.account, run.pool].append(_difference(cause, amount, None, run))
    return tuple(
        AccountReport(
            account=account,
            pool=pool,
            metered_mgpu_s=metered_sums[account, pool],
            accounted_mgpu_s=accounted_sums[account, pool],
            differences=tuple(sorted(found[account, pool], key=_largest_first)),
        )
        for account, pool in sorted(metered_sums.keys() | accounted_sums.keys())
        if metered_sums[account, pool] or accounted_sums[account, pool] or found[account, pool]
    )


def with_changes(
    reports: Sequence[AccountReport],
    *,
    metered_since: Set[UUID],
    known_natives: Set[str],
) -> tuple[AccountReport, ...]:
    """Return the reports of a day that was green, with the differences that the account caused.

    `metered_since` are the attempts whose meter changed since. `known_natives` are the native runs
    that were listed as unmapped on the green day, and stay so.
    """

    def cause_now(difference: Difference) -> Cause:
        if difference.attempt_id is not None:
            is_meters = difference.attempt_id in metered_since
            return difference.cause if is_meters else Cause.ACCOUNT_CHANGED
        if difference.native_id in known_natives or difference.cause is Cause.NATIVE_UNMAPPED:
            return Cause.NATIVE_UNMAPPED
        return Cause.ACCOUNT_CHANGED

    return tuple(
        replace(
            report,
            differences=tuple(
                replace(difference, cause=cause_now(difference))
                for difference in report.differences
            ),
        )
        for report in reports
    )


def _within_ranges(use: MeteredRun, run: AccountedRun) -> AccountedRun:
    """Return `run` with exact times: in each of its ranges, the time next to the meter's.

    Beside a meter without use, it is as short as its ranges allow.
    """
    start, end = run.started_at, run.ended_at
    if not use.pieces:
        start = start if run.started_by is None else run.started_by
        end = max(start, run.ended_from) if run.ended_from is not None else end
        return replace(run, started_at=start, ended_at=end)
    if run.started_by is not None:
        start = max(start, min(use.start, run.started_by))
    if run.ended_from is not None and end is not None:
        end = min(end, max(_or_ever(use.end), run.ended_from))
    return replace(run, started_at=start, ended_at=end)


def _matched(
    metered: Sequence[MeteredRun], runs: Sequence[AccountedRun]
) -> tuple[Mapping[UUID, Sequence[AccountedRun]], Sequence[AccountedRun]]:
    """Return the runs of each attempt, best match first, and the runs without an attempt."""
    by_key = {use.key: use for use in metered if use.key is not None}
    by_native = {
        (use.native_id, use.submitted_at): use
        for use in metered
        if use.key is None and use.native_id is not None
    }
    of_attempt: dict[UUID, list[AccountedRun]] = defaultdict(list)
    strangers = []
    for run in runs:
        # A native run may have the name of one of ours. Its number and time are its own.
        use = by_native.get((run.native_id, run.submitted_at))
        if use is None and run.key is not None:
            use = by_key.get(run.key)
        if use is None:
            strangers.append(run)
        else:
            of_attempt[use.attempt_id].append(run)
    for use in metered:
        if use.attempt_id in of_attempt:
            of_attempt[use.attempt_id].sort(key=lambda run: _nearness(use, run), reverse=True)
    return of_attempt, strangers


def _nearness(use: MeteredRun, run: AccountedRun) -> tuple[bool, int, tuple[str, ...]]:
    overlap_s = 0
    if use.pieces:
        since = max(use.start, run.started_at)
        overlap_s = max(0, min(_or_ever(use.end), _or_ever(run.ended_at)) - since)
    # All its values, so that the order of records has no influence.
    return run.native_id == use.native_id, overlap_s, tuple(map(str, astuple(run)))


def _of_attempt(use: MeteredRun, runs: Sequence[AccountedRun], day: Span) -> Iterable[Difference]:
    """Yield all differences of one attempt. The first of its `runs` is compared with the meter."""
    if not runs:
        if amount := _metered_mgpu_s(use, day):
            yield _difference(Cause.ONLY_IN_METER, -amount, use, None)
        return
    run, *others = runs
    for other in others:
        if amount := _accounted_mgpu_s(other, day):
            yield _difference(Cause.SECOND_RUN, amount, use, other)
    if not use.pieces:
        if amount := _accounted_mgpu_s(run, day):
            yield _difference(Cause.ONLY_IN_ACCOUNT, amount, use, run)
    elif (use.account, use.pool) != (run.account, run.pool):
        elsewhere = use.account != run.account
        cause = Cause.ACCOUNT_DIFFERS if elsewhere else Cause.POOL_DIFFERS
        if amount := _metered_mgpu_s(use, day):
            yield _difference(cause, -amount, use, run, at=(use.account, use.pool))
        if amount := _accounted_mgpu_s(run, day):
            yield _difference(cause, amount, use, run)
    else:
        for cause, amount in _stretches(use, run, day):
            yield _difference(cause, amount, use, run)


def _stretches(use: MeteredRun, run: AccountedRun, day: Span) -> Iterable[tuple[Cause, int]]:
    """Return the integral of account minus meter over `day`, by cause and sign, without zeros.

    The start differs until both have begun. The end differs from when one of them has ended. In
    between, their amounts are compared.
    """
    begun = max(use.start, run.started_at)
    over = min(_or_ever(use.end), _or_ever(run.ended_at))
    at_the_end = Cause.END_DIFFERS
    if (use.end is None) != (run.ended_at is None):
        at_the_end = Cause.STILL_RUNNING
    moments = {day.start, day.end, begun, over, run.started_at, _or_ever(run.ended_at)}
    moments |= {until for until, _ in run.before}
    for piece in use.pieces:
        moments |= {piece.start, _or_ever(piece.end)}
    inside = sorted(moment for moment in moments if day.start <= moment <= day.end)
    sums: dict[tuple[Cause, bool], int] = defaultdict(int)
    for since, until in pairwise(inside):
        held = sum(piece.mgpu for piece in use.pieces if piece.start <= since < _or_ever(piece.end))
        is_on = run.started_at <= since < _or_ever(run.ended_at)
        on_account = run.held_mgpu(since) if is_on else 0
        if since < begun:
            cause = Cause.START_DIFFERS
        elif since >= over:
            cause = at_the_end
        else:
            cause = Cause.GPUS_DIFFER if held else Cause.METER_GAP
        amount = (on_account - held) * (until - since)
        sums[cause, amount > 0] += amount
    return [(cause, amount) for (cause, _), amount in sums.items() if amount]


def _metered_mgpu_s(use: MeteredRun, day: Span) -> int:
    return sum(piece.mgpu * _inside_s(piece.start, piece.end, day) for piece in use.pieces)


def _accounted_mgpu_s(run: AccountedRun, day: Span) -> int:
    since, total = run.started_at, 0
    for until, mgpu in run.before:
        total += mgpu * _inside_s(since, until, day)
        since = until
    return total + run.mgpu * _inside_s(since, run.ended_at, day)


def _inside_s(start: int, end: int | None, day: Span) -> int:
    return max(0, min(_or_ever(end), day.end) - max(start, day.start))


def _or_ever(end: int | None) -> int:
    return _EVER if end is None else end


def _difference(
    cause: Cause,
    mgpu_s: int,
    use: MeteredRun | None,
    run: AccountedRun | None,
    *,
    at: tuple[str, str] | None = None,
) -> Difference:
    """Return a difference of the account and pool `at`; default: of the run, or of the meter."""
    place: MeteredRun | AccountedRun | None = run or use
    assert place is not None
    account, pool = at or (place.account, place.pool)
    pieces = use.pieces if use is not None else ()
    return Difference(
        account=account,
        pool=pool,
        cause=cause,
        mgpu_s=mgpu_s,
        attempt_id=use.attempt_id if use is not None else None,
        job_id=use.job_id if use is not None else None,
        native_id=run.native_id if run is not None else use.native_id if use is not None else None,
        user=run.user if run is not None else "",
        state=run.state if run is not None else "",
        metered_start=use.start if use is not None and pieces else None,
        metered_end=use.end if use is not None and pieces else None,
        metered_mgpu=max((piece.mgpu for piece in pieces), default=None),
        accounted_start=run.started_at if run is not None else None,
        accounted_end=run.ended_at if run is not None else None,
        accounted_mgpu=max((run.mgpu, *(had for _, had in run.before)), default=0)
        if run is not None
        else None,
    )


def _largest_first(difference: Difference) -> tuple[int, tuple[str, ...]]:
    return (
        -abs(difference.mgpu_s),
        tuple(map(str, astuple(difference))),
    )

"""The guard of all writes of quotas, policies and classes: some need a second person.

Each function that a person calls to write them does so inside `guarded`. The guard compares the
state of the organization before and after the write, in its transaction. Where the rules of the
organization ask for a second person, it raises, and the transaction is rolled back. The REST API
then stores a request instead. An approval repeats the same function as the same person inside
`decided`.

Two packages above provide what the guard cannot know: how many running jobs a write would stop,
and where the request is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Protocol
from uuid import UUID

from django.db import connection

from bulk.trials import rolled_back
from clusters.models import Pool
from primitives.units import gpus_text
from quotas.guarded_state import (
    Difference,
    as_if_reverted,
    compare,
    moved_alone_mgpu,
    read_state,
)
from quotas.second_person_models import SecondPersonPolicy
from tenants.access import Actor
from tenants.models import Node
from webapi.problems import Deferred

#: The most quotas and rules that a request shows.
_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class StoppedJobs:
    """The running jobs of a team in a pool that only a write would stop, and their lost work."""

    team: str
    pool: str
    jobs: int
    at_risk_mgpu_s: int


class LookAhead(Protocol):
    """A future that was read before a write."""

    def after_write(
        self, organization: Node, pools: Collection[UUID] | None, *, begins_at: datetime | None
    ) -> list[StoppedJobs]:
        """Return the jobs that the write would stop in these pools; None is all pools.

        It reads the write in its transaction. Teams of other organizations have an empty name.
        """
        ...


@dataclass(frozen=True, slots=True)
class Write:
    """A write as its function's name and arguments in JSON, with which it can be repeated."""

    operation: str
    arguments: Mapping[str, Any]
    reason: str = ""


@dataclass(slots=True)
class Effects:
    """The effects of a write, as a request stores and shows them."""

    stopped: list[StoppedJobs] = field(default_factory=list)
    moved_mgpu: int = 0
    quotas: list[dict[str, Any]] = field(default_factory=list)
    rules: list[dict[str, Any]] = field(default_factory=list)

    @property
    def stopped_jobs(self) -> int:
        """Return the number of running jobs that would be stopped."""
        return sum(each.jobs for each in self.stopped)


class SecondPersonNeeded(Deferred):
    """A write needs a second person. Nothing was written. An edge makes a request of it.

    `path` is the node on which the second person needs the right to manage quotas; PLATFORM for
    the quotas of the organization itself. `actor` is the first person.
    """

    code = "second_person_needed"
    http_status = 409
    title = "A second person decides about this"

    def __init__(
        self,
        write: Write,
        effects: Effects,
        organization: Node,
        path: str,
        *,
        why: str,
        actor: Actor,
    ) -> None:
        super().__init__(
            f"{why}, so a second person decides. Make this change by itself, not in a "
            "batch, to ask for that."
        )
        self.write, self.effects = write, effects
        self.organization, self.path, self.why, self.actor = organization, path, why, actor

    def store(self, now: datetime) -> dict[str, Any]:
        """Store the write as a request, and return the body of the answer."""
        return _ask[0](self, now)


class _Mode(Enum):
    """The treatment of a write by the guard."""

    CHECK = "check"
    #: A second person approved the write, or it is made in an emergency.
    DECIDED = "decided"
    #: The write is part of one that an outer guard checks.
    PASS = "pass"  # noqa: S105
    #: The effects are wanted, and not the write.
    MEASURE = "measure"


_mode: ContextVar[_Mode] = ContextVar("quotas_guard", default=_Mode.CHECK)
_look_ahead: list[Callable[[datetime], LookAhead]] = []
Ask = Callable[[SecondPersonNeeded, datetime], dict[str, Any]]
_ask: list[Ask] = []


def provide_look_ahead(look_ahead: Callable[[datetime], LookAhead]) -> None:
    """Set the source of stopped jobs. The package of jobs calls it once, at its start."""
    _look_ahead[:] = [look_ahead]


def provide_requests(ask: Ask) -> None:
    """Set where requests for a second person are stored.

    The package of approvals calls it once, at its start.
    """
    _ask[:] = [ask]


@contextmanager
def _in_mode(mode: _Mode) -> Iterator[None]:
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def decided() -> AbstractContextManager[None]:
    """Return a context of guarded writes that a second person approved, or of an emergency."""
    return _in_mode(_Mode.DECIDED)


def was_decided() -> bool:
    """Return whether a second person approved the write that is made here, or an emergency."""
    return _mode.get() is _Mode.DECIDED


def measured() -> AbstractContextManager[None]:
    """Return a context in which a guarded write raises SecondPersonNeeded with its effects."""
    return _in_mode(_Mode.MEASURE)


class Guard:
    """A guarded write."""

    def __init__(self, check: Callable[[], None] | None) -> None:
        self._check = check

    def try_out(self, act: Callable[[], object]) -> None:
        """Check a write that is made later: make it now, check it, and take it back."""
        if self._check is not None:
            with rolled_back():
                act()
                self.check()

    def check(self) -> None:
        """Check the write, once."""
        if self._check is not None:
            check, self._check = self._check, None
            check()


@contextmanager
def guarded(
    organization: Node,
    write: Write,
    *,
    actor: Actor,
    now: datetime,
    begins_at: datetime | None = None,
) -> Iterator[Guard]:
    """Check a write of quotas or rules of an organization that is made inside the context.

    Must run in the transaction of the write, after its locks. Raises SecondPersonNeeded, which
    must roll back that transaction. A guard inside another one checks nothing.
    """
    mode = _mode.get()
    policy = SecondPersonPolicy.objects.filter(organization=organization).first()
    is_checked = mode is _Mode.MEASURE or (mode is _Mode.CHECK and policy and policy.is_on)
    if policy is None or not is_checked:
        yield Guard(None)
        return
    before = read_state(organization)
    alone_mgpu = _moved_alone_mgpu(policy, actor, now)
    look_ahead = None if policy.stopped_jobs_min is None else _look_ahead[0](now)

    def check() -> None:
        after = read_state(organization)
        difference = compare(before, after)
        kept_mgpu = compare(as_if_reverted(before, after), after).moved_mgpu
        difference.moved_mgpu = max(difference.moved_mgpu, kept_mgpu)
        effects = _effects_of(difference)
        if look_ahead is not None and (difference.quotas or difference.rules):
            pools = None if difference.rules else difference.pools
            effects.stopped = look_ahead.after_write(organization, pools, begins_at=begins_at)
        why = _why(policy, difference, effects, alone_mgpu)
        if why or mode is _Mode.MEASURE:
            path = _path_of(organization, difference)
            raise SecondPersonNeeded(write, effects, organization, path, why=why, actor=actor)

    guard = Guard(check)
    with _in_mode(_Mode.PASS):
        yield guard
        guard.check()


def _why(
    policy: SecondPersonPolicy, difference: Difference, effects: Effects, alone_mgpu: int
) -> str:
    """Return why the write needs a second person, or ""."""
    if policy.is_on and any(called == "second person" for called, _, _ in difference.rules):
        return "It changes which writes need a second person"
    if policy.stopped_jobs_min is not None and effects.stopped_jobs >= policy.stopped_jobs_min:
        jobs = effects.stopped_jobs
        return f"It would stop {jobs} running {'job' if jobs == 1 else 'jobs'}"
    if (
        policy.moved_mgpu_max is not None
        and difference.moved_mgpu
        and alone_mgpu + difference.moved_mgpu > policy.moved_mgpu_max
    ):
        also = f", and you moved {gpus_text(alone_mgpu)} within a day" if alone_mgpu else ""
        return f"It moves {gpus_text(difference.moved_mgpu)} GPUs{also}"
    if policy.guards_rules and difference.rules:
        return f"It changes the {difference.rules[0][0]}"
    return ""


def _moved_alone_mgpu(policy: SecondPersonPolicy, actor: Actor, now: datetime) -> int:
    if policy.moved_mgpu_max is None:
        return 0
    # Two writes of a person at once wait for each other here, so that both count.
    with connection.cursor() as cursor:
        own = f"quotas moved by {actor.user.pk} in {policy.organization_id}"
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [own])
    return moved_alone_mgpu(policy.organization, actor.user.pk, now)


def _effects_of(difference: Difference) -> Effects:
    pools = {pool.pk: pool.name for pool in Pool.objects.filter(pk__in=difference.pools)}
    return Effects(
        moved_mgpu=difference.moved_mgpu,
        quotas=[
            {
                "node": place.path.rstrip("/"),
                "pool": pools[place.pool],
                "before": old,
                "after": new,
            }
            for place, old, new in difference.quotas[:_SHOWN_MAX]
        ],
        rules=[
            {"rule": called, **_differing(old or {}, new or {})}
            for called, old, new in difference.rules[:_SHOWN_MAX]
        ],
    )


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return {
        "before": {name: old.get(name) for name in names},
        "after": {name: new.get(name) for name in names},
    }


def _path_of(organization: Node, difference: Difference) -> str:
    """Return the lowest path above all changed quotas; the organization's where rules changed.

    It is the parent of the highest node, so PLATFORM for the quotas of the organization itself.
    """
    if difference.rules or not difference.quotas:
        return organization.path
    steps = [place.path.rstrip("/").split("/")[:-1] for place, _, _ in difference.quotas]
    common: list[str] = []
    for level in zip(*steps, strict=False):
        if len(set(level)) > 1:
            break
        common.append(level[0])
    return "/".join(common) + "/" if common else ""

"""Limits failures to sign in with growing delays, which no user can impose on another.

Failures are counted by login and source together, and by source alone. After a few free failures,
each one doubles the wait. A browser that signed in before (`tenants.devices`) has its own counter
and no other. Refused attempts do not count, so a wait ends even if attempts continue. All counters
are in PostgreSQL. So they hold for all web processes and without Valkey.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from django.db import connection, transaction
from django.db.models import F

from primitives.addresses import network_of
from primitives.errors import TooManyRequests
from tenants.models import SignInAttempts

#: A counter without a new failure for this long is deleted. It is longer than every wait.
FORGOTTEN_AFTER = timedelta(hours=1)
#: Failures of one login from everywhere, after which only one failure per source is free.
LOGIN_FAILURES_MAX = 50
#: Number of expired counters that each attempt deletes, so that the table stays small.
_DELETED_PER_ATTEMPT = 100


@dataclass(frozen=True)
class Rule:
    """The number of failures without a wait, and the longest wait."""

    free: int
    delay_max_s: int

    def delay_s(self, failures: int) -> int:
        """Return the wait after so many failures: 1 s after the last free one, then doubled."""
        if failures < self.free:
            return 0
        return int(min(self.delay_max_s, 2 ** min(failures - self.free, 30)))


LOGIN_AND_SOURCE = Rule(free=5, delay_max_s=900)
#: The same for a login with failures from many sources.
ATTACKED_LOGIN_AND_SOURCE = Rule(free=1, delay_max_s=900)
DEVICE = Rule(free=5, delay_max_s=900)
#: Short, because many people may share one address.
SOURCE = Rule(free=100, delay_max_s=60)
#: Starts of a sign-in at an identity provider, by source. A completed one is forgiven.
PROVIDER = Rule(free=100, delay_max_s=60)
_NO_WAIT = Rule(free=2**31, delay_max_s=0)
#: Wrong codes of one login from everywhere, after its right password: a code has six digits only.
SECOND_STEP = Rule(free=20, delay_max_s=900)


@dataclass(frozen=True)
class Wait:
    """A refused attempt: the end of the wait, and whether this attempt is its first."""

    until: datetime
    is_first: bool


@dataclass(frozen=True)
class Attempt:
    """The counters of one attempt."""

    #: Deleted after a success.
    own: bytes
    #: Counters shared with others. A success subtracts only this attempt.
    shared: Sequence[bytes]
    rule: Rule
    #: That of the login from everywhere. A right password is needed before it can make others wait.
    login_rule: Rule = _NO_WAIT

    @classmethod
    def from_source(cls, login: str, address: str) -> Attempt:
        """Return an attempt of a browser that never signed in as this user."""
        source = network_of(address)
        return cls(
            own=_key("login and source", login, source),
            shared=(_key("source", source), _key("login", login)),
            rule=LOGIN_AND_SOURCE,
        )

    @classmethod
    def from_device(cls, login: str, device: str) -> Attempt:
        """Return an attempt of a browser that signed in as this user before."""
        return cls(own=_key("device", login, device), shared=(), rule=DEVICE)

    @classmethod
    def at_second_step(cls, login: str, device: str | None, address: str) -> Attempt:
        """Return an attempt with a second factor, after the password of `login` was right.

        It has counters of its own, so a right password forgives no wrong code.
        """
        if device is not None:
            return cls(own=_key("second step, device", login, device), shared=(), rule=DEVICE)
        source = network_of(address)
        return cls(
            own=_key("second step, login and source", login, source),
            shared=(_key("source", source), _key("second step, login", login)),
            rule=LOGIN_AND_SOURCE,
            login_rule=SECOND_STEP,
        )

    @classmethod
    def at_provider(cls, address: str) -> Attempt:
        """Return a sign-in that begins at an identity provider."""
        source = network_of(address)
        return cls(own=_key("provider and source", source), shared=(), rule=PROVIDER)

    @classmethod
    def counted_by(cls, purpose: str, source: str, rule: Rule) -> Attempt:
        """Return an attempt with one counter, of a purpose and its source."""
        return cls(own=_key(purpose, source), shared=(), rule=rule)


@transaction.atomic
def count_attempt(attempt: Attempt, *, now: datetime) -> Wait | None:
    """Count `attempt` as failed, or return the wait that refuses it.

    Call it before the password is checked, so that parallel guesses cannot bypass it. Call
    `forgive_attempt` after a success.
    """
    _delete_forgotten(now)
    rows = _locked((attempt.own, *attempt.shared), now)
    waits = [
        row for row in rows.values() if row.blocked_until is not None and row.blocked_until > now
    ]
    if waits:
        SignInAttempts.objects.filter(pk__in=[row.pk for row in waits]).update(
            refusals=F("refusals") + 1
        )
        return Wait(
            until=max(row.blocked_until for row in waits if row.blocked_until is not None),
            is_first=any(row.refusals == 0 for row in waits),
        )
    for key, rule in _rules(attempt, rows):
        row = rows[key]
        row.attempts = min(row.attempts + 1, 1_000_000)
        row.refusals = 0
        row.last_attempt_at = now
        row.blocked_until = now + timedelta(seconds=rule.delay_s(row.attempts))
        row.save()
    return None


def require_attempt(attempt: Attempt, *, now: datetime, refusal: str) -> None:
    """Count `attempt` as failed. Raise TooManyRequests with `refusal` while it must wait."""
    wait = count_attempt(attempt, now=now)
    if wait is not None:
        retry_after_s = max(1, ceil((wait.until - now).total_seconds()))
        raise TooManyRequests(
            f"{refusal} Wait {retry_after_s} s, then try again.", retry_after_s=retry_after_s
        )


@transaction.atomic
def count_failure(purpose: str, source: str, *, now: datetime) -> int:
    """Count a failure, and return how many there were without an hour between two of them."""
    key = _key(purpose, source)
    row = _locked((key,), now)[key]
    row.attempts = min(row.attempts + 1, 1_000_000)
    row.last_attempt_at = now
    row.save()
    return row.attempts


def forget_failures(purpose: str, source: str) -> None:
    """Begin to count anew."""
    SignInAttempts.objects.filter(key=_key(purpose, source)).delete()


def forgive_attempt(attempt: Attempt) -> None:
    """Delete the failures of a user who just signed in; of shared counters only this attempt."""
    SignInAttempts.objects.filter(key=attempt.own).delete()
    SignInAttempts.objects.filter(key__in=attempt.shared, attempts__gt=0).update(
        attempts=F("attempts") - 1, blocked_until=None
    )


def uncount_attempt(attempt: Attempt) -> None:
    """Subtract a success from the attempt's own counter. Earlier failures stay."""
    SignInAttempts.objects.filter(key=attempt.own, attempts__gt=0).update(
        attempts=F("attempts") - 1, blocked_until=None
    )


def _rules(attempt: Attempt, rows: dict[bytes, SignInAttempts]) -> list[tuple[bytes, Rule]]:
    if not attempt.shared:
        return [(attempt.own, attempt.rule)]
    source, login = attempt.shared
    is_attacked = rows[login].attempts >= LOGIN_FAILURES_MAX
    own = ATTACKED_LOGIN_AND_SOURCE if is_attacked else attempt.rule
    return [(attempt.own, own), (source, SOURCE), (login, attempt.login_rule)]


def _key(*parts: str) -> bytes:
    # Hashed, because people type passwords into the wrong field.
    return hashlib.sha256("\0".join(parts).encode()).digest()


def _delete_forgotten(now: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            DELETE FROM tenants_signinattempts WHERE key IN (
                SELECT key FROM tenants_signinattempts
                WHERE last_attempt_at <= %s LIMIT %s FOR UPDATE SKIP LOCKED)
            """,
            [now - FORGOTTEN_AFTER, _DELETED_PER_ATTEMPT],
        )


def _locked(keys: Sequence[bytes], now: datetime) -> dict[bytes, SignInAttempts]:
    """Return the rows of `keys`, created where missing, locked in a fixed order."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO tenants_signinattempts AS known
                (key, attempts, refusals, last_attempt_at, blocked_until)
            SELECT wanted, 0, 0, %(now)s, NULL FROM unnest(%(keys)s::bytea[]) AS wanted
            ON CONFLICT (key) DO UPDATE SET
                attempts = CASE WHEN known.last_attempt_at <= %(forgotten)s
                    THEN 0 ELSE known.attempts END
            RETURNING key, attempts, refusals, last_attempt_at, blocked_until
            """,
            {"keys": sorted(keys), "now": now, "forgotten": now - FORGOTTEN_AFTER},
        )
        found = cursor.fetchall()
    names = ("key", "attempts", "refusals", "last_attempt_at", "blocked_until")
    return {bytes(values[0]): SignInAttempts.from_db("default", names, values) for values in found}

"""Recent use of teams and users, and the credits of teams, in virtual time.

Both accounts receive every change of the GPUs in use, with its second, and integrate exactly in
between. Nothing is sampled. A simulated fleet is one pool of the reference GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from arbiter.api.policy import DAY_S
from arbiter.api.snapshot import Balance, Usage
from arbiter.fairshare.decay import CHARGED_AT_START_S, Decay
from arbiter.fairshare.fair_tree import WEIGHT_OF_REFERENCE
from credits.settlement import Account, Interval, Limits, expire, settle, share_out
from simulator.scene import POOL

#: The sums of idle users are decayed to a common moment this often. Few different ages remain, so
#: that few decay factors are computed.
_CARRIED_EVERY_S = 3_600
_SETTLED_EVERY_S = 900
_SHARED_OUT_EVERY_S = 30 * DAY_S
_EARNINGS_LAST_S = 90 * DAY_S


@dataclass(slots=True)
class _Use:
    """Decayed milli-GPU-seconds until `at`, and the milli-GPU in use since then.

    `reported` is the row last reported, or None if it is out of date.
    """

    sum: int = 0
    in_use_mgpu: int = 0
    at: int = 0
    reported: Usage | None = None


class RecentUse:
    """Decayed use of every team and user in a pool, as in the meter of the portal."""

    def __init__(self, half_life_s: int, pool: str = POOL) -> None:
        self._decay = Decay(half_life_s)
        self._pool = pool
        #: By team and user.
        self._of: dict[str, dict[str, _Use]] = {}
        self._carried_at: dict[str, int] = {}

    def know(self, row: Usage) -> None:
        """Set the past use of a user that has no record yet."""
        self._of.setdefault(row.team, {})[row.user] = _Use(row.decayed_mgpu_s, at=row.as_of)

    def hold(self, team: str, user: str, mgpu: int, now: int) -> None:
        """Add `mgpu` to the GPUs in use from `now` on; a negative amount releases GPUs."""
        users = self._of.setdefault(team, {})
        use = users.get(user)
        if use is None:
            use = users[user] = _Use(at=now)
        self._advance(use, now)
        use.in_use_mgpu += mgpu

    def usage(self, now: int) -> tuple[Usage, ...]:
        """Return the use of all users; running jobs count until `now`."""
        return tuple(row for team in self._of for row in self.of_team(team, now))

    def of_team(self, team: str, now: int) -> list[Usage]:
        """Return the use of the users of one team; running jobs count until `now`."""
        users = self._of.get(team, {})
        is_due = now - self._carried_at.get(team, 0) >= _CARRIED_EVERY_S
        for user in list(users) if is_due else ():
            use = users[user]
            self._advance(use, now)
            if not use.sum and not use.in_use_mgpu:
                del users[user]
        if is_due:
            self._carried_at[team] = now
        found = []
        for user, use in users.items():
            if use.in_use_mgpu:
                self._advance(use, now)
            if use.reported is None:
                use.reported = Usage(team, user, self._pool, use.sum, use.at)
            found.append(use.reported)
        return found

    def _advance(self, use: _Use, now: int) -> None:
        passed = now - use.at
        if passed > 0:
            added = self._decay.use_of(use.in_use_mgpu, passed) if use.in_use_mgpu else 0
            use.sum = (use.sum * self._decay.factor(passed) >> 64) + added
            use.at = now
            use.reported = None


class Bank:
    """The credits of every team, settled each quarter of an hour and shared out each 30 days.

    The borrowed and the idle GPU time of a team are integrals over the quarter of an hour. If a
    team did both, the smaller integral is subtracted from the larger. Borrowed GPUs hold back the
    credits of one hour. A team lends up to its limit in `lends`, or its whole guarantee if it has
    no limit there.
    """

    def __init__(
        self,
        guaranteed: Mapping[str, int],
        *,
        floor_s: int,
        lends: Mapping[str, int] | None = None,
    ) -> None:
        self._guaranteed = guaranteed
        self._lends = {**guaranteed, **(lends or {})}
        self._limits = Limits(floor_s=floor_s)
        self.accounts = {
            team: Account(team, mgpu * WEIGHT_OF_REFERENCE) for team, mgpu in guaranteed.items()
        }
        self.pool = 0
        self._in_use = dict.fromkeys(guaranteed, 0)
        self._since = dict.fromkeys(guaranteed, 0)
        #: Milli-GPU-seconds above the guarantee, less those below it, since the last settlement.
        self._above = dict.fromkeys(guaranteed, 0)
        self._settled_at = 0
        #: The reported balances that are still true, by team. The tuple of all balances is None
        #: while one is out of date.
        self._reported: dict[str, Balance] = {}
        self._all_balances: tuple[Balance, ...] | None = None

    def hold(self, team: str, mgpu: int, now: int) -> None:
        """Add `mgpu` to the GPUs in use from `now` on; a negative amount releases GPUs."""
        self._settle_until(now)
        self._add_up(team, now)
        self._in_use[team] += mgpu
        self._reported.pop(team, None)
        self._all_balances = None

    def balances(self, now: int) -> tuple[Balance, ...]:
        """Return the balance of every team as of the last settlement, and the credits held back."""
        self._settle_until(now)
        if self._all_balances is not None:
            return self._all_balances
        reported = self._reported
        for team, account in self.accounts.items():
            if team not in reported:
                borrowed = max(0, self._in_use[team] - self._guaranteed[team])
                held = borrowed * WEIGHT_OF_REFERENCE * CHARGED_AT_START_S
                reported[team] = Balance(team, POOL, account.balance, held)
        self._all_balances = tuple([reported[team] for team in self.accounts])
        return self._all_balances

    def _add_up(self, team: str, now: int) -> None:
        passed = now - self._since[team]
        if passed:
            self._above[team] += (self._in_use[team] - self._guaranteed[team]) * passed
            self._since[team] = now

    def _settle_until(self, now: int) -> None:
        while now - self._settled_at >= _SETTLED_EVERY_S:
            self._settled_at += _SETTLED_EVERY_S
            self._settle(self._settled_at)

    def _settle(self, at: int) -> None:
        """Settle the past quarter of an hour; each day expire credits, each month share them out.

        The interval is one second long and holds the integrals of the whole quarter.
        """
        used, lendable = {}, {}
        for team, account in self.accounts.items():
            self._add_up(team, at)
            above = self._above[team] * WEIGHT_OF_REFERENCE
            used[team] = account.guaranteed + above
            most = self._lends[team] * WEIGHT_OF_REFERENCE * _SETTLED_EVERY_S
            lendable[team] = min(max(0, -above), most)
            self._above[team] = 0
        books, pool = tuple(self.accounts.values()), self.pool
        if any(used[one.team] > one.guaranteed for one in books):
            day = at // DAY_S
            paid = settle(
                books,
                pool,
                Interval(1, used, lendable),
                expires_at=day * DAY_S + _EARNINGS_LAST_S,
                limits=self._limits,
            )
            books, pool = paid.accounts, paid.pool
        if at % DAY_S == 0:
            left = expire(books, pool, at=at)
            books, pool = left.accounts, left.pool
        if at % _SHARED_OUT_EVERY_S == 0:
            shared = share_out(books, pool, expires_at=at + _EARNINGS_LAST_S, limits=self._limits)
            books, pool = shared.accounts, shared.pool
        self.accounts = {account.team: account for account in books}
        self._reported.clear()
        self._all_balances = None
        self.pool = pool

"""The teams that come before another one because they have more credits (R-117)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from arbiter.api.plan import ByCredits
from arbiter.fairshare.credits import Credits
from arbiter.queue.order import Position
from arbiter.quota.tree import ROOT, Tree

#: A day of guarantee in the unit in which credits are compared.
_TENTHS_PER_DAY = 10


class Richer(NamedTuple):
    """Teams with more credits than another one, and what they took.

    `team` is one of them in the poorer team's organization, and `tenths` are its credits in tenths
    of a day of its guarantee. ROOT: all of them belong to other organizations. `mgpu` is what they
    took in this cycle, and `inside_mgpu` the part of the poorer team's organization.
    """

    team: int
    tenths: int
    mgpu: int = 0
    inside_mgpu: int = 0


class _Given(NamedTuple):
    """The milli-GPU that a cycle gave to a team, and its credits at the first of these starts."""

    minus_credits: int
    mgpu: int


class SpareByCredits:
    """Spare GPUs that the starts of a cycle took, by the credits of their teams.

    Add all starts, before they are charged, and before the first request.
    """

    __slots__ = ("_given", "_tree")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        #: By source and rank, what each team got.
        self._given: dict[tuple[int, int], dict[int, _Given]] = {}

    def add(self, source: int, position: Position, team: int, mgpu: int) -> None:
        """Note that a start of `team` takes `mgpu` of the spare GPUs of `source`."""
        given = self._given.setdefault((source, position.minus_rank), {})
        known = given.get(team, _Given(position.minus_credits, 0))
        given[team] = _Given(known.minus_credits, known.mgpu + mgpu)

    def richer(self, source: int, position: Position, team: int) -> Richer | None:
        """Return what teams of equal rank with more credits took; None if nothing.

        It names the team of the same organization that took most.
        """
        paths = self._tree.paths
        total, inside, most, named, minus_credits = 0, 0, 0, ROOT, 0
        given = self._given.get((source, position.minus_rank), {})
        for other, one in sorted(given.items()):
            if one.minus_credits >= position.minus_credits:
                continue
            total += one.mgpu
            if paths[other][-1] == paths[team][-1]:
                inside += one.mgpu
                if one.mgpu > most:
                    most, named, minus_credits = one.mgpu, other, one.minus_credits
        return Richer(named, -minus_credits, total, inside) if total else None


class RicherAhead:
    """The teams of waiting jobs by their credits, among teams of equal position otherwise.

    Add all teams before the first request.
    """

    __slots__ = ("_is_sorted", "_of_place", "_tree")

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        #: By the position without credits and by organization, minus the credits of the teams and
        #: minus their numbers.
        self._of_place: dict[tuple[object, ...], dict[int, list[tuple[int, int]]]] = {}
        self._is_sorted = False

    def add(self, position: Position, loads: tuple[int, ...], team: int) -> None:
        """Add a team with a job that waits for GPUs at this position."""
        organization = self._tree.paths[team][-1]
        for place, minus_credits in _places(position, loads):
            teams = self._of_place.setdefault(place, {}).setdefault(organization, [])
            teams.append((minus_credits, -team))

    def before(self, position: Position, loads: tuple[int, ...], team: int) -> Richer | None:
        """Return the team that comes before `team` by its credits alone; None without any.

        In its own organization it is the one with the least that is still more. Ties are broken by
        the order of the tree.
        """
        if not self._is_sorted:
            for organizations in self._of_place.values():
                for teams in organizations.values():
                    teams.sort()
            self._is_sorted = True
        organization = self._tree.paths[team][-1]
        is_any = False
        for place, own in _places(position, loads):
            organizations = self._of_place.get(place, {})
            inside = organizations.get(organization, [])
            if count := bisect_left(inside, (own,)):
                minus_credits, minus_team = inside[count - 1]
                return Richer(-minus_team, -minus_credits)
            is_any |= any(teams[0][0] < own for teams in organizations.values())
        return Richer(ROOT, 0) if is_any else None


def _places(
    position: Position, loads: tuple[int, ...]
) -> tuple[tuple[tuple[object, ...], int], ...]:
    """Return the positions without credits, before and after fair-share, with these credits."""
    first = position[:3]
    return (
        (first, position.minus_credits),
        ((*first, position.minus_credits, loads), position.late_minus_credits),
    )


def credit_numbers(
    credits: Credits, guaranteed: Sequence[int], team: int, richer: Richer
) -> dict[str, int]:
    """Return the numbers of both balances, in tenths of a day of the guarantee.

    A balance of a team without a guarantee is left out, as it is not a number of such days. So is
    one of another organization.
    """
    numbers = {}
    if guaranteed[team]:
        numbers["credits_tenths"] = credits.exact_tenths(team)
    if credits.is_unpaid(team):
        numbers["floor_tenths"] = credits.floor_tenths
    if richer.team != ROOT and guaranteed[richer.team]:
        numbers["ahead_credits_tenths"] = richer.tenths
    return numbers


def credits_text(numbers: Mapping[str, int], ahead: str | None) -> str:
    """Return both balances as text. `ahead` is the name of the richer team, None if unknown."""
    first = "A team with more credits" if ahead is None else ahead
    own, other = numbers.get("credits_tenths"), numbers.get("ahead_credits_tenths")
    if ahead is None or own is None or other is None:
        text = f"{first} comes first" + ("." if ahead is None else ", because it has more credits.")
    else:
        text = (
            f"{first} comes first, because it has more credits: {_days(other)} of its guarantee,"
            f" against {_days(own)} of your team."
        )
    if "floor_tenths" in numbers:
        text += (
            " The credits of your team are at the floor, so what it borrows is unpaid: it comes"
            " after teams that pay, and is reclaimed first."
        )
    return text


def victim_text(why: ByCredits, names: Mapping[str, str]) -> str:
    """Return why credits chose a victim; `names` are display names of teams by id."""
    if why.is_unpaid:
        return (
            "It was chosen because the credits of its team are at the floor: what the team borrows"
            " is unpaid and is reclaimed first."
        )
    text = "It was chosen because its team has fewer credits than others"
    spared = None if why.spared_team is None else names.get(why.spared_team)
    if why.tenths is None or why.spared_tenths is None or spared is None:
        return f"{text}."
    return (
        f"{text}: {_days(why.tenths)} of its guarantee, against {_days(why.spared_tenths)} of"
        f" {spared}."
    )


def _days(tenths: int) -> str:
    """Return "2.5 days", "-1 day" or "1 day"."""
    whole, tenth = divmod(abs(tenths), _TENTHS_PER_DAY)
    amount = f"{'-' if tenths < 0 else ''}{whole:,}{f'.{tenth}' if tenth else ''}"
    return f"{amount} day{'' if abs(tenths) == _TENTHS_PER_DAY else 's'}"

"""Who could start before a job that is blocked, and has its turn on a lower guarantee than it draws
on (R-23)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from arbiter.queue_order import Age, Agenda

#: Where a job comes in the order of service.
Position = tuple[tuple[int, ...], Age]


class EarlierStarts:
    """Teams whose next jobs can start, by the turns that these would have if they could not.

    Each is looked at when it is first. Within a cycle who cannot start does not come to again,
    unless GPUs are taken back: then another one is to be made.
    """

    __slots__ = ("_news", "level", "turns")

    def __init__(self, level: int, teams: Iterable[int], turns: Agenda) -> None:
        """`teams` are those on the agenda that draw on guarantees further up than `level`; `turns`
        is an empty agenda for theirs, whose ratios are to be refreshed as those of the other."""
        self.level = level
        self.turns = turns
        self._news = set(teams)

    def note(self, team: int) -> None:
        """The team has another next job, or that draws on something else."""
        self._news.add(team)

    def pop(
        self,
        turn_of: Callable[[int], tuple[int, Age] | None],
        place_of: Callable[[int, int, Age], Position],
        before: Position,
    ) -> int | None:
        """Take out the team whose next job comes first, and `before` that; None where none does.

        `turn_of` a team is the guarantee on which its next job would have its turn, and the job;
        None where it is not to start before its turn. `place_of` them is where that comes.
        """
        turns = self.turns
        for team in self._news:
            turns.withdraw(team)
            turn = turn_of(team)
            if turn is not None:
                turns.enlist(*turn, team)
        self._news.clear()
        while (first := turns.pop()) is not None:
            enlisted_for, team = first
            turn = turn_of(team)
            if turn is None:
                continue
            if turn[0] == enlisted_for and place_of(team, *turn) < before:
                return team
            turns.enlist(*turn, team)
            if turn[0] == enlisted_for:
                break
        return None

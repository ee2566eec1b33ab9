"""Breadth-first search through every state that a machine can reach."""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

#: What can happen next: its name, where it leads, and what is wrong with that, if anything.
Step = tuple[str, S, str | None]


class TooManyStates(Exception):
    """The machine is larger than the search was told it may be."""


@dataclass
class Found(Generic[S]):
    """What a search saw. `wrong` has the shortest way to each wrong, as the names of its steps.

    `states` has each state's number, in the order in which they were found; a state is not
    followed past a wrong. `followers` are numbers too.
    """

    states: dict[S, int] = field(default_factory=dict, repr=False)
    followers: list[list[int]] = field(default_factory=list, repr=False)
    wrong: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def dead_ends(self, is_good: Callable[[S], bool]) -> list[S]:
        """The states from which no good one can be reached."""
        leads_to: list[list[int]] = [[] for _ in self.states]
        for number, followers in enumerate(self.followers):
            for follower in followers:
                leads_to[follower].append(number)
        reaching = {number for state, number in self.states.items() if is_good(state)}
        todo = list(reaching)
        while todo:
            for earlier in leads_to[todo.pop()]:
                if earlier not in reaching:
                    reaching.add(earlier)
                    todo.append(earlier)
        return [state for state, number in self.states.items() if number not in reaching]


def explore(
    start: S,
    steps: Callable[[S], Iterable[Step[S]]],
    *,
    states_max: int,
    until: str | None = None,
) -> Found[S]:
    """Every state reachable from `start`, or only as many as it takes to find the wrong `until`.

    Raises TooManyStates beyond `states_max`.
    """
    found: Found[S] = Found(states={start: 0})
    came_from: list[tuple[int, str]] = [(0, "")]
    queue = [start]
    with _without_collector():
        for number, state in enumerate(queue):
            followers = []
            for name, after, wrong in steps(state):
                if wrong is not None:
                    if wrong not in found.wrong:
                        found.wrong[wrong] = (*_way(came_from, number), name)
                        if wrong == until:
                            return found
                    continue
                index = found.states.setdefault(after, len(queue))
                if index == len(queue):
                    if index >= states_max:
                        raise TooManyStates(f"more than {states_max} states")
                    queue.append(after)
                    came_from.append((number, name))
                followers.append(index)
            found.followers.append(followers)
    return found


@contextmanager
def _without_collector() -> Iterator[None]:
    """States are tuples without cycles; looking for some among millions takes half the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _way(came_from: list[tuple[int, str]], number: int) -> tuple[str, ...]:
    names = []
    while number:
        number, name = came_from[number]
        names.append(name)
    return tuple(reversed(names))

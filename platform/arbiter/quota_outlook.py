"""How quota stands from moment to moment, as far as ends are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arbiter.quota_tree import Ledger
from arbiter.time_limits import Release


class QuotaOutlook:
    """How quota stands while what has a known end ends: `ledger`, moment by moment."""

    __slots__ = ("_at", "_part", "_parts", "ledger")

    def __init__(self, ledger: Ledger, parts: Iterator[Sequence[Release]]) -> None:
        """`parts` have the ends in order of time."""
        self.ledger = ledger
        self._parts = parts
        #: What is next: the place in this part.
        self._part: Sequence[Release] = ()
        self._at = 0

    def advance(self, until: int) -> None:
        """Take out what has ended by `until`."""
        ended: dict[int, int] = {}
        while self._is_more():
            part, at = self._part, self._at
            while at < len(part) and part[at][0] <= until:
                _, team, mgpu, _, _ = part[at]
                ended[team] = ended.get(team, 0) + mgpu
                at += 1
            self._at = at
            if at < len(part):
                break
        for team, mgpu in ended.items():
            self.ledger.charge(team, -mgpu)

    def allowed_from(self, first: int, team: int, mgpu: int) -> int | None:
        """From when on, `first` at the earliest, quota lets `team` start `mgpu`; None when that
        cannot be told.

        Whatever ends gives nobody more than it held: what is missing has to end before quota is
        asked again.
        """
        self.advance(first)
        while (missing := mgpu - self.ledger.available(team)) > 0:
            ended: dict[int, int] = {}
            while self._is_more():
                part, at = self._part, self._at
                while at < len(part):
                    end, of, less, _, _ = part[at]
                    if missing <= 0 and end != first:
                        break
                    first = end
                    ended[of] = ended.get(of, 0) + less
                    missing -= less
                    at += 1
                self._at = at
                if at < len(part):
                    break
            if missing > 0:
                return None
            for of, less in ended.items():
                self.ledger.charge(of, -less)
        return first

    def _is_more(self) -> bool:
        """Whether anything else ends."""
        while self._at >= len(self._part):
            part = next(self._parts, None)
            if part is None:
                return False
            self._part, self._at = part, 0
        return True

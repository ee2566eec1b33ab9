"""The results of single fields of a manifest, each with its document and its path."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: The most refusals that a text shows, and the most of all its other findings. The two are counted
#: apart, so that a text with any refusal has one.
FINDINGS_MAX = 100
_WHERE_MAX = 200


class Verdict(StrEnum):
    """The result of a field."""

    UNDERSTOOD = "understood"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of the field `where` ("document 2, Job: spec.suspend") in line `line`.

    The first line is 1. 0 means that the line is unknown.
    """

    line: int
    where: str
    verdict: Verdict
    detail: str


class Findings:
    """The findings of one text, in the order in which they were made."""

    def __init__(self) -> None:
        self._refused: dict[tuple[int, str, str], Finding] = {}
        self._others: dict[tuple[int, str, str], Finding] = {}

    def add(self, line: int, where: str, verdict: Verdict, detail: str) -> None:
        """Add a finding. The same one counts once."""
        found = self._refused if verdict is Verdict.REFUSED else self._others
        if len(found) < FINDINGS_MAX:
            finding = Finding(line, where[:_WHERE_MAX], verdict, detail)
            found.setdefault((line, where, detail), finding)

    def all(self) -> tuple[Finding, ...]:
        """Return all findings, by line."""
        found = (*self._others.values(), *self._refused.values())
        return tuple(sorted(found, key=lambda one: one.line))

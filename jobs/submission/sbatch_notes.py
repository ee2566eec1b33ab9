"""The outcome of each line of an sbatch text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NOTE_TEXT_MAX = 200


class Verdict(StrEnum):
    """The result of a line."""

    UNDERSTOOD = "understood"
    IGNORED = "ignored"
    REFUSED = "refused"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Note:
    """The result of a line (numbered from 1; 0 is the whole text), with the reason."""

    line: int
    text: str
    verdict: Verdict
    detail: str

    def as_json(self) -> dict[str, Any]:
        """Return the stored and shown form."""
        return {
            "line": self.line,
            "text": self.text,
            "verdict": self.verdict.value,
            "detail": self.detail,
        }


def refused_of(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes of refused lines. A job with one is not accepted."""
    return tuple(note for note in notes if note.verdict is Verdict.REFUSED)


class NotUnderstood(ValueError):
    """A directive is refused; the text says why and what to do."""

"""File names of `--output` and `--error` with Slurm's patterns (sbatch(1), "filename pattern")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

#: The letters that Slurm 22.05 replaces, and those of them whose values are numbers.
LETTERS = "AJNajnstux"
_NUMBERS = "AJajnt"
_WIDTH_MAX = 10
_PATTERN = re.compile(r"%([0-9]*)(.?)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


class Field(NamedTuple):
    """A letter of a pattern. A number is padded with zeros to `width` digits."""

    letter: str
    width: int


def parts_of(pattern: str) -> list[str | Field]:
    """Return the texts and fields of `pattern`, in order.

    An unknown letter stays as it is. A backslash anywhere means that nothing is replaced.
    """
    if "\\" in pattern:
        return [_ESCAPE.sub(r"\1", pattern)]
    parts: list[str | Field] = []
    end = 0
    for found in _PATTERN.finditer(pattern):
        parts.append(pattern[end : found.start()])
        end = found.end()
        digits, letter = found.groups()
        if letter and letter in LETTERS:
            width = min(int(digits or 0), _WIDTH_MAX) if letter in _NUMBERS else 0
            parts.append(Field(letter, width))
        elif letter == "%" and not digits:
            parts.append("%")
        else:
            # Slurm drops the % before a number, and nothing else.
            parts.append((digits or "%") + letter)
    parts.append(pattern[end:])
    return [part for part in parts if part]


def file_name(pattern: str, values: Mapping[str, str]) -> str:
    """Return `pattern` with each `%x` replaced by `values["x"]`, which has all of `LETTERS`."""
    return "".join(
        part if isinstance(part, str) else values[part.letter].zfill(part.width)
        for part in parts_of(pattern)
    )


def has_task(pattern: str) -> bool:
    """Return whether the tasks of a step write to files of their own."""
    return any(isinstance(part, Field) and part.letter in "Nnt" for part in parts_of(pattern))

"""The syntax of job arrays, which is that of Slurm's `--array`; no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The most tasks of an array, and the largest index.
TASKS_MAX = 1_000
INDEX_MAX = 1_000_000
TEXT_MAX = 8_000
#: Script, environment and notes are stored with each task. This bounds their bytes over all tasks.
STORED_BYTES_MAX = 16 << 20

_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?")
_LIMIT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """The indices of an array, ascending, with their text.

    At most `max_running` tasks run at once (None: no limit). `repeated` is the smallest index that
    the text names more than once.
    """

    indices: tuple[int, ...]
    text: str
    max_running: int | None
    repeated: int | None = None

    @property
    def size(self) -> int:
        """The number of tasks."""
        return len(self.indices)


def parse_array(text: str) -> ArrayShape:
    """Return the shape that `text` describes: "0-9", "1,3,5-7" or "0-31:4", optionally with "%K".

    An index that is named twice counts once, as for Slurm. Raises ValueError with a sentence.
    """
    if len(text) > TEXT_MAX:
        raise ValueError(f"must have at most {TEXT_MAX:,} characters")
    listed, percent, limit = text.partition("%")
    if percent and (not _LIMIT.fullmatch(limit) or int(limit) < 1):
        raise ValueError("must have after % how many tasks may run at once, at least 1")
    indices: set[int] = set()
    repeated: list[int] = []
    for part in listed.split(","):
        named = _range(part)
        repeated += indices.intersection(named)
        indices.update(named)
        if len(indices) > TASKS_MAX:
            raise ValueError(f"has more than {TASKS_MAX:,} tasks; submit several arrays")
    most = int(limit) if percent else None
    return ArrayShape(tuple(sorted(indices)), listed, most, min(repeated, default=None))


def _range(part: str) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"must be indices such as 0-9, 1,3,5-7 or 0-31:4%8, not {part[:40]!r}")
    first = int(match[1])
    last = first if match[2] is None else int(match[2])
    step = 1 if match[3] is None else int(match[3])
    if last > INDEX_MAX:
        raise ValueError(f"has the index {last:,}; the largest is {INDEX_MAX:,}")
    if step < 1:
        raise ValueError(f"has the step 0 in {part[:40]!r}; it is 1 at least")
    if last < first:
        raise ValueError(f"has the empty range {part[:40]!r}; write the smaller index first")
    found = range(first, last + 1, step)
    if len(found) > TASKS_MAX:
        raise ValueError(f"has more than {TASKS_MAX:,} tasks; submit several arrays")
    return found


def task_name(name: str, index: int) -> str:
    """Return the name of an array's task."""
    return f"{name}[{index}]"

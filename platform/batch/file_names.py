"""File names of `--output` and `--error` with Slurm's patterns (sbatch(1), "filename pattern")."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PATTERN = re.compile(r"%(%|([0-9]{0,2})([A-Za-z]))")


def file_name(pattern: str, values: Mapping[str, str]) -> str:
    """Return `pattern` with each `%x` replaced by `values["x"]`.

    A number pads the value with zeros, as in `%4t`. An unknown letter stays as it is. A backslash
    anywhere means that nothing is replaced.
    """
    if "\\" in pattern:
        return pattern.replace("\\", "")

    def replaced(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        value = values.get(match[3])
        if value is None:
            return match[0]
        return value.zfill(min(int(match[2] or 0), 10)) if value.isdecimal() else value

    return _PATTERN.sub(replaced, pattern)


def has_task(pattern: str) -> bool:
    """Return whether the tasks of a step write to files of their own."""
    return "\\" not in pattern and any(
        match[3] in ("t", "n", "N") for match in _PATTERN.finditer(pattern) if match[3]
    )

"""Tidegate and the real sbatch 22.05 read the same of `#SBATCH` lines.

`tests/recordings/record_sbatch_options.py` asked sbatch and slurmctld; `tests/slurm` asks again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.sbatch_comparison import differences
from jobs.submission.sbatch_options import OPTIONS, PYXIS, Option

RECORDING: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "recordings" / "sbatch_options.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", RECORDING["cases"], ids=lambda case: " | ".join(case["lines"]))
def test_the_same_is_read(case: dict[str, Any]) -> None:
    """Planted: a time limit that is not rounded up, nodes rounded down from tasks, GPUs of a task
    that are taken as those of a node, a comment only after a space, GB that is refused."""
    assert differences(case["lines"], case["answer"], case["policy"]) == []


def test_every_option_of_the_manual_page_is_in_the_table() -> None:
    """Planted: a table without --prefer."""
    known = {name: option.short for name, option in OPTIONS.items()}
    assert {name: known.get(name, "absent") for name, _ in RECORDING["options"]} == dict(
        RECORDING["options"]
    )


def test_the_guide_has_every_option() -> None:
    """Planted: a guide with another sentence on --exclude, one without --time."""
    guide = Path(__file__).parents[3] / "docs" / "guide" / "from-slurm.md"
    table = guide.read_text(encoding="utf-8").partition("## Options\n")[2]
    rows = [line for line in table.splitlines() if line.startswith("| `--")]
    assert rows == [row_of(option) for option in [*OPTIONS.values(), *PYXIS.values()]]


def row_of(option: Option) -> str:
    """Return the row of the guide's table for an option."""
    short = "" if option.short is None else f", `-{option.short}`"
    return f"| `--{option.name}`{short} | {option.reading.value} | {option.told} |"

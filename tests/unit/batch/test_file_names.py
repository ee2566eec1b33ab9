"""Slurm's patterns in file names."""

from __future__ import annotations

import pytest

from batch.file_names import file_name, has_task

VALUES = {"j": "77", "t": "3", "N": "node-001", "x": "pre train"}


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("slurm-%j.out", "slurm-77.out"),
        ("%x/%j_%t.log", "pre train/77_3.log"),
        ("%4t", "0003"),
        ("%99t", "0000000003"),
        ("%5N", "node-001"),
        ("100%%", "100%"),
        ("%q", "%q"),
        ("a\\%j", "a%j"),
    ],
)
def test_letters_are_replaced_as_in_slurm(pattern: str, name: str) -> None:
    assert file_name(pattern, VALUES) == name


def test_tasks_have_files_of_their_own_where_the_name_says_so() -> None:
    assert [has_task(name) for name in ("%t.out", "%N.out", "%j.out", "%%t", "\\%t")] == [
        True,
        True,
        False,
        False,
        False,
    ]

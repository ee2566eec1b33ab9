"""Slurm's patterns in file names."""

from __future__ import annotations

import pytest

from batch.file_names import file_name, has_task

VALUES = {
    **{"A": "70", "J": "77", "N": "node-001", "a": "4294967294", "j": "77", "n": "0", "s": "batch"},
    **{"t": "3", "u": "ana", "x": "pre train"},
}


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
        # As sbatch 22.05 names its files.
        ("a\\b\\c\\\\d%j", "abc\\d%j"),
        ("f-%j-%J-%A-%a-%x", "f-77-77-70-4294967294-pre train"),
        ("%N-%n-%t-%s-%u-%%", "node-001-0-3-batch-ana-%"),
        ("%4t-%6j-%z-%b-%12n-%4x", "0003-000077-%z-%b-0000000000-pre train"),
        ("x%%%j%%j", "x%77%j"),
        ("y%0j-%99j-%3%-%3z", "y77-0000000077-3%-3z"),
        ("%s%5", "batch5"),
        ("end%", "end%"),
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

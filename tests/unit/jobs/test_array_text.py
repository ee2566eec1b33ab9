"""The text of an array is read as Slurm reads it."""

from __future__ import annotations

import pytest

from jobs.submission.array_text import INDEX_MAX, TASKS_MAX, parse_array


@pytest.mark.parametrize(
    ("text", "indices", "limit"),
    [
        ("0", (0,), None),
        ("0-3", (0, 1, 2, 3), None),
        ("1,3,5-7", (1, 3, 5, 6, 7), None),
        ("0-31:4", tuple(range(0, 32, 4)), None),
        ("0-9:4%3", (0, 4, 8), 3),
        ("7,1,7", (1, 7), None),
        ("5-5:9", (5,), None),
        ("1000000", (1_000_000,), None),
        ("0-999%1000000", tuple(range(1_000)), 1_000_000),
    ],
)
def test_the_text_is_read_as_slurm_reads_it(
    text: str, indices: tuple[int, ...], limit: int | None
) -> None:
    shape = parse_array(text)
    assert (shape.indices, shape.max_running) == (indices, limit)
    assert shape.text == text.partition("%")[0]


@pytest.mark.parametrize(
    ("text", "repeated"),
    [("0-3", None), ("0,0", 0), ("7,1,7", 7), ("0-9,5,3-4", 3), ("1-4:2,2-4:2", None)],
)
def test_an_index_that_is_named_twice_is_remembered(text: str, repeated: int | None) -> None:
    assert parse_array(text).repeated == repeated


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be indices such as"),
        ("a", "must be indices such as"),
        ("-1", "must be indices such as"),
        ("0-", "must be indices such as"),
        ("0,,1", "must be indices such as"),
        ("0 - 3", "must be indices such as"),
        ("٤", "must be indices such as"),
        ("0-3\n", "must be indices such as"),
        ("[0-3]", "must be indices such as"),
        ("3-0", "has the empty range '3-0'"),
        ("0-3:0", "has the step 0 in '0-3:0'; it is 1 at least"),
        ("1000001", "has the index 1,000,001; the largest is 1,000,000"),
        ("0-1000", "has more than 1,000 tasks"),
        ("0-999,2000", "has more than 1,000 tasks"),
        ("0-999999999", "has the index 999,999,999"),
        ("0-9%", "must have after %"),
        ("0-9%0", "must have after %"),
        ("0-9%3%4", "must have after %"),
        ("0-9%-1", "must have after %"),
        ("1," * 4_001, "must have at most 8,000 characters"),
    ],
)
def test_what_is_no_array_is_refused_in_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^(must|has) ") as refusal:
        parse_array(text)
    assert str(refusal.value).startswith(reason)


def test_the_limits_are_those_of_the_database() -> None:
    assert (TASKS_MAX, INDEX_MAX) == (1_000, 1_000_000)

"""Quantities as the API server stores them."""

from __future__ import annotations

import pytest

from connectors.kubernetes.objects.reading import Odd, cpu_nano, memory_bytes, units


@pytest.mark.parametrize(
    ("found", "count"),
    [
        *((None, 0), (8, 8), ("8", 8), ("1k", 1_000), ("2M", 2_000_000), ("1G", 10**9)),
        *(("3T", 3 * 10**12), ("1P", 10**15), ("1Ki", 1_024), ("2Mi", 2 << 20)),
        *(("1Gi", 1 << 30), ("1Ti", 1 << 40), ("1Pi", 1 << 50), ("1e3", 1_000), ("1E+2", 100)),
    ],
)
def test_whole_units_are_read_in_every_notation(found: object, count: int) -> None:
    """Mutant: only "k" was known, and all that was with a Pod of "1Ki" was unread."""
    assert units({"limits": {"g": found}}, "limits", "g") == count


@pytest.mark.parametrize(
    "found",
    [
        *("1m", "1.5", "-1", "k", "1 k", "1K", "1kk", "", "1e", "1e-3", "1\n", -1, True, 1.0),
        *(1 << 53, str(1 << 53), "9007199254741P", "1e99"),
    ],
)
def test_what_is_no_whole_number_of_units_is_odd(found: object) -> None:
    with pytest.raises(Odd, match=r"limits\.g is"):
        units({"limits": {"g": found}}, "limits", "g")


@pytest.mark.parametrize(
    ("found", "nano"),
    [(None, None), ("0", 0), ("1", 10**9), ("250m", 250 * 10**6), ("12345678n", 12_345_678)],
)
def test_a_cpu_rate_is_read_to_a_billionth(found: str | None, nano: int | None) -> None:
    """Planted: as thousandths, which are 12 of 12345678n."""
    assert cpu_nano({"usage": {"cpu": found}}, "usage", "cpu") == nano


@pytest.mark.parametrize(
    ("found", "count"),
    [(None, None), ("3Ki", 3_072), ("1.5Gi", 3 << 29), ("7", 7), ("128974848000m", 128_974_848)],
)
def test_memory_is_read_to_a_byte(found: str | None, count: int | None) -> None:
    assert memory_bytes({"usage": {"memory": found}}, "usage", "memory") == count

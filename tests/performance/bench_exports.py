"""Files of charges: how fast and with how much memory they are written.

    python tests/performance/bench_exports.py [--smoke]

The stream of charges is read from the month of bench_chargeback. The writers get made-up rows:
10,000 as CSV (target 0.2 s), and a million as Parquet (target 10 s with less than 200 MiB more
memory than before).
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bed import a_database
from bench_chargeback import DAYS, MONTH, NOW, fill

CSV_TARGET_S = 0.2
PARQUET_TARGET_S = 10.0
PARQUET_TARGET_MIB = 200


def main() -> None:
    """Write files, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the size")
    arguments = parser.parse_args()
    factor = 100 if arguments.smoke else 1
    with a_database(), tempfile.TemporaryDirectory() as folder:
        written("csv", 10_000 // factor, Path(folder), CSV_TARGET_S)
        written("xlsx", 10_000 // factor, Path(folder), None)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        written("parquet", 1_000_000 // factor, Path(folder), PARQUET_TARGET_S)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        word = "met" if grown < PARQUET_TARGET_MIB else "NOT met"
        print(f"{'':<24}{grown} MiB more, target {PARQUET_TARGET_MIB} MiB {word}")
        streamed(100_000 // factor, Path(folder))


def written(format_name: str, rows: int, folder: Path, target_s: float | None) -> None:
    """Print how long a file of made-up rows takes."""
    from exports.tables import CHARGE_COLUMNS
    from exports.writers import writer_of

    taken_s = 0.0
    with writer_of(format_name, folder / format_name, CHARGE_COLUMNS) as writer:
        for batch in made_up(rows):
            begin = time.perf_counter()
            writer.write(batch)
            taken_s += time.perf_counter() - begin
        begin = time.perf_counter()
    shown(f"{rows} rows of {format_name}", taken_s + time.perf_counter() - begin, target_s)


def made_up(rows: int) -> Iterator[list[object]]:
    """Yield batches of charges, each of another job and attempt."""
    from billing.charges import BATCH_ROWS, Charge

    for first in range(0, rows, BATCH_ROWS):
        yield [
            Charge(
                MONTH, NOW, "bench", "department-1", "bench/department-1/team-1", "1", "ada",
                "alpha", "h100", "gpu", "guaranteed", "normal", 1_000_000,
                f"01a1fd00-0000-7000-8000-{number:012d}", f"train-{number}",
                f"01a1fd00-0000-7000-9000-{number:012d}", 1, 28_800_000 + number,
                "01a1fd00-0000-7000-a000-000000000001", 2_000_000_000, number, number, number,
                number, "EUR", "pay_per_use", 1_000_000, 28_800_000 + number, "",
            )
            for number in range(first, min(first + BATCH_ROWS, rows))
        ]  # fmt: skip


def streamed(attempts: int, folder: Path) -> None:
    """Print how long the month takes from the database to a Parquet file."""
    from billing.charges import charges_of
    from billing.periods import Period
    from builders.portal_builders import an_actor
    from exports.tables import CHARGE_COLUMNS
    from exports.writers import writer_of
    from tenants.models import Node
    from tenants.roles import Role

    fill(attempts)
    finance = an_actor(Node.objects.get(path="bench/"), Role.FINANCE)
    period = Period(MONTH, NOW, NOW)
    rows, begin = 0, time.perf_counter()
    with writer_of("parquet", folder / "month", CHARGE_COLUMNS) as writer:
        for batch in charges_of(actor=finance, period=period, node_path="bench"):
            writer.write(batch.rows)
            rows += len(batch.rows)
    taken_s = time.perf_counter() - begin
    shown(f"{rows} rows of {DAYS} days from {attempts} attempts", taken_s, None)


def shown(name: str, taken_s: float, target_s: float | None) -> None:
    """Print one figure."""
    verdict = ""
    if target_s is not None:
        verdict = f", target {target_s} s {'met' if taken_s < target_s else 'NOT met'}"
    print(f"{name:<48}{taken_s:7.2f} s{verdict}")


if __name__ == "__main__":
    main()

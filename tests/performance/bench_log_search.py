"""The search in a log of 100 MB that a job wrote on a local cluster.

    python tests/performance/bench_log_search.py [--smoke]

Each figure is one search of the whole log, page by page as a browser asks for it (target 2 s), and
its longest page.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from bed import a_database

TARGET_S = 2.0
#: A line of a training with its end, 90 bytes.
_LINE = "step %07d loss 2.318482 grad 0.412 lr 3.0e-04 tokens 1048576 seconds 1.84"


def main() -> None:
    """Write a log, search it, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a hundredth of the size")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, a_database():
        measure(Path(folder) / "local", 1_000_000 if arguments.smoke else 100_000_000)


def measure(root: Path, size: int) -> None:
    """Print the figures for a log of `size` bytes."""
    from builders.connector_builders import a_workload, until_released
    from builders.job_builders import a_job, an_attempt
    from builders.portal_builders import a_company, a_user
    from connectors.registry import open_connector

    company = a_company()
    options = {
        "root": str(root),
        "nodes": {"count": 4, "gpus": 8, "pool": "h100", "prefix": "ai-company-"},
        "use_real_gpus": False,
        "isolation": "off",
        "log_cap_bytes": 1 << 30,
    }
    company.cluster.options = options
    company.cluster.save()
    job = a_job(company, a_user(company.organization), state="running")
    attempt = an_attempt(job, cluster=company.cluster)
    connector = open_connector("local", options, str(company.cluster.pk))
    connector.prepare()
    # Every thousandth line begins with a word of its own.
    program = f"awk 'BEGIN {{ for (n = 0; n * 90 < {size}; n++) {{ "
    program += f'if (n % 1000 == 0) printf "MARK "; printf "{_LINE} %s\\n", n, '
    program += """n % 5 ? "ok ........." : "\\303\\274 ........." } }'"""
    workload = a_workload(program, key=attempt.key, node_prefix="ai-company-")
    connector.submit(workload)
    until_released(connector, workload.key)
    end = connector.read_log(attempt.key, rank=0, stream="stdout", offset=-1, limit=1)
    print(f"a log of {end.next_offset / 1_000_000:.0f} MB")
    for name, text in (
        ("no line", "needle"),
        ("every 1,000th line", "mark"),
        ("one line in ten", "1 loss"),
        ("every line, its first 5,000", "seconds"),
    ):
        searched(name, text, job.pk)
    print(f"memory at its most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


def searched(name: str, text: str, job_id: object) -> None:
    """Print how long a search takes, up to 5,000 matches."""
    from jobs.reading.log_search import LogQuery, search_log

    cursor, found, pages, longest_s, begin = None, 0, 0, 0.0, time.perf_counter()
    cpu_begin = time.process_time()
    while pages == 0 or (cursor is not None and found < 5_000):
        page_begin = time.perf_counter()
        page = search_log(
            job_id,  # type: ignore[arg-type]
            attempt=None,
            rank=None,
            stream=None,
            query=LogQuery(text),
            asked=SimpleNamespace(limit=500, cursor=cursor),
        ).page
        longest_s = max(longest_s, time.perf_counter() - page_begin)
        found, pages, cursor = found + len(page.items), pages + 1, page.next_cursor
    taken_s = time.perf_counter() - begin
    verdict = "met" if taken_s < TARGET_S else "NOT met"
    print(
        f"{name:<32}{found:6} matches in {pages:3} pages {taken_s:7.2f} s, target {TARGET_S} s "
        f"{verdict}; {time.process_time() - cpu_begin:.2f} s of CPU time; longest page "
        f"{1000 * longest_s:.0f} ms"
    )


if __name__ == "__main__":
    main()

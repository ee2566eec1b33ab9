"""The local connector: listing 1,000 attempts, and what a supervisor costs.

python tests/performance/bench_local_connector.py [--smoke]
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "platform"), str(Path(__file__).parents[1])]

from builders.connector_builders import (  # noqa: E402 - needs the path above
    a_workload,
    until_released,
    until_running,
)
from connectors.protocol import ClusterConnector, RankSlot  # noqa: E402 - needs the path above
from connectors.registry import open_connector  # noqa: E402 - needs the path above


def milliseconds(connector: ClusterConnector, *, times: int = 20) -> str:
    """Median and largest time of one listing."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        connector.observe()
        taken.append((time.perf_counter() - begin) * 1_000)
    return f"median {statistics.median(taken):.1f} ms, largest {max(taken):.1f} ms"


def resident_kib(attempts: Path) -> list[tuple[int, int]]:
    """(VmRSS, proportional set size) of every supervisor and keeper of `attempts`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"supervise.py\0{attempts}/" not in (entry / "cmdline").read_text():
                continue
            fields = dict(
                line.split(":", 1)
                for name in ("status", "smaps_rollup")
                for line in (entry / name).read_text().splitlines()
                if ":" in line
            )
            found.append((int(fields["VmRSS"].split()[0]), int(fields["Pss"].split()[0])))
        except OSError:
            continue
    return found


def main(count: int, running: int) -> None:
    root = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    options = {"root": str(root), "use_real_gpus": False, "isolation": "off"}
    connector = open_connector("local", options, "bench")
    connector.prepare()
    try:
        model = a_workload("exit 0")
        begin = time.perf_counter()
        connector.submit(model)
        print(f"one submit: {(time.perf_counter() - begin) * 1_000:.0f} ms")
        until_released(connector, model.key)
        for number in range(count - running):
            copy = root / "attempts" / f"copy-{number}"
            copy.mkdir()
            for name in ("spec.json", "end.json"):
                shutil.copy(root / "attempts" / model.key / name, copy / name)
        fresh = open_connector("local", options, "bench")
        begin = time.perf_counter()
        fresh.observe()
        print(f"first listing of {count}: {(time.perf_counter() - begin) * 1_000:.1f} ms")
        print(f"later ones, all ended: {milliseconds(fresh)}")
        jobs = [
            a_workload("sleep 1000", slots=(RankSlot(f"node-{n % 125 + 1:03d}", 1000),))
            for n in range(running)
        ]
        begin = time.perf_counter()
        for job in jobs:
            connector.submit(job)
        print(f"{running} submits: {time.perf_counter() - begin:.1f} s")
        for job in jobs:
            until_running(connector, job.key)
        print(f"with {running} running: {milliseconds(connector)}")
        memory = resident_kib(root / "attempts")
        print(
            f"{len(memory)} supervisors and keepers: largest {max(rss for rss, _ in memory)} KiB "
            f"resident, {sum(pss for _, pss in memory) // 1_024} MiB together (proportional)"
        )
    finally:
        begin = time.perf_counter()
        for key, seen in connector.observe().observations.items():
            if not seen.is_released:
                connector.stop(key)
        for key, seen in connector.observe().observations.items():
            if not seen.is_released:
                until_released(connector, key)
        print(f"all stopped and released: {time.perf_counter() - begin:.1f} s")
        shutil.rmtree(root)


if __name__ == "__main__":
    main(*((50, 5) if "--smoke" in sys.argv else (1_000, 130)))

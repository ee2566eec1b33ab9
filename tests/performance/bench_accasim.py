"""Replay of a trace beside AccaSim: python tests/performance/bench_accasim.py [--smoke]
[TRACE --gpus N --first N]

Strict first in, first out on nodes of 8 GPUs, gangs whole, by both in turn on the same jobs, in
seconds of CPU time; AccaSim places first fit, as its own examples do, and writes its schedule to
a file. That jobs wait equally long on average shows that both do the same work; where
they place differs. Without a path the jobs are those of `bench_simulation`.

AccaSim (PyPI: accasim) is no dependency of ours: install it into the environment for this
benchmark, or nothing but our own figure is printed.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import json
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from bench_simulation import TEAMS, generated

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Quota, TreeNode
from simulator.comparison import simulate
from simulator.scene import POOL, QuotaTree, stage, uniform_fleet
from simulator.schedulers.simple import Fifo
from simulator.traces import read_trace
from simulator.workload import Settings, Work, gang, prepare

PER_NODE = 8
ROUNDS = 3
TARGET = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--gpus", type=int, default=1_280)
    parser.add_argument("--first", type=int, help="only the first jobs")
    parser.add_argument("--smoke", action="store_true", help="a few hundred jobs, one round")
    given = parser.parse_args()
    if given.trace is None:
        jobs = generated(300 if given.smoke else 10_000, given.gpus, seed=1)
    else:
        jobs = read_trace(given.trace, gpus_per_node=PER_NODE).jobs
    # Nobody passes a job that has waited for 0 s, and both decide in every second.
    works = prepare(jobs[: given.first], Settings(cycle_s=1, strict_after_s=0))
    print(f"{len(works):,} jobs, strict FIFO on {given.gpus // PER_NODE} nodes of {PER_NODE} GPUs")
    ours, theirs = [], []
    for _ in range(1 if given.smoke else ROUNDS):
        ours.append(our_run(works, given.gpus))
        found = accasim_run(works, given.gpus)
        if found is not None:
            theirs.append(found)
    tell("tidegate", len(works), ours)
    if not theirs:
        print("accasim is not installed")
        return
    tell("accasim", len(works), theirs)
    ratio = min(spent for spent, _ in theirs) / min(spent for spent, _ in ours)
    print(f"{ratio:.1f} times as fast; target {TARGET} {'met' if ratio >= TARGET else 'NOT met'}")


def tell(name: str, jobs: int, runs: Sequence[tuple[float, float]]) -> None:
    """The fastest run, and how long jobs waited in it on average."""
    spent, wait_s = min(runs)
    print(f"{name:<9} {spent:>8.2f} s {jobs / spent:>9,.0f} jobs/s   mean wait {wait_s:,.0f} s")


def our_run(works: Sequence[Work], gpus: int) -> tuple[float, float]:
    """CPU seconds, and the mean wait."""
    names = sorted({work.job.team for work in works} | set(TEAMS))
    tree = QuotaTree(
        tuple(TreeNode(name, None) for name in names),
        tuple(Quota(name, POOL, 0) for name in names),
    )
    scene, teams = stage(tree, uniform_fleet(gpus, PER_NODE), Policy(), names, scale=False)
    begin = time.process_time()
    settings = Settings(cycle_s=1, strict_after_s=0)
    outcome = simulate(works, scene, settings, teams, Fifo.name)
    spent = time.process_time() - begin
    waits = [(task.first_start_s or 0) - task.submit_s for task in outcome.tasks]
    return spent, sum(waits) / len(waits)


def accasim_run(works: Sequence[Work], gpus: int) -> tuple[float, float] | None:
    """As `our_run`, by AccaSim; None where it is not installed."""
    # It was written for Pythons in which these still had their old place.
    for name in ("Mapping", "Iterable", "OrderedDict"):
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    try:
        from accasim.base.allocator_class import FirstFit
        from accasim.base.scheduler_class import FirstInFirstOut
        from accasim.base.simulator_class import Simulator
        from accasim.utils.reader_class import DefaultTweaker
    except ImportError:
        return None

    class Gangs(DefaultTweaker):  # type: ignore[misc, no-any-unimported]
        """Nodes and GPUs on each as ours, where SWF has a number of processors only."""

        def tweak_function(self, row: dict[str, object]) -> dict[str, object]:
            row = super().tweak_function(row)
            mgpu, nodes = gang(int(str(row["total_processors"])), PER_NODE)
            row["requested_nodes"] = nodes
            row["requested_resources"] = {"core": mgpu // 1_000}
            return row

    with tempfile.TemporaryDirectory() as folder:
        trace, system = Path(folder, "trace.swf"), Path(folder, "system.json")
        trace.write_text("".join(map(_swf, works)), "utf-8")
        system.write_text(
            json.dumps(
                {
                    "groups": {"g": {"core": PER_NODE}},
                    "resources": {"g": gpus // PER_NODE},
                    "start_time": 0,
                }
            ),
            "utf-8",
        )
        begin = time.process_time()
        simulation = Simulator(
            str(trace),
            str(system),
            FirstInFirstOut(FirstFit()),
            tweak_function=Gangs(0),
            statistics_output=False,
            show_statistics=False,
            RESULTS_FOLDER_PATH=folder,
        )
        simulation.start_simulation()
        spent = time.process_time() - begin
        written = next(Path(folder).glob("sched-*")).read_text("utf-8").splitlines()
    waits = [_wait_s(line) for line in written]
    assert len(waits) == len(works)
    return spent, sum(waits) / len(waits)


def _swf(work: Work) -> str:
    job = work.job
    gpus = job.mgpu // 1_000
    fields = [work.number + 1, job.submit_s, -1, job.duration_s, gpus, -1, -1, gpus, work.limit_s]
    return " ".join(map(str, [*fields, *[-1] * 9])) + "\n"


def _wait_s(line: str) -> float:
    """Of a line of AccaSim's schedule: id;user;queued__node;GPUs#node;GPUs#__started;ended;..."""
    queued, _, started = line.split("__")
    since, until = queued.rpartition(";")[2], started.partition(";")[0]
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


if __name__ == "__main__":
    main()

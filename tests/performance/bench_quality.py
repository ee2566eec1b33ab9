"""How good schedules are, against what is promised of them:
python tests/performance/bench_quality.py [TRACE QUOTAS] [--gpus N ...] [--seeds N]
[--jobs FROM:TO] [--team-column NAME] [--policy FILE] [--no-credits] [--processes N] [--smoke]

For every size of the fleet, with guarantees scaled to it, and every seed our policy and the
baselines play the same jobs; those that no seed changes play once. Printed are the figures of each
policy, from the lowest to the highest of the seeds, and which targets ours meets. Without a trace
jobs of a generator (see bench_simulation.py). All GPUs are of one kind, whatever a trace names.

The best utilisation is sought among all of them, the best wait among those that stop nobody. `las`
is left out: it holds GPUs for work that it throws away.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from bench_simulation import TEAMS, generated

from arbiter.policy import Policy
from arbiter.snapshot import Quota, TreeNode
from simulator.comparison import BASELINES, OURS, simulate
from simulator.quality import Quality, judge
from simulator.scene import POOL, QuotaTree, read_policy, read_quotas, stage, uniform_fleet
from simulator.traces import read_trace
from simulator.workload import Settings, TraceJob, fluid_bound_mgpu_s, prepare

#: What no seed changes, as long as no node fails: neither limits nor checkpoints matter to them.
SEEDLESS = ("static", "fifo", "multifactor", "drf", "cohorts")
STOPS_NOBODY = ("fifo", "easy", "multifactor", "drf", "cohorts")
CONSERVING = (*STOPS_NOBODY, "karma")


def known(share: float | None) -> float:
    """A share of the time in which jobs came, or of the work that was done."""
    if share is None:
        raise SystemExit("All jobs come at once, or none ran: there is nothing to judge.")
    return share


#: One that is None of a run is of departments, where there are none.
FIGURES: Mapping[str, Callable[[Quality], float | None]] = {
    "utilisation": lambda q: known(q.utilisation),
    "utilisation / bound": lambda q: known(q.of_bound),
    "goodput": lambda q: known(q.goodput),
    "wait mean (h)": lambda q: q.waits.mean_s / 3600,
    "wait p95 (h)": lambda q: q.waits.p95_s / 3600,
    "shortfall": lambda q: q.shortfall,
    "  not below a gang": lambda q: q.divisible,
    "  of that, worst team": lambda q: q.divisible_worst,
    "worst department": lambda q: q.departments_shortfall_worst,
    "  that, not below a gang": lambda q: q.departments_divisible_worst,
    "due to start p95 (s)": lambda q: q.due.p95_s,
    "waste / useful (%)": lambda q: 100 * known(q.waste),
    "preemptions": lambda q: q.preemptions,
    "  of a job: max": lambda q: q.preemptions_max,
    "never started or done": lambda q: q.unfinished,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One run: what plays which jobs on how many GPUs."""

    jobs: tuple[TraceJob, ...]
    tree: QuotaTree
    knobs: Policy
    gpus: int
    settings: Settings
    policy: str


@dataclass(frozen=True, slots=True)
class Target:
    """What is promised: `value` of our figures and all baselines', `most` or `least` of it."""

    name: str
    value: Callable[[Quality, Mapping[str, Quality]], float]
    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether the value is within both."""
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )

    def worst(self, values: Sequence[float]) -> float:
        """The value that is nearest to breaking it."""
        return min(values) if self.least is not None else max(values)


def targets(settings: Settings, knobs: Policy) -> tuple[Target, ...]:
    """What a schedule of ours is held to."""

    def best(of: Mapping[str, Quality]) -> float:
        return max(known(of[name].utilisation) for name in CONSERVING)

    def static(of: Mapping[str, Quality]) -> float:
        return known(of["static"].utilisation)

    def wait_s(of: Mapping[str, Quality]) -> int:
        return min(of[name].waits.mean_s for name in STOPS_NOBODY)

    latency_s = knobs.grace_period_s_default + 2 * settings.cycle_s
    return (
        Target("utilisation / best", lambda q, of: known(q.utilisation) / best(of), least=0.98),
        Target("utilisation / static", lambda q, of: known(q.utilisation) / static(of), least=1.2),
        Target("shortfall, not below a gang", lambda q, of: q.divisible, most=0.02),
        Target("  of the worst team", lambda q, of: q.divisible_worst, most=0.02),
        Target("waste / useful (%)", lambda q, of: 100 * known(q.waste), most=0.5),
        Target("reclaim p95 (s)", lambda q, of: q.due.p95_s, most=latency_s),
        Target("mean wait / best", lambda q, of: q.waits.mean_s / max(1, wait_s(of)), most=1.1),
    )


def play(case: Case) -> Quality:
    """The figures of one run."""
    works = prepare(case.jobs, case.settings)
    fleet = uniform_fleet(case.gpus, 8)
    scene, teams = stage(case.tree, fleet, case.knobs, [job.team for job in case.jobs], scale=True)
    outcome = simulate(works, scene, case.settings, teams, case.policy)
    jobs = [work.job for work in works]
    bound = fluid_bound_mgpu_s(jobs, scene.capacity_mgpu, outcome.horizon_s)
    return judge(outcome, capacity_mgpu=scene.capacity_mgpu, bound_mgpu_s=bound, alone=None)


def load(jobs: Sequence[TraceJob], gpus: int) -> float:
    """What is asked for over what there is until the last submission."""
    span_s = max(1, max(job.submit_s for job in jobs) - min(job.submit_s for job in jobs))
    return sum(job.mgpu * job.duration_s for job in jobs) / (gpus * 1_000 * span_s)


def spelled(values: Sequence[float]) -> str:
    """From the lowest to the highest, in four figures."""
    low, high = (f"{value:.4g}" for value in (min(values), max(values)))
    return low if low == high else f"{low}..{high}"


def show(found: Mapping[str, Sequence[Quality]], promised: Sequence[Target]) -> None:
    """Print the figures of all policies, by seed, and how ours stands."""
    print(f"{'':<24}" + "".join(f"{name:>18}" for name in found))
    for name, figure in FIGURES.items():
        rows = [
            [value for one in of if (value := figure(one)) is not None] for of in found.values()
        ]
        if all(rows):
            print(f"{name:<24}" + "".join(f"{spelled(values):>18}" for values in rows))
    print()
    for target in promised:
        values = [
            target.value(ours, {name: of[i % len(of)] for name, of in found.items()})
            for i, ours in enumerate(found[OURS])
        ]
        met = sum(map(target.is_met, values))
        bound = f">= {target.least}" if target.most is None else f"<= {target.most}"
        print(f"{target.name:<28} {spelled(values):>18}  {bound:<8} met in {met} of {len(values)}")
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("quotas", nargs="?", type=Path)
    parser.add_argument("--gpus", type=int, action="append", help="a size; may be given again")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", default=":", help="FROM:TO of the trace, by submit time")
    parser.add_argument("--team-column")
    parser.add_argument("--policy", type=Path, help="knobs of the arbiter")
    parser.add_argument("--no-credits", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a few hundred jobs, one seed")
    given = parser.parse_args()
    if (given.trace is None) != (given.quotas is None):
        parser.error("a trace needs its quotas")
    sizes = given.gpus or ([64] if given.trace is None else [416, 512, 640])
    if given.trace is None:
        jobs = generated(300 if given.smoke else 5_000, sizes[0], seed=1)
        tree = QuotaTree(
            tuple(TreeNode(team, None) for team in TEAMS),
            tuple(Quota(team, POOL, 1_000 * (1 + i % 3)) for i, team in enumerate(TEAMS)),
        )
    else:
        jobs = read_trace(given.trace, gpus_per_node=8, team_column=given.team_column).jobs
        tree = read_quotas(given.quotas)
    first, _, last = given.jobs.partition(":")
    jobs = tuple(
        replace(job, features=frozenset())
        for job in jobs[int(first or 0) : int(last) if last else None]
    )
    knobs = read_policy(given.policy)
    seeds = range(1, (1 if given.smoke else given.seeds) + 1)
    policies = (OURS, *(name for name in BASELINES if name != "las"))
    with ProcessPoolExecutor(given.processes) as pool:
        for gpus in sizes:
            runs = {
                name: [
                    pool.submit(
                        play,
                        Case(
                            jobs,
                            tree,
                            knobs,
                            gpus,
                            Settings(seed=seed, has_credits=not given.no_credits),
                            name,
                        ),
                    )
                    for seed in (seeds[:1] if name in SEEDLESS else seeds)
                ]
                for name in policies
            }
            print(f"{gpus} GPUs, {len(jobs):,} jobs, load {load(jobs, gpus):.2f}, seeds {seeds}")
            found = {name: [run.result() for run in of] for name, of in runs.items()}
            show(found, targets(Settings(), knobs))


if __name__ == "__main__":
    main()

"""How good schedules are, against what is promised of them:
python tests/performance/bench_quality.py [TRACE QUOTAS] [--gpus N ...] [--seeds N]
[--jobs FROM:TO] [--mix LOAD] [--team-column NAME] [--policy FILE] [--no-credits] [--processes N]
[--smoke]

For every size of the fleet, with guarantees scaled to it, and every seed our policy and the
baselines play the same jobs; those that no seed changes play once. Printed are the figures of each
policy, from the lowest to the highest of the seeds, and which targets ours meets; `-` is a figure
of nothing, and a target that needs one is not judged. Without a trace jobs of a generator (see
bench_simulation.py), with `--mix` those of one with many large jobs (see mixed_jobs.py). All GPUs
are of one kind, whatever a trace names.

The best utilisation and goodput are sought among all of them, that of utilisation also among all
but `easy`, which goes by age alone and keeps GPUs idle for who is next; the best wait among those
that stop nobody. `las` is left out: it holds GPUs for work that it throws away.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from bench_simulation import TEAMS, generated
from mixed_jobs import mixed, mixed_quotas

from arbiter.api.policy import Policy
from arbiter.api.snapshot import Quota, TreeNode
from simulator.comparison import BASELINES, OURS, bound_mgpu_s, simulate
from simulator.policy_file import read_policy
from simulator.quality import Quality, judge
from simulator.scene import POOL, QuotaTree, read_quotas, stage, uniform_fleet
from simulator.traces import read_trace
from simulator.workload import Settings, TraceJob, prepare

#: What no seed changes, as long as no node fails: neither limits nor checkpoints matter to them.
SEEDLESS = ("static", "fifo", "multifactor", "drf", "cohorts")
STOPS_NOBODY = ("fifo", "easy", "multifactor", "drf", "cohorts")
RIVALS = (*STOPS_NOBODY, "karma")


Figure = Callable[[Quality], float | None]


def times(factor: float, value: float | None) -> float | None:
    """`factor` times `value`; None of None."""
    return None if value is None else factor * value


def over(part: float | None, whole: float | None) -> float | None:
    """The quotient; None of nothing, or by nothing."""
    return part / whole if part is not None and whole else None


#: None is a figure of nothing.
FIGURES: Mapping[str, Figure] = {
    "utilisation": lambda q: q.utilisation,
    "goodput": lambda q: q.goodput,
    "goodput / bound": lambda q: q.of_bound,
    "idle, a fitting job waits": lambda q: q.idle_fitting,
    "  reservation": lambda q: q.idle["reservation"],
    "idle, fits on no nodes": lambda q: q.idle["fragmentation"],
    "idle, too few for a job": lambda q: q.idle["larger"],
    "wait mean (h)": lambda q: over(q.waits.mean_s, 3_600),
    "gangs: wait mean (h)": lambda q: over(q.gang_waits.mean_s, 3_600),
    "wait p95 (h)": lambda q: over(q.waits.p95_s, 3_600),
    "shortfall": lambda q: q.shortfall,
    "  not below a gang": lambda q: q.divisible,
    "  of that, worst team": lambda q: q.divisible_worst,
    "worst department": lambda q: q.departments_shortfall_worst,
    "  that, not below a gang": lambda q: q.departments_divisible_worst,
    "due to start p95 (s)": lambda q: q.due.p95_s,
    "waste / useful (%)": lambda q: times(100, q.waste),
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
    value: Callable[[Quality, Mapping[str, Quality]], float | None]
    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        """Whether the value is within both."""
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )


def targets(settings: Settings, knobs: Policy) -> tuple[Target, ...]:
    """What a schedule of ours is held to."""

    def known(figure: Figure, names: Sequence[str], of: Mapping[str, Quality]) -> list[float]:
        return [value for name in names if (value := figure(of[name])) is not None]

    def against_best(
        figure: Figure, names: Sequence[str] = RIVALS
    ) -> Callable[[Quality, Mapping[str, Quality]], float | None]:
        return lambda q, of: over(figure(q), max(known(figure, names, of), default=None))

    def against_least_wait(q: Quality, of: Mapping[str, Quality]) -> float | None:
        waits = known(lambda one: one.waits.mean_s, STOPS_NOBODY, of)
        return over(q.waits.mean_s, max(1, min(waits))) if waits else None

    latency_s = knobs.grace_period_s_default + 2 * settings.cycle_s
    return (
        Target("utilisation / best", against_best(lambda q: q.utilisation), least=0.98),
        Target(
            "utilisation / best but easy",
            against_best(lambda q: q.utilisation, [name for name in RIVALS if name != "easy"]),
            least=0.98,
        ),
        Target("goodput / best", against_best(lambda q: q.goodput), least=0.98),
        Target(
            "utilisation / static",
            lambda q, of: over(q.utilisation, of["static"].utilisation),
            least=1.2,
        ),
        Target("shortfall, not below a gang", lambda q, of: q.divisible, most=0.02),
        Target("  of the worst team", lambda q, of: q.divisible_worst, most=0.02),
        Target("waste / useful (%)", lambda q, of: times(100, q.waste), most=0.5),
        Target("reclaim p95 (s)", lambda q, of: q.due.p95_s, most=latency_s),
        Target("mean wait / best", against_least_wait, most=1.1),
    )


def play(case: Case) -> Quality:
    """The figures of one run."""
    works = prepare(case.jobs, case.settings)
    fleet = uniform_fleet(case.gpus, 8)
    scene, teams = stage(case.tree, fleet, case.knobs, [job.team for job in case.jobs], scale=True)
    outcome = simulate(works, scene, case.settings, teams, case.policy)
    bound = bound_mgpu_s(works, scene)
    return judge(outcome, capacity_mgpu=scene.capacity_mgpu, bound_mgpu_s=bound, alone=None)


def load(jobs: Sequence[TraceJob], gpus: int) -> float:
    """What is asked for over what there is until the last submission."""
    span_s = max(1, max(job.submit_s for job in jobs) - min(job.submit_s for job in jobs))
    return sum(job.mgpu * job.duration_s for job in jobs) / (gpus * 1_000 * span_s)


def spelled(values: Sequence[float | None]) -> str:
    """From the lowest to the highest that is known, in four figures."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    low, high = (f"{value:.4g}" for value in (min(known), max(known)))
    return low if low == high else f"{low}..{high}"


def judged(target: Target, values: Sequence[float | None]) -> list[str]:
    """The line of a target: its name, what was reached, what is promised, and how often it is."""
    known = [value for value in values if value is not None]
    bound = f">= {target.least}" if target.most is None else f"<= {target.most}"
    met = f"met in {sum(map(target.is_met, known))} of {len(known)}" if known else "not judged"
    if known and len(known) < len(values):
        met += f", {len(values) - len(known)} not judged"
    return [target.name, spelled(values), bound, met]


def aligned(rows: Sequence[Sequence[str]], *, left: Sequence[int]) -> str:
    """Lines of columns as wide as what is in them, two blanks apart; those at `left` begin on one
    line, the others end on one."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def show(found: Mapping[str, Sequence[Quality]], promised: Sequence[Target]) -> None:
    """Print the figures of all policies, by seed, and how ours stands."""
    figures = [
        [name, *(spelled([figure(one) for one in of]) for of in found.values())]
        for name, figure in FIGURES.items()
    ]
    print(aligned([["", *found], *figures], left=[0]))
    print()
    targeted = [
        judged(
            target,
            [
                target.value(ours, {name: of[i % len(of)] for name, of in found.items()})
                for i, ours in enumerate(found[OURS])
            ],
        )
        for target in promised
    ]
    print(aligned(targeted, left=[0, 2, 3]))
    print(flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("quotas", nargs="?", type=Path)
    parser.add_argument("--gpus", type=int, action="append", help="a size; may be given again")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", default=":", help="FROM:TO of the trace, by submit time")
    parser.add_argument("--mix", type=float, metavar="LOAD", help="4,000 jobs, many of them large")
    parser.add_argument("--team-column")
    parser.add_argument("--policy", type=Path, help="knobs of the arbiter")
    parser.add_argument("--no-credits", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a few hundred jobs, one seed")
    given = parser.parse_args()
    if (given.trace is None) != (given.quotas is None):
        parser.error("a trace needs its quotas")
    if given.mix is not None and given.trace is not None:
        parser.error("--mix makes the jobs up: give no trace")
    sizes = given.gpus or ([64] if given.trace is None else [416, 512, 640])
    if given.mix is not None:
        sizes = given.gpus or [256]
        jobs = mixed(300 if given.smoke else 4_000, sizes[0], given.mix, seed=1)
        tree = mixed_quotas()
    elif given.trace is None:
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
    rules = read_policy(given.policy)
    tree, knobs = rules.ranked(tree), rules.policy
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

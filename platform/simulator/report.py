"""The comparison as rows for people and as an object for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from primitives.units import MGPU_S_PER_GPU_HOUR
from simulator.comparison import Result
from simulator.idle import Cause
from simulator.observer import Team
from simulator.quality import Quality, due_max_s_of, spread
from simulator.scene import Scene
from simulator.workload import Settings, Work

Cell = Callable[[Quality], str]


def _share(name: str, digits: int = 4) -> Cell:
    return lambda quality: _optional(getattr(quality, name), digits)


def _hours(seconds: int | None) -> str:
    return _optional(None if seconds is None else seconds / 3600)


def _optional(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _idle(cause: Cause) -> Cell:
    return lambda quality: _optional(quality.idle[cause.value], 4)


#: The figures of each policy, line by line.
ROWS: tuple[tuple[str, Cell], ...] = (
    ("utilisation", _share("utilisation")),
    ("goodput", _share("goodput")),
    ("utilisation / bound", _share("used_of_bound")),
    ("goodput / bound", _share("of_bound")),
    ("idle, a fitting job waits", _share("idle_fitting")),
    ("  quota", _idle(Cause.QUOTA)),
    ("  place in the guarantee", _idle(Cause.PLACE)),
    ("  reservation", _idle(Cause.RESERVATION)),
    ("  claim", _idle(Cause.CLAIM)),
    ("  order of service", _idle(Cause.ORDER)),
    ("  next cycle", _idle(Cause.CYCLE)),
    ("  a baseline's rules", _idle(Cause.POLICY)),
    ("idle, fits on no nodes", _idle(Cause.FRAGMENTATION)),
    ("idle, too few for a job", _idle(Cause.LARGER)),
    ("idle, nobody waits", _idle(Cause.NOBODY)),
    ("wait mean (h)", lambda q: _hours(q.waits.mean_s)),
    ("wait p50 (h)", lambda q: _hours(q.waits.p50_s)),
    ("wait p95 (h)", lambda q: _hours(q.waits.p95_s)),
    ("wait max (h)", lambda q: _hours(q.waits.max_s)),
    ("gangs: wait mean (h)", lambda q: _hours(q.gang_waits.mean_s)),
    ("gangs: wait p95 (h)", lambda q: _hours(q.gang_waits.p95_s)),
    ("completion mean (h)", lambda q: _hours(q.completion.mean_s)),
    ("bounded slowdown mean", _share("slowdown", 2)),
    ("guarantee shortfall", _share("shortfall")),
    ("  worst team", _share("shortfall_worst")),
    ("  beyond grace + cycle", _share("lasted")),
    ("  and not below a gang", _share("divisible")),
    ("  of that, worst team", _share("divisible_worst")),
    ("worst department", _share("departments_shortfall_worst")),
    ("  not below a gang", _share("departments_divisible_worst")),
    ("Jain", _share("jain")),
    ("worst team's rho", lambda q: _optional(q.rho_worst)),
    ("  weighted by work", lambda q: _optional(q.rho_worst_by_work)),
    ("due to start p95 (s)", lambda q: _optional(q.due.p95_s, 0)),
    ("due to start max (h)", lambda q: _hours(q.due_max_s)),
    ("  in a department (h)", lambda q: _hours(q.departments_due_max_s)),
    ("waste / useful", _share("waste", 5)),
    ("lost (GPU-h)", lambda q: _gpu_hours(q.lost_mgpu_s)),
    ("restarts (GPU-h)", lambda q: _gpu_hours(q.overhead_mgpu_s)),
    ("preemptions", lambda q: str(q.preemptions)),
    ("  of a job: p99", lambda q: str(q.preemptions_p99)),
    ("  of a job: max", lambda q: str(q.preemptions_max)),
    ("node failures", lambda q: str(q.failures)),
    ("jobs finished", lambda q: str(q.finished)),
    ("jobs refused", lambda q: str(q.refused)),
    ("jobs never started or done", lambda q: str(q.unfinished)),
)


def table(results: Sequence[Result]) -> list[list[str]]:
    """Return a row for each figure, with a column for each policy."""
    return [[name, *(cell(one.quality) for one in results)] for name, cell in ROWS]


def document(
    results: Sequence[Result], works: Sequence[Work], scene: Scene, settings: Settings
) -> dict[str, Any]:
    """Return all assumptions and results, for programs; equal input gives equal output."""
    return {
        "jobs": len(works),
        "horizon_s": works[-1].job.submit_s if works else 0,
        "nodes": len(scene.machines),
        "capacity_mgpu": scene.capacity_mgpu,
        "guaranteed_mgpu": dict(scene.teams),
        "departments_guaranteed_mgpu": dict(scene.departments),
        "settings": asdict(settings),
        "policy": asdict(scene.policy),
        "ranks": {node.id: node.rank for node in scene.nodes if node.rank},
        "results": [_result(one) for one in results],
    }


def _result(one: Result) -> Mapping[str, Any]:
    outcome = one.outcome
    return {
        "policy": one.policy,
        "quality": asdict(one.quality),
        "teams": _figures(outcome.observer.teams, outcome.ended_s),
        "departments": _figures(outcome.observer.departments, outcome.ended_s),
        "events": outcome.events,
        "cycles": outcome.ticks,
        "waiting_max": outcome.waiting_max,
        "log_sha256": outcome.log,
    }


def _figures(meters: Mapping[str, Team], ended_s: int) -> dict[str, dict[str, Any]]:
    """Return the figures of each team or department.

    `due` is how long jobs fitted in its unused guarantee before their start. `due_max_s` is the
    longest, and counts jobs that never started until the end.
    """
    return {
        name: {
            "used_mgpu_s": meter.used_mgpu_s,
            "entitled_mgpu_s": meter.entitled_mgpu_s,
            "short_mgpu_s": meter.short_mgpu_s,
            "lasting_short_mgpu_s": meter.lasting.total,
            "divisible_short_mgpu_s": meter.divisible.total,
            "due": asdict(spread(meter.entitled_s)),
            "due_max_s": due_max_s_of((meter,), ended_s),
        }
        for name, meter in meters.items()
    }


def _gpu_hours(mgpu_s: int) -> str:
    hours = mgpu_s / MGPU_S_PER_GPU_HOUR
    # A small amount must not look like zero.
    return f"{hours:.3f}" if 0 < hours < 10 else f"{hours:,.0f}"

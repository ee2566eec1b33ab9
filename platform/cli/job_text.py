"""Prints jobs as text and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import typer

from cli.budget_amounts import left_of
from cli.output import (
    NAME_PAD_MAX,
    Devices,
    age,
    cost,
    duration,
    gpus,
    is_wide,
    labels,
    moment_text,
    plain,
    print_fields,
    print_table,
    tell,
)
from primitives.currencies import money_text
from primitives.state_words import state_phrase
from primitives.units import DeviceKind, gpu_hours


def print_jobs(jobs: Sequence[Mapping[str, Any]], *, now: datetime) -> None:
    """Print the list of jobs. A pipe gets all columns, a narrow terminal only some."""
    devices = Devices(job["device"] for job in jobs)
    columns = ["ID", "NAME", "STATE", devices.head, "AGE"]
    shows_all = is_wide()
    if shows_all:
        columns += ["POOL", "USER", "TEAM"]
    rows = []
    for job in jobs:
        row = [
            job["id"],
            job["name"],
            job["state"] + (" (native)" if job["origin"] == "native" else ""),
            _held_or_asked(job, devices),
            age(job["submitted_at"], now=now),
        ]
        rows.append([*row, _pool(job), job["user"], job["team"]] if shows_all else row)
    print_table(columns, rows, squeeze="NAME", pad_max=NAME_PAD_MAX)


def _pool(job: Mapping[str, Any]) -> str:
    """Return the pool of a started job, or all pools that a waiting job accepts."""
    pools = ", else ".join(job["pools"])
    if len(job["pools"]) == 1 or not job["attempt"]:
        return pools
    return f"{job['pool']} (of {pools})"


def _held_or_asked(job: Mapping[str, Any], devices: Devices) -> str:
    """Return the GPUs that a job has, or asks for: "4..16" for a waiting elastic job."""
    if job["node_count_min"] == job["node_count"]:
        return devices.count(job["mgpu"], job["device"])
    attempt = job["current_attempt"]
    if attempt:
        return devices.count(attempt["mgpu"], job["device"])
    return f"{gpus(job['mgpu_min'])}..{devices.count(job['mgpu'], job['device'])}"


def print_job(job: Mapping[str, Any]) -> None:
    """Print one job, field by field."""
    attempt = job["current_attempt"] or {}
    usage = job["usage"]
    print_fields(
        [
            ("id", job["id"]),
            ("name", job["name"]),
            ("state", _state(job)),
            ("team", job["team"]),
            ("user", job["user"]),
            ("pool", _pool(job)),
            ("schedule", _schedule(job)),
            ("array", job["array"] and f"{job['array']['id']}, {job['array']['size']} tasks"),
            (_devices(job), _size(job, granted_mgpu=attempt.get("mgpu"))),
            ("features", ", ".join(job["features"]) or None),
            ("image", job["image"]),
            ("launch", _launch(job)),
            ("folder", job.get("folder")),
            ("output file", job.get("output_file")),
            ("error file", job.get("error_file")),
            ("topology", _topology(job)),
            ("with each node", _beside(job)),
            ("class", job["priority_class"]),
            ("time limit", _limit(job["time_limit_s"])),
            ("requeued after", _requeued_after(job)),
            (
                "cost cap",
                money_text(job["cost_cap_nano"], None) if job.get("cost_cap_nano") else None,
            ),
            ("submitted", job["submitted_at"]),
            ("begins", job["begin_at"]),
            ("starts", "after other jobs of its name" if job.get("is_singleton") else None),
            ("started", job["started_at"]),
            ("ended", job["ended_at"]),
            ("exit code", _exit_code(job)),
            ("notice", "ignored: stopped by force" if attempt.get("ignored_notice") else None),
            ("attempt", job["attempt"] or None),
            ("cluster", attempt.get("cluster") or job["cluster"]),
            ("native id", attempt.get("native_id")),
            ("nodes", _nodes(attempt)),
            (f"borrowed {_devices(job)}", gpus(attempt["borrowed_mgpu"]) if attempt else None),
            ("stopped as", attempt.get("stop_reason")),
            ("grace ends", attempt.get("grace_until")),
            ("stopped for", _made_room_for(job, attempt)),
            ("checkpoint", job["checkpoint_path"]),
            ("saved at", attempt.get("checkpoint_at")),
            ("message", attempt.get("message")),
            (
                "used",
                f"{gpu_hours(usage['guaranteed_mgpu_s'])} guaranteed and "
                f"{gpu_hours(usage['borrowed_mgpu_s'])} borrowed "
                f"{DeviceKind(job['device']).singular}-hours",
            ),
            ("cost so far", _cost(job)),
            *(("waits for", _waited_for(one)) for one in job.get("depends_on", ())),
            ("waits because", (job["explanation"] or {}).get("sentence")),
        ]
    )


def _cost(job: Mapping[str, Any]) -> str | None:
    cost = job.get("cost")
    return cost and f"{money_text(cost['cost_nano'], cost['currency'])} {cost['currency']}"


def _schedule(job: Mapping[str, Any]) -> str | None:
    schedule = job.get("schedule")
    return schedule and f"{schedule['name']} ({schedule['id']})"


def _launch(job: Mapping[str, Any]) -> str | None:
    """Return how a batch job starts its tasks, or that the job is a manifest.

    None for a script that runs on every node.
    """
    if job["launch"] == "manifest":
        return "Kubernetes manifest"
    if job["launch"] != "batch":
        return None
    tasks = job.get("ntasks")
    each = job.get("ntasks_per_node")
    told = [f"{tasks} tasks" if tasks else "", f"{each} on a node" if each else ""]
    return ", ".join(["batch", *(text for text in told if text)])


#: Codes of jobs for which a start time makes no sense.
_NOT_IN_LINE = frozenset({"not_waiting", "held_by_user", "dispatching", "never_fits"})


def print_explanation(explanation: Mapping[str, Any], *, device: str) -> None:
    """Print why a job waits. `device` is the kind of its devices."""
    typer.echo(plain(explanation["sentence"]))
    fields: list[tuple[str, object]] = [("reason", explanation["code"])]
    fields.append(("limit of", explanation["node"]))
    if explanation["jobs_ahead"]:
        fields.append(("jobs ahead", explanation["jobs_ahead"]))
    if explanation["code"] not in _NOT_IN_LINE:
        fields.append(("starts", _start_text(explanation)))
    fields += labels(explanation["numbers"], device)
    fields.append(("as of", explanation["as_of"]))
    typer.echo()
    print_fields(fields)
    if explanation["victims"]:
        typer.echo()
        print_table(
            ["PREEMPTED", "TEAM", Devices([device]).head, "UNTIL", "AT RISK", "AT ITS NOTICE"],
            [
                [
                    victim["name"] or "(hidden)",
                    victim["team"],
                    gpus(victim["mgpu"]),
                    victim["grace_until"],
                    _at_risk(victim, device),
                    _NOTICE_HANDLING[victim.get("notice_handling")],
                ]
                for victim in explanation["victims"]
            ],
            squeeze="PREEMPTED",
        )


#: What a job is expected to do at its notice, by the reason for which this is known.
_NOTICE_HANDLING = {
    "reports_checkpoints": "saves (reports checkpoints)",
    "has_checkpoint_path": "saves (has a checkpoint path)",
    "asks_for_signal": "saves (asked for a signal)",
    None: "not known",
}


def _at_risk(victim: Mapping[str, Any], device: str) -> str:
    """Return the work that a job loses if it does not checkpoint, in GPU-hours."""
    at_risk_mgpu_s = victim.get("at_risk_mgpu_s")
    if at_risk_mgpu_s is None:
        return ""
    return f"{gpu_hours(at_risk_mgpu_s)} {DeviceKind(device).singular}-h"


def _made_room_for(job: Mapping[str, Any], attempt: Mapping[str, Any]) -> str | None:
    """Return the job for which this one was stopped, as far as the reader may see it."""
    other = attempt.get("made_room_for")
    if other is None:
        return None
    if other["team"] is None:
        return "a job of another team"
    named = "a job" if other["job"] is None else f"{other['name']} ({other['job']})"
    return f"{named} of {other['team']}, {DeviceKind(job['device']).text(other['mgpu'])}"


#: The cause of an unknown start, by code.
_HANGS_ON = {
    "dependency": "it starts after its dependencies",
    "array_limit_reached": "it starts after another task of its array ends",
    "budget_exhausted": "it starts when its budget has room",
    "user_cap_reached": "it starts when another job of its user has ended",
    "not_yet_decided": "the scheduler has not looked at it yet",
    "cluster_unavailable": "the cluster does not accept jobs at present",
    "maintenance": "it starts after the maintenance",
}


def starts_unknown(explanation: Mapping[str, Any]) -> bool:
    """Return whether a simulation may find the start that the scheduler did not estimate."""
    code = explanation["code"]
    return (
        explanation["estimated_start"] is None
        and code != "begin_time"
        and code not in _HANGS_ON
        and code not in _NOT_IN_LINE
    )


def _start_text(explanation: Mapping[str, Any]) -> str:
    """Return when a waiting job starts, or what is known about it."""
    estimate = explanation["estimated_start"]
    if estimate is not None:
        return range_text(estimate)
    code, ahead = explanation["code"], explanation["jobs_ahead"]
    if code == "begin_time":
        return f"not before {moment_text(explanation['numbers']['begin_at'])}"
    if code in _HANGS_ON:
        return f"unknown: {_HANGS_ON[code]}"
    if ahead == 0:
        why = ""
    elif ahead == 1:
        why = ": 1 job comes before it"
    else:
        why = f": {ahead:,} jobs come before it"
    return f"unknown{why}; run `tidegate estimate` to simulate it"


def print_reasons(reasons: Sequence[Mapping[str, Any]]) -> None:
    """Print the past reasons for a job's wait, newest first."""
    if not reasons:
        tell("The job has not waited.")
        return
    print_table(
        ["SINCE", "REASON", "SENTENCE"],
        [[one["since"], one["code"], plain(one["sentence"])] for one in reasons],
        squeeze="SENTENCE",
    )


def print_notes(notes: Sequence[Mapping[str, Any]]) -> None:
    """Print how each line of a batch script was understood."""
    for note in notes:
        where = f"line {note['line']}: {note['text']}: " if note["line"] else ""
        typer.echo(plain(f"{note['verdict']:<10}  {where}{note['detail']}"), err=True)


def print_plan(plan: Mapping[str, Any]) -> None:
    """Print where and when a requested job would run."""
    job = plan["job"]
    each = " for each task" if job["tasks"] > 1 else ""
    # A job with a size range waits for the least size, and costs at least that.
    is_least = not plan["would_start_now"] and plan["mgpu"] == job["mgpu_min"] < job["mgpu"]
    costs = None
    if plan["cost_per_hour_nano"] is not None:
        billed = cost(
            plan["cost_per_hour_nano"],
            plan["unbilled_per_hour_nano"],
            plan["price_mode"],
            plan["currency"],
        )
        costs = f"{'at least ' if is_least else ''}{billed}{each}"
    if each:
        at_once = job.get("tasks_at_once")
        some = "" if at_once is None else f"; at most {at_once:,} at once"
        typer.echo(f"For each of {job['tasks']:,} tasks{some}. The plan of the first task:")
    typer.echo(plain(plan["explanation"]["sentence"]))
    typer.echo()
    print_fields(
        [
            ("name", job["name"]),
            ("team", job["team"]),
            ("pool", ", else ".join(job["pools"])),
            ("class", job["priority_class"]),
            (
                _devices(job),
                _size(job, granted_mgpu=plan["mgpu"] if plan["would_start_now"] else None) + each,
            ),
            ("features", ", ".join(job["features"]) or None),
            ("image", job["image"]),
            ("topology", _topology(job)),
            ("with each node", _beside(job)),
            ("tasks", job["tasks"] if job["tasks"] > 1 else None),
            ("time limit", _limit(job["time_limit_s"])),
            ("begins", job["begin_at"]),
            ("could run", "yes" if plan["fits"] else "no"),
            ("starts now", "yes" if plan["would_start_now"] else "no"),
            ("on", plan["cluster"]),
            (f"guaranteed {_devices(job)}", gpus(plan["guaranteed_mgpu"]) + each),
            (f"borrowed {_devices(job)}", gpus(plan["borrowed_mgpu"]) + each),
            ("costs an hour", costs),
            ("cost cap", _capped(plan)),
            *((f"budget {one['name']}", _left_after(one, job)) for one in plan["budgets"]),
        ]
    )


def _capped(plan: Mapping[str, Any]) -> str | None:
    """Return the cost cap of a plan, and after how long it is reached; None without one."""
    cap_nano, after_s = plan["job"].get("cost_cap_nano"), plan.get("cost_cap_after_s")
    if cap_nano is None:
        return None
    if after_s is None:
        return money_text(cap_nano, None)
    limit_s = plan["job"]["time_limit_s"]
    if limit_s is not None and after_s >= limit_s:
        return f"{money_text(cap_nano, None)}, not reached within its time limit at present prices"
    return (
        f"{money_text(cap_nano, None)}, reached after {duration(after_s)} at present prices; the "
        "grace after it is charged, too"
    )


def _left_after(budget: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    """Return what a budget has left: "120.0 of 500.0 GPU-hours left after this job ..."."""
    until = "the end of the period" if job["time_limit_s"] is None else "its time limit"
    work = "this job" if job["tasks"] == 1 else "all its tasks"
    return f"{left_of(budget, work)}, at {until}"


def _exit_code(job: Mapping[str, Any]) -> str | None:
    if job["exit_code"] is None:
        return None
    return f"{job['exit_code']} ({job['exit_code_meaning']})"


def _devices(job: Mapping[str, Any]) -> str:
    """Return the name of the job's devices."""
    return DeviceKind(job["device"]).plural


def _size(job: Mapping[str, Any], *, granted_mgpu: int | None) -> str:
    """Return the requested size, and the part granted: "12 of 4 to 16 (4 on each node)"."""
    most, per_node = gpus(job["mgpu"]), gpus(job["mgpu_per_node"])
    if job["node_count_min"] < job["node_count"]:
        granted = "" if granted_mgpu is None else f"{gpus(granted_mgpu)} of "
        return f"{granted}{gpus(job['mgpu_min'])} to {most} ({per_node} on each node)"
    if job["node_count"] == 1:
        return most
    return f"{most} ({per_node} on each of {job['node_count']} nodes)"


def _state(job: Mapping[str, Any]) -> str:
    """Return the state with its reason, or that the job is being stopped before it ran."""
    if job["state"] == "starting" and (job["current_attempt"] or {}).get("state") == "stopping":
        return "starting (is being stopped)"
    reason = job["end_reason"]
    return f"{job['state']} ({reason})" if reason else str(job["state"])


def counts_text(counts: Mapping[str, int]) -> str:
    """Return the number of tasks by state, without zeros: "3 running, 7 queued"."""
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count)


def _waited_for(one: Mapping[str, Any]) -> str:
    """Return a dependency of the job in words."""
    condition = {"succeeded": "success", "ended": "the end", "failed": "the failure"}
    named = "a job that you cannot see"
    if one["job"] or one["array"]:
        named = f"{'' if one['job'] else 'array '}{one['name']} ({one['job'] or one['array']})"
    state = f", which {state_phrase(one['state'])}" if one["state"] else ""
    return f"{condition[one['condition']]} of {named}{state}"


def _topology(job: Mapping[str, Any]) -> str | None:
    """Return how close together the nodes must be."""
    if job["required_topology"]:
        return f"all nodes in one {job['required_topology']}"
    if job["preferred_topology"]:
        return f"all nodes in one {job['preferred_topology']} if possible"
    return None


def _beside(job: Mapping[str, Any]) -> str | None:
    """Return the CPUs and the memory that the job asks for on each node."""
    cpus, memory = job["cpus_per_node"], job["memory_mib_per_node"]
    if job["device"] == "cpu":
        # In a pool of cores, the CPUs are its size.
        cpus = None
    parts = [] if cpus is None else [f"{cpus:,} CPU{'' if cpus == 1 else 's'}"]
    parts += [] if memory is None else [f"{memory:,} MiB of memory"]
    return " and ".join(parts) or None


def _limit(limit_s: int | None) -> str | None:
    return None if limit_s is None else duration(limit_s)


def _nodes(attempt: Mapping[str, Any]) -> str | None:
    names = [slot["node"] for slot in attempt.get("slots", ())]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def range_text(estimate: Mapping[str, Any]) -> str:
    """Return when a job may start, and the method of this estimate."""
    earliest, latest = estimate["earliest"], estimate["latest"]
    if earliest and latest:
        return f"between {earliest} and {latest} (by {estimate['method']})"
    if latest:
        return f"by {latest} at the latest (by {estimate['method']})"
    return f"not before {earliest} (by {estimate['method']})" if earliest else "unknown"


def _requeued_after(job: Mapping[str, Any]) -> str | None:
    """Return the further ends after which the job is queued again; None for none."""
    causes = job.get("requeue_on") or ()
    words = ["its time limit" if one == "time_limit" else f"exit code {one}" for one in causes]
    return f"{', '.join(words)}; at most {job['requeue_max']} times" if words else None

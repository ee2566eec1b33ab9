"""Prints requests that would start sooner than a waiting job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from cli.job_text import range_text
from cli.output import duration, gpus, plain, print_fields, tell
from cli.submitting import seconds
from primitives.units import DeviceKind

#: Members that give the size together. One of them alone has no meaning.
_SIZE = frozenset({"gpus_per_node", "nodes", "nodes_min"})
_OPTIONS = {
    "pool": "--pool",
    "cluster": "--cluster",
    "features": "--feature",
    "time_limit_s": "--time",
    "priority_class": "--class",
    "required_topology": "--required-topology",
    "preferred_topology": "--preferred-topology",
    "cpus_per_node": "--cpus-per-node",
    "memory_mib_per_node": "--memory-per-node",
}


def print_alternatives(found: Mapping[str, Any]) -> None:
    """Print the alternatives, the best first, each with the options that differ."""
    typer.echo(plain(found["sentence"]))
    for one in found["items"]:
        plan = one["plan"]
        typer.echo(f"\n{plain(one['label'])}")
        print_fields(
            [
                ("  starts", _start(plan)),
                ("  because", _because(plan)),
                ("  submit", " ".join(_options(one["changes"], plan["job"]))),
            ]
        )
    if found["items"]:
        tell(
            "\nEach counts as a new job in place of this one, in the present state. Nothing is "
            "reserved.\nTo use one: cancel this job, and submit its script with these options "
            "instead of its own.\n-o json prints the whole requests."
        )


def _start(plan: Mapping[str, Any]) -> str:
    if plan["would_start_now"]:
        borrowed = plan["borrowed_mgpu"]
        of = DeviceKind(plan["job"]["device"]).text(plan["mgpu"])
        told = f", {gpus(borrowed)} of {of} borrowed" if borrowed else ""
        return f"now on {plan['cluster']}{told}"
    if not plan["fits"]:
        return "never"
    estimate = plan["explanation"]["estimated_start"]
    return "unknown" if estimate is None else range_text(estimate)


def _because(plan: Mapping[str, Any]) -> str | None:
    """Return why the job would wait, or why it can never run."""
    return None if plan["would_start_now"] else str(plan["explanation"]["sentence"])


def _options(changes: Mapping[str, Any], job: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of `submit` that differ, with "no" before options to omit.

    `job` is the complete request, with all defaults.
    """
    is_of_cores = job["device"] == "cpu"
    changed = dict(changes)
    if _SIZE & changes.keys() or (is_of_cores and changes.get("cpus_per_node")):
        least, most = job["node_count_min"], job["node_count"]
        each = "--cpus-per-node" if is_of_cores else "--gpus-per-node"
        yield f"{each} {gpus(job['mgpu_per_node'])}"
        yield f"--nodes {most}" if least == most else f"--nodes {least}..{most}"
        for name in (*_SIZE, *(("cpus_per_node",) if is_of_cores else ())):
            changed.pop(name, None)
    for name, value in changed.items():
        if name not in _OPTIONS:
            # Several pools become one, which `pool` already shows.
            continue
        if value is None:
            yield f"no {_OPTIONS[name]}"
        elif name == "time_limit_s":
            said = duration(value)
            yield f"--time {said if seconds(said, '--time') == value else f'{value}s'}"
        else:
            yield f"{_OPTIONS[name]} {value}{'M' if name == 'memory_mib_per_node' else ''}"

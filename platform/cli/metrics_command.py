"""`tidegate metrics` and `tidegate unused`: what jobs use of CPUs, memory and GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from cli.context import open_api
from cli.job_lookup import JobArgument, id_of_job, of_one_job
from cli.output import Format, Output, duration, gpus, print_data, print_fields, print_table, tell

#: Points that a table shows: the latest ones.
_POINTS_SHOWN = 20
_NOT_REPORTED = "not reported"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def metrics(
    ctx: typer.Context,
    job: JobArgument,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Number of the attempt. Default: the latest.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the CPU time, memory and GPU use of a job over time, also after its end."""
    api = open_api(ctx)
    found = of_one_job(api, id_of_job(api, job), "/metrics", attempt=attempt)
    if output is not Format.TABLE:
        print_data(found, output, rows="points")
        return
    summary = found["summary"]
    if summary is None:
        tell(_why_nothing(found))
        return
    print_fields(_summary_fields(found["attempt"], summary))
    if points := found["points"][-_POINTS_SHOWN:]:
        # Clusters report either. A portal of an earlier version knows no rate.
        has_rates = any(one.get("cpu_rate_milli") is not None for one in points)
        typer.echo()
        print_table(
            ["TIME", "CORES" if has_rates else "CPU TIME", "MEMORY", "PROCESSES", "GPU USE"],
            [_cells(one, has_rates=has_rates) for one in points],
        )


def _why_nothing(found: Mapping[str, Any]) -> str:
    if found["attempt"] is None:
        return "The job has not started, so it has no metrics yet."
    if not found["is_supported"]:
        return f"The cluster {found['cluster']} does not report metrics."
    return f"The cluster {found['cluster']} has reported no metrics of this attempt so far."


def _summary_fields(attempt: int, summary: Mapping[str, Any]) -> list[tuple[str, object]]:
    cpu_milli = summary["cpu_milli"]
    cores = "" if cpu_milli is None else f" of {gpus(cpu_milli)} cores"
    asked = summary["memory_asked_bytes"]
    memory = "" if asked is None else f" of {size_text(asked)}"
    idle = summary["gpus_idle_since"]
    rate_milli = summary.get("cpu_rate_milli")
    return [
        ("attempt", attempt),
        ("as of", summary["sampled_at"]),
        ("elapsed", duration(summary["elapsed_s"])),
        ("CPU time", cpu_text(summary["cpu_time_ms"])),
        ("mean busy cores", None if rate_milli is None else gpus(rate_milli)),
        ("CPU efficiency", f"{percent_text(summary['cpu_efficiency_permille'])}{cores}"),
        ("peak memory", f"{size_text(summary['memory_peak_bytes'])}{memory}"),
        ("memory efficiency", percent_text(summary["memory_efficiency_permille"])),
        ("GPU utilisation", _percent(summary["gpu_utilisation_percent"])),
        ("GPU idle time", percent_text(summary["gpu_idle_permille"])),
        ("peak GPU memory", size_text(summary["gpu_memory_peak_bytes"])),
        ("GPUs idle since", idle),
    ]


def _cells(point: Mapping[str, Any], *, has_rates: bool) -> list[str]:
    rate_milli = point.get("cpu_rate_milli")
    rate = _NOT_REPORTED if rate_milli is None else gpus(rate_milli)
    return [
        point["at"],
        rate if has_rates else cpu_text(point["cpu_time_ms"]),
        size_text(point["memory_bytes"]),
        "-" if point["processes"] is None else str(point["processes"]),
        _gpu_use(point["gpus"]),
    ]


def _gpu_use(found: Sequence[Mapping[str, Any]] | None) -> str:
    """Return the utilisation of each GPU: "40% 0%"; "-" for one that is not reported."""
    if not found:
        return _NOT_REPORTED
    return " ".join(
        "-" if each["utilisation_percent"] is None else f"{each['utilisation_percent']}%"
        for each in found
    )


def cpu_text(cpu_time_ms: int | None) -> str:
    """Return CPU time as people say it; below a minute with tenths of a second."""
    if cpu_time_ms is None:
        return _NOT_REPORTED
    return f"{cpu_time_ms / 1_000:.1f}s" if cpu_time_ms < 60_000 else duration(cpu_time_ms // 1_000)


def size_text(size_bytes: int | None) -> str:
    """Return bytes in the largest binary unit: 209715200 is "200.0 MiB"."""
    if size_bytes is None:
        return _NOT_REPORTED
    size, unit = float(size_bytes), 0
    while size >= 1_024 and unit < len(_UNITS) - 1:
        size, unit = size / 1_024, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def percent_text(permille: int | None) -> str:
    """Return thousandths as a percentage with one decimal."""
    return "unknown" if permille is None else f"{permille / 10:.1f}%"


def _percent(percent: int | None) -> str:
    return _NOT_REPORTED if percent is None else f"{percent}%"


def unused(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(help="Path of a node, such as research/nlp.")],
    output: Output = Format.TABLE,
) -> None:
    """List jobs with idle GPUs, and jobs that asked for far more than they used."""
    found = open_api(ctx).get("unused-resources", node=node)
    if output is not Format.TABLE:
        print_data(found, output, rows="idle_gpus")
        return
    if not found["reports_gpus"]:
        tell("No cluster of the running jobs there reports GPU use.")
    _print_list(
        "Running jobs whose GPUs are idle",
        ["GPUS", "IDLE SINCE", "PROCESS"],
        found["idle_gpus"],
        lambda each: [
            gpus(each["mgpu"]),
            each["summary"]["gpus_idle_since"],
            "yes" if each["summary"]["gpus_are_held"] else "none",
        ],
    )
    _print_list(
        "Jobs that used less than a quarter of their memory",
        ["PEAK", "ASKED FOR"],
        found["memory"],
        lambda each: [
            size_text(each["summary"]["memory_peak_bytes"]),
            size_text(each["summary"]["memory_asked_bytes"]),
        ],
    )
    _print_list(
        "Jobs that used less than a quarter of their CPUs",
        ["CORES", "USED"],
        found["cpus"],
        lambda each: [
            gpus(each["summary"]["cpu_milli"]),
            percent_text(each["summary"]["cpu_efficiency_permille"]),
        ],
    )


def _print_list(title: str, columns: Sequence[str], rows: Sequence[Any], cells: Any) -> None:
    typer.echo(f"{title}: {len(rows) or 'none'}")
    if rows:
        print_table(
            ["JOB", "NAME", "TEAM", "USER", "STATE", *columns],
            [
                [each["job"], each["name"], each["team"], each["user"], each["state"], *cells(each)]
                for each in rows
            ],
            squeeze="NAME",
        )

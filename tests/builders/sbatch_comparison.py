"""Compares how Tidegate reads `#SBATCH` lines with how the real sbatch reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from jobs.submission.array_text import parse_array
from jobs.submission.begin_times import begin_of
from jobs.submission.sbatch import SbatchReading, parse_sbatch
from jobs.submission.sbatch_notes import refused_of

#: The recorded begin times do not depend on the time.
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
_CONDITIONS = {"succeeded": "afterok", "ended": "afterany", "failed": "afternotok"}
_SIZES = {"K": 1, "M": 1, "G": 1 << 10, "T": 1 << 20}


def read_of(lines: Sequence[str]) -> SbatchReading:
    """Return Tidegate's reading. The numbers of jobs that others depend on become Tidegate's."""
    text = "\n".join(["#!/bin/bash", *lines, "hostname", ""])
    return parse_sbatch(re.sub(r"(after[a-z]*)((?::[1-3])+)(?!\d)", _with_ids, text, flags=re.I))


def _with_ids(found: re.Match[str]) -> str:
    numbers = found[2].split(":")[1:]
    return ":".join([found[1], *(str(UUID(int=int(number))) for number in numbers)])


def differences(lines: Sequence[str], answer: Mapping[str, Any], policy: str = "") -> list[str]:
    """Return what Tidegate reads otherwise than `answer` of the oracle.

    `policy` is a part of the sentence with which Tidegate refuses what sbatch accepts.
    """
    reading = read_of(lines)
    refused = [note.detail for note in refused_of(reading.notes)]
    if policy or not answer["accepts"]:
        found = [detail for detail in refused if policy in detail]
        return [] if found else [f"refused {refused}, not by {policy or answer['error']!r}"]
    if refused:
        return [f"refused: {refused}"]
    return [
        f"{name}: {ours!r}, sbatch {theirs!r}"
        for name, ours, theirs in _values(reading, answer)
        if ours != theirs
    ]


def _values(reading: SbatchReading, answer: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each compared value: its name, ours, and sbatch's."""
    fields, shape, defined = reading.fields, reading.shape, answer["defined"]
    yield "tasks", shape.tasks, answer["tasks"]
    yield "CPUs per task", shape.cpus_per_task, _number(defined.get("cpus-per-task"))
    nodes, starts_on = fields.get("nodes"), answer["starts_on"]
    least, most = _range(defined.get("nodes"))
    if "nodes_min" in fields:
        yield "nodes", (fields["nodes_min"], nodes), (least, most)
        gpus = fields.get("gpus_per_node", 0) * fields["nodes_min"]
        yield "GPUs", gpus, answer["gpus"]
    else:
        # slurmctld counts GPUs for the nodes that are asked for, not for those that it needs.
        each = answer["gpus_per_node"]
        theirs = answer["gpus"] if each is None or starts_on is None else each * starts_on
        yield "GPUs", fields.get("gpus", fields.get("gpus_per_node", 0) * (nodes or 1)), theirs
        if nodes is not None:
            known = most if starts_on is None else starts_on
            yield "nodes", nodes, nodes if known is None else known
        elif "gpus" in fields:
            # Tidegate chooses the nodes, as Slurm does.
            yield "nodes", True, most is None or most != least or "ntasks-per-node" not in defined
        elif starts_on is not None:
            yield "nodes", 1, starts_on
    if shape.tasks_per_node is not None and starts_on is not None and "nodes_min" not in fields:
        yield "tasks per node", shape.tasks_per_node, -(-answer["tasks"] // starts_on)
    yield "GPU type", [fields["gpu_type"]] if "gpu_type" in fields else [], answer["gpu_types"]
    yield from _memory(reading, answer)
    limit_s = fields.get("time_limit_s")
    yield "time", limit_s, _seconds(answer["time_limit"])
    array = parse_array(fields["array"]) if "array" in fields else None
    theirs = parse_array(answer["array"]) if answer["array"] else None
    yield "array", array and array.indices, theirs and theirs.indices
    yield "array at once", array and array.max_running, answer["array_at_once"]
    wishes = [(wish["condition"], UUID(wish["id"]).int) for wish in fields.get("depends_on", ())]
    waits = re.findall(r"(after[a-z]+):(\d+)", answer["dependency"] or "")
    yield (
        "dependency",
        [(_CONDITIONS[kind], n) for kind, n in wishes],
        [(k, int(n)) for k, n in waits],
    )
    singles = re.findall("singleton", answer["dependency"] or "")
    yield "singleton", fields.get("is_singleton", False), bool(singles)
    begin = fields.get("begin")
    told = begin and begin_of(begin, NOW).strftime("%Y-%m-%dT%H:%M:%S")
    yield "begin", told, defined.get("begin")
    yield "name", fields.get("name"), defined.get("job-name")
    yield "partition", fields.get("partition"), defined.get("partition")
    yield "qos", fields.get("qos"), defined.get("qos")
    yield "hold", fields.get("held", False), "hold" in defined
    yield "folder", fields.get("folder"), _path(defined.get("chdir"))
    yield "output", fields.get("output_file"), _path(defined.get("output"), defined.get("chdir"))
    yield "error", fields.get("error_file"), _path(defined.get("error"), defined.get("chdir"))
    mode = defined.get("open-mode")
    yield "appends", fields.get("appends_output", False), mode == "a"
    yield "export", fields.get("environment", {}), _exported(defined.get("export"))
    signal = defined.get("signal")
    whom, _, notice = (signal or "").rpartition(":")
    name, _, ahead_s = notice.partition("@")
    yield "signal", fields.get("notice_signal"), signal and name
    # sbatch leaves out the seconds where they are its default.
    yield "signal ahead", fields.get("signal_ahead_s"), signal and int(ahead_s or 60)
    yield "signal to the shell", fields.get("signals_shell_only", False), "B" in whom


def _memory(reading: SbatchReading, answer: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the memory: of a node where sbatch says that, else of the whole job."""
    ours, defined = reading.fields.get("memory_mib_per_node"), answer["defined"]
    if ours is None:
        for name in ("mem", "mem-per-cpu", "mem-per-gpu"):
            is_told = any(
                name[:4] in note.text and note.verdict == "ignored" for note in reading.notes
            )
            yield name, True, _mebibytes(defined.get(name)) in (None, 0) or is_told
        return
    nodes = answer["starts_on"] or 1
    if "mem" in defined:
        yield "memory", ours, _mebibytes(defined["mem"])
    elif "mem-per-gpu" in defined:
        yield "memory", ours * nodes, (_mebibytes(defined["mem-per-gpu"]) or 0) * answer["gpus"]
    elif answer["tasks"] % nodes == 0:
        yield "memory", ours * nodes, (_mebibytes(defined["mem-per-cpu"]) or 0) * answer["cpus"]


def _path(text: str | None, folder: str | None = None) -> str | None:
    """Return a path as it was given. sbatch puts its own folder, or the job's, before some."""
    text = (text or "").removeprefix(f"{folder}/")
    text = re.sub(r"^FOLDER/(\./?$)?", "", text)
    return None if text in ("", "/dev/null") else text


def _exported(text: str | None) -> dict[str, str]:
    """Return the variables with values. sbatch tells the option after it has taken quotes off."""
    items = [item.partition("=") for item in (text or "").split(",")]
    return {name: value for name, equals, value in items if equals}


def _mebibytes(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.match(r"(\d+)([KMGT]?)", text)
    assert found is not None, text
    return int(found[1]) * _SIZES[found[2] or "M"]


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _range(text: str | None) -> tuple[int | None, int | None]:
    if text is None:
        return None, None
    least, _, most = text.partition("-")
    return int(least), int(most or least)


def _seconds(text: str) -> int | None:
    if text in ("UNLIMITED", "Partition_Limit"):
        return None
    days, _, clock = text.rpartition("-")
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds

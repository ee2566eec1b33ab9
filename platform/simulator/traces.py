"""Readers of job traces: CSV with the columns of well-known GPU traces, and SWF.

The first line shows the format: a CSV file names its columns there, and an SWF file begins with a
number (18 numbers a line, `;` before remarks). Files may be gzipped.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from simulator.workload import TraceJob, gang

#: A hundred years. A longer time would never end, and is surely not in seconds.
_SPAN_S_MAX = 100 * 366 * 86_400
#: More than any machine has: a larger number is damaged.
_GPUS_MAX = 1_000_000
_SWF_FIELDS = 18
#: The columns of CPU (milli-CPU) and memory (MiB), of a whole job or of a node. Pods of openb have
#: another name for memory than its nodes.
_CPU, _MEMORY, _PODS_MEMORY = "cpu_milli", "memory_mib", "mem_mib"
_CPU_AND_MEMORY = (_CPU, _MEMORY, _PODS_MEMORY)
#: More than any machine has.
_AMOUNT_MAX = 10**12
#: The status of an SWF line for one part of a job's execution: to be continued, the last part of a
#: completed job, the last part of a failed job. Another line sums the job up.
_SWF_PARTS = (2, 3, 4)
#: Wrong separators of columns, with their names in errors.
_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'", " ": "blanks"}
_BYTES_MAX = 4 << 30
#: The error for a file that is not text.
NO_TEXT = "it is no text in UTF-8"


class TraceError(Exception):
    """A file that cannot be read; the message has the line, if known."""

    def __init__(self, file: Path | str, line: int | None, what: str) -> None:
        where = f"{file}" if line is None else f"{file}, line {line}"
        super().__init__(f"{where}: {what}")


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace, and counts of its ignored parts.

    `left_out` counts rows without a GPU, without a run or without a submit time. `in_parts` counts
    jobs of an SWF file that only have lines of partial executions. `unused` are the columns of a
    CSV file that have no effect.
    """

    format: str
    jobs: tuple[TraceJob, ...]
    left_out: int
    in_parts: int = 0
    unused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """A node of the fleet; `cpu_milli` and `memory_mib` are None if unknown."""

    name: str
    mgpu: int
    features: frozenset[str] = frozenset()
    cpu_milli: int | None = None
    memory_mib: int | None = None


def read_trace(path: Path, *, gpus_per_node: int, team_column: str | None = None) -> Trace:
    """Read a trace of any known format.

    `team_column` names the column of the team, if it is not the default of the format. Defaults are
    `vc`, `user` or `qos`. In SWF it is `group`, and `user` or `queue` are possible.

    Raises TraceError.
    """
    lines = ((at, text) for at, text in enumerate(_lines(path), 1) if _says_something(text))
    number, line = next(lines, (0, ""))
    if not line:
        raise TraceError(path, None, "it is empty")
    if "," not in line and _is_number(line.split()[0]):
        return _read_swf(
            path, chain([(number, line)], lines), gpus_per_node, team_column or "group"
        )
    header = _header(path, number, line)
    if len(header) == 1 and (found := next((mark for mark in _SEPARATORS if mark in line), None)):
        problem = f"its columns are separated by {_SEPARATORS[found]}; separate them by commas"
        raise TraceError(path, number, problem)
    for form in _FORMATS:
        if set(form.columns) <= set(header):
            wanted = team_column or form.team
            if wanted not in header:
                raise TraceError(path, number, f"there is no column {wanted!r} to tell the team")
            return _read_csv(path, form, header, lines, wanted, gpus_per_node)
    known = " and ".join(",".join(form.columns) for form in _FORMATS)
    raise TraceError(path, number, f"unknown columns; there are readers for traces with {known}")


def read_machines(path: Path) -> tuple[Machine, ...]:
    """Read a fleet from a file of nodes with the columns sn, gpu and model.

    The columns cpu_milli and memory_mib are optional. Nodes without a GPU are left out. Each node
    has its model as a feature, which the `gpu_type` of a pod requests.

    Raises TraceError.
    """
    lines = enumerate(_lines(path), 1)
    number, first = next(lines, (1, ""))
    header = _header(path, number, first) if first else []
    if not {"sn", "gpu", "model"} <= set(header):
        raise TraceError(path, number, "the columns sn, gpu and model are needed")
    found: dict[str, Machine] = {}
    for at, line in lines:
        if not line.strip():
            continue
        row = _row(path, at, header, line)
        gpus = _integer(path, at, row, "gpu", least=0)
        name = row["sn"]
        if name in found:
            raise TraceError(path, at, f"node {name!r} is there twice")
        if gpus:
            found[name] = Machine(
                name,
                gpus * 1_000,
                frozenset({row["model"]}),
                _amount(path, at, row, _CPU),
                _memory(path, at, row),
            )
    if not found:
        raise TraceError(path, None, "no node has a GPU")
    return tuple(found.values())


def with_alternatives(machines: Iterable[Machine], jobs: Iterable[TraceJob]) -> tuple[Machine, ...]:
    """Return the machines with a feature 'A|B' on each A and each B, if a job requests 'A|B'."""
    asked = {feature for job in jobs for feature in job.features if "|" in feature}
    return tuple(
        replace(
            machine,
            features=machine.features.union(
                choice for choice in asked if machine.features.intersection(choice.split("|"))
            ),
        )
        for machine in machines
    )


def unstated(jobs: Sequence[TraceJob], machines: Sequence[Machine]) -> dict[str, int]:
    """Return how many machines have no value for a resource that jobs request, by column.

    On these machines the resource is not counted. A column is missing from the result if every
    machine has a value, or if no job requests it.
    """
    unknown = {
        column: sum(getattr(machine, column) is None for machine in machines)
        for column in (_CPU, _MEMORY)
        if any(getattr(job, column) for job in jobs)
    }
    return {column: count for column, count in unknown.items() if count}


Reader = Callable[[Path, int, Mapping[str, str], str, int], TraceJob | None]


def _philly(
    path: Path, at: int, row: Mapping[str, str], team: str, per_node: int
) -> TraceJob | None:
    gpus = _integer(path, at, row, "gpus", least=0)
    duration_s = _integer(path, at, row, "duration_s", least=0)
    if gpus == 0 or duration_s == 0:
        return None
    mgpu, nodes = _gang(path, at, gpus, per_node)
    return TraceJob(
        id=row["job_id"],
        team=row[team],
        user=row.get("user", row[team]),
        submit_s=_integer(path, at, row, "submit_s", least=0),
        duration_s=duration_s,
        mgpu_per_node=mgpu,
        node_count=nodes,
        time_limit_s=_limit_s(path, at, row),
        cpu_milli=_amount(path, at, row, _CPU, parts=nodes),
        memory_mib=_memory(path, at, row, parts=nodes),
    )


def _openb(
    path: Path, at: int, row: Mapping[str, str], team: str, per_node: int
) -> TraceJob | None:
    """Read a pod, which runs on one node with whole GPUs or a part of one.

    Return None for a pod that never started.
    """
    gpus = _integer(path, at, row, "gpus", least=0)
    milli = _integer(path, at, row, "gpu_milli", least=0)
    submit_s = _integer(path, at, row, "submit_s", least=0)
    end_s = _integer(path, at, row, "end_s", least=0)
    if gpus == 0 or milli == 0 or not row["start_s"]:
        return None
    duration_s = end_s - _integer(path, at, row, "start_s", least=0)
    if duration_s <= 0:
        return None
    wanted = row["gpu_type"]
    return TraceJob(
        id=row["job_id"],
        team=row[team],
        user=row[team],
        submit_s=submit_s,
        duration_s=duration_s,
        mgpu_per_node=gpus * milli,
        time_limit_s=_limit_s(path, at, row),
        features=frozenset({wanted}) if wanted else frozenset(),
        cpu_milli=_amount(path, at, row, _CPU),
        memory_mib=_memory(path, at, row),
    )


@dataclass(frozen=True, slots=True)
class _Format:
    """A CSV format, identified by its `columns`; `team` names the team, `more` are optional."""

    name: str
    team: str
    columns: tuple[str, ...]
    more: tuple[str, ...]
    read: Reader


#: The first format whose columns are all there is used.
_FORMATS = (
    _Format(
        "openb",
        "qos",
        ("submit_s", "start_s", "end_s", "gpus", "gpu_milli", "gpu_type"),
        ("job_id", "time_limit_s", *_CPU_AND_MEMORY),
        _openb,
    ),
    _Format(
        "philly",
        "vc",
        ("submit_s", "duration_s", "gpus", "vc"),
        ("job_id", "user", "time_limit_s", *_CPU_AND_MEMORY),
        _philly,
    ),
    _Format(
        "philly users",
        "user",
        ("submit_s", "duration_s", "gpus", "user"),
        ("job_id", "user", "time_limit_s", *_CPU_AND_MEMORY),
        _philly,
    ),
)


def _read_csv(
    path: Path,
    form: _Format,
    header: list[str],
    rows: Iterable[tuple[int, str]],
    team: str,
    per_node: int,
) -> Trace:
    jobs: list[TraceJob] = []
    seen: set[str] = set()
    left_out = 0
    for at, line in rows:
        row = {"job_id": f"line {at}"} | _row(path, at, header, line)
        if row["job_id"] in seen:
            raise TraceError(path, at, f"job {row['job_id']!r} is there twice")
        seen.add(row["job_id"])
        if not row[team]:
            raise TraceError(path, at, f"{team} is empty")
        job = form.read(path, at, row, team, per_node)
        if job is None:
            left_out += 1
        else:
            jobs.append(job)
    used = {*form.columns} - {form.team} | {team, *form.more}
    unused = tuple(name for name in header if name and name not in used)
    return Trace(form.name, _checked(path, jobs), left_out, unused=unused)


def _read_swf(path: Path, rows: Iterable[tuple[int, str]], per_node: int, team: str) -> Trace:
    """Read the Standard Workload Format 2.2; a processor of it counts as a GPU.

    Jobs without a run, without a processor or without a submit time are left out. If the parts of a
    job have lines of their own, only the line that sums it up is read. A job without that line is
    left out.
    """
    places = {"user": 11, "group": 12, "queue": 14}
    if team not in places:
        raise TraceError(path, None, f"SWF names no {team!r}; the team can be user, group or queue")
    jobs: list[TraceJob] = []
    seen: set[int] = set()
    in_parts: set[int] = set()
    left_out = 0
    for at, line in rows:
        words = line.split()
        if len(words) != _SWF_FIELDS:
            raise TraceError(path, at, f"{len(words)} fields; SWF has {_SWF_FIELDS}")
        try:
            field = [int(float(word)) for word in words]
        except (ValueError, OverflowError):
            raise TraceError(path, at, "SWF has numbers only") from None
        if field[10] in _SWF_PARTS:
            in_parts.add(field[0])
            continue
        if field[0] in seen:
            raise TraceError(path, at, f"job {field[0]} is there twice")
        seen.add(field[0])
        gpus = field[4] if field[4] > 0 else field[7]
        if gpus <= 0 or field[3] <= 0 or field[1] < 0:
            left_out += 1
            continue
        mgpu, nodes = _gang(path, at, gpus, per_node)
        jobs.append(
            TraceJob(
                id=str(field[0]),
                team=f"{team}{field[places[team]]}",
                user=f"user{field[11]}",
                submit_s=field[1],
                duration_s=field[3],
                mgpu_per_node=mgpu,
                node_count=nodes,
                time_limit_s=field[8] if field[8] > 0 else None,
            )
        )
    in_parts -= seen
    if in_parts and not jobs:
        problem = (
            "its jobs have lines of partial executions only; add the lines that sum the jobs up"
        )
        raise TraceError(path, None, f"{problem}, of status 0, 1 or 5")
    return Trace("swf", _checked(path, jobs), left_out, in_parts=len(in_parts))


def _gang(path: Path, at: int, gpus: int, per_node: int) -> tuple[int, int]:
    if gpus > _GPUS_MAX:
        raise TraceError(path, at, f"the job has {gpus} GPUs; at most {_GPUS_MAX:,} are understood")
    return gang(gpus, per_node)


def _checked(path: Path, jobs: list[TraceJob]) -> tuple[TraceJob, ...]:
    """Return the jobs; raise TraceError if there is none, or if times cannot be seconds."""
    if not jobs:
        raise TraceError(path, None, "no job in it ran on a GPU")
    first_s = min(job.submit_s for job in jobs)
    longest_s = max(
        max(job.submit_s - first_s, job.duration_s, job.time_limit_s or 0) for job in jobs
    )
    if longest_s > _SPAN_S_MAX:
        problem = "it submits for more than 100 years, or a job runs or may run so long"
        raise TraceError(path, None, f"{problem}; are its times seconds?")
    return tuple(jobs)


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.startswith((";", "#"))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _values(path: Path, at: int, line: str) -> list[str]:
    """Return the comma-separated values of a line, without quotes and outer blanks."""
    rows = csv.reader([line], strict=True, skipinitialspace=True)
    try:
        return [value.strip() for value in next(rows)]
    except csv.Error as error:
        raise TraceError(path, at, str(error)) from None


def _header(path: Path, at: int, line: str) -> list[str]:
    """Return the names of the columns; names that are not empty are unique."""
    names = _values(path, at, line)
    if twice := next((name for name in names if name and names.count(name) > 1), None):
        raise TraceError(path, at, f"column {twice!r} is there twice")
    return names


def _row(path: Path, at: int, header: list[str], line: str) -> dict[str, str]:
    values = _values(path, at, line)
    if len(values) != len(header):
        raise TraceError(path, at, f"{len(values)} columns; the header has {len(header)}")
    return dict(zip(header, values, strict=True))


def _limit_s(path: Path, at: int, row: Mapping[str, str]) -> int | None:
    """Return the job's time limit; None without such a column, or where it is empty."""
    if not row.get("time_limit_s"):
        return None
    return _integer(path, at, row, "time_limit_s", least=1)


def _amount(
    path: Path, at: int, row: Mapping[str, str], name: str, *, parts: int = 1
) -> int | None:
    """Return the milli-CPU or MiB of each of `parts` equal parts, rounded up.

    It is None without such a column, or where the column is empty.
    """
    if not row.get(name):
        return None
    amount = _integer(path, at, row, name, least=0)
    if amount > _AMOUNT_MAX:
        raise TraceError(path, at, f"{name} is {amount}; at most {_AMOUNT_MAX:,} is understood")
    return -(-amount // parts)


def _memory(path: Path, at: int, row: Mapping[str, str], *, parts: int = 1) -> int | None:
    """Return the MiB of a row, from either of the two columns."""
    name = _PODS_MEMORY if row.get(_PODS_MEMORY) else _MEMORY
    return _amount(path, at, row, name, parts=parts)


def _integer(path: Path, at: int, row: Mapping[str, str], name: str, *, least: int) -> int:
    text = row[name]
    try:
        value = int(without_point(text))
    except ValueError:
        raise TraceError(path, at, f"{name} is {text!r}; a whole number is needed") from None
    if value < least:
        raise TraceError(path, at, f"{name} is {value}; at least {least} is needed")
    return value


def without_point(number: str) -> str:
    """Return 60 for 60.0: data frames write whole numbers so if a cell of the column is empty."""
    whole, point, rest = number.partition(".")
    return whole if point and not rest.strip("0") else number


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, unpacked if it is gzipped."""
    try:
        with path.open("rb") as raw:
            is_packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            unpacked = gzip.GzipFile(fileobj=raw) if is_packed else raw
            size = 0
            with io.TextIOWrapper(unpacked, encoding="utf-8-sig", newline=None) as text:
                for line in text:
                    size += len(line)
                    if size > _BYTES_MAX:
                        raise TraceError(path, None, "it is larger than 4 GiB")
                    yield line.rstrip("\n")
    except UnicodeDecodeError:
        raise TraceError(path, None, NO_TEXT) from None
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(path, None, getattr(error, "strerror", None) or str(error)) from None

"""A Slurm batch script, read line by line into a request of ours.

Only options in the tables below are read. Every `#SBATCH` line gets a note with its result, so
nothing is dropped silently, and nothing is passed on to a cluster. The end of the directives and
their quoting follow `_opt_batch_script` and `_get_argument` in Slurm's src/sbatch/opt.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from jobs.submission.array_text import parse_array
from primitives.durations import duration_of_seconds

#: The most directive lines of a text.
DIRECTIVES_MAX = 200
NOTE_TEXT_MAX = 200
NOTICE_SIGNALS = ("TERM", "USR1", "USR2", "INT", "HUP")

#: A feature of a node, for `fullmatch`.
FEATURE = re.compile(r"[A-Za-z0-9._-]{1,64}")

_MAGIC = "#SBATCH"
_NUMBER = re.compile(r"[0-9]{1,9}")
_MEMORY = re.compile(r"([0-9]{1,9})([KMGTkmgt])?")
_MEMORY_SHIFTS = {"M": 0, "G": 10, "T": 20}
#: Slurm reads this as all memory of a node.
_NO_MEMORY = re.compile(r"0[KMGTkmgt]?")
_TYPED_COUNT = re.compile(r"(?:([A-Za-z0-9_.-]{1,64}):)?([0-9]{1,9})")
_GRES_GPU = re.compile(r"gpu(?:[:=]([A-Za-z0-9_.-]{1,64}))??(?:[:=]([0-9]{1,9}))?")
_GRES_SHARD = re.compile(r"(?:gres[/:])?shard(?:[:=]|\Z)")
_JOB_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SIGNAL = re.compile(r"(?:([BR]{1,2}):)?(?:SIG)?([A-Z0-9]{1,10})(?:@([0-9]{1,5}))?")


class Verdict(StrEnum):
    """The result of a line."""

    UNDERSTOOD = "understood"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Note:
    """The result of a line (numbered from 1; 0 is the whole text), with the reason."""

    line: int
    text: str
    verdict: Verdict
    detail: str

    def as_json(self) -> dict[str, Any]:
        """Return the stored and shown form."""
        return {
            "line": self.line,
            "text": self.text,
            "verdict": self.verdict.value,
            "detail": self.detail,
        }


def refused_of(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes of refused lines. A job with one is not accepted."""
    return tuple(note for note in notes if note.verdict is Verdict.REFUSED)


@dataclass(frozen=True, slots=True)
class SbatchReading:
    """The result of reading an sbatch text.

    `fields` are named as in the body of POST /jobs; `sources` has the note of each field's line.
    `partition`, `gpu_type` and `qos` mean a pool or a priority class only if one of that name
    exists, which the caller checks. `notes` are in the order of the lines.
    """

    fields: Mapping[str, Any]
    sources: Mapping[str, Note]
    notes: tuple[Note, ...]


class NotUnderstood(ValueError):
    """A directive is refused; the text says why and what to do."""


def parse_sbatch(text: str) -> SbatchReading:
    """Read the directives of `text`. Never raises: a refused line becomes a note."""
    reading = _Reading()
    lines, too_many = _directives(text)
    for number, line, is_late in lines:
        if is_late:
            reading.note(
                number,
                line,
                Verdict.IGNORED,
                "It follows the first command, where sbatch does not read it either.",
            )
            continue
        _read_line(reading, number, line)
    if too_many:
        reading.note(0, "", Verdict.REFUSED, f"There are more than {DIRECTIVES_MAX} #SBATCH lines.")
    _settle_tasks(reading)
    return SbatchReading(
        {name: given.value for name, given in reading.given.items()},
        {name: reading.notes[given.note] for name, given in reading.given.items()},
        tuple(sorted(reading.notes, key=lambda note: note.line)),
    )


def unread_directives(text: str) -> tuple[Note, ...]:
    """Return notes for a plain script, in which `#SBATCH` lines have no effect."""
    lines, _ = _directives(text)
    return tuple(
        Note(
            number,
            line[:NOTE_TEXT_MAX],
            Verdict.IGNORED,
            "This was sent as a plain script; send it as `sbatch` to have its directives read.",
        )
        for number, line, _ in lines
    )


def seconds_of(text: str) -> int | None:
    """Return the seconds of a time limit in Slurm's notation; None for no limit.

    Allowed are "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours",
    "days-hours:minutes" and "days-hours:minutes:seconds". "0", "-1", "UNLIMITED" and "INFINITE" are
    no limit. Unlike Slurm, seconds are not rounded up to minutes. Raises NotUnderstood.
    """
    if text.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return None
    days_text, dash, clock = text.partition("-")
    if not dash:
        days_text, clock = "0", text
    parts = clock.split(":")
    if not all(_NUMBER.fullmatch(part) for part in [days_text, *parts]) or len(parts) > 3:
        raise NotUnderstood(
            f"{text[:40]!r} is no time; write minutes, hours:minutes:seconds or "
            "days-hours:minutes:seconds."
        )
    days, numbers = int(days_text), [int(part) for part in parts]
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours = 0
        minutes, seconds = [*numbers, 0][:2]
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds or None


@dataclass(slots=True)
class _Given:
    value: Any
    note: int


@dataclass(slots=True)
class _Reading:
    given: dict[str, _Given] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def note(self, line: int, text: str, verdict: Verdict, detail: str) -> None:
        self.notes.append(Note(line, text[:NOTE_TEXT_MAX], verdict, detail))

    def take(self, line: int, text: str, values: Mapping[str, Any], detail: str) -> None:
        """Store `values`. A later line overrides an earlier one, and the earlier note says so."""
        for overruled in {self.given[name].note for name in values if name in self.given}:
            note = self.notes[overruled]
            self.notes[overruled] = Note(
                note.line, note.text, Verdict.IGNORED, f"Line {line} says otherwise."
            )
            for name in [name for name, given in self.given.items() if given.note == overruled]:
                del self.given[name]
        for name, value in values.items():
            self.given[name] = _Given(value, len(self.notes))
        self.note(line, text, Verdict.UNDERSTOOD, detail)


def _directives(text: str) -> tuple[list[tuple[int, str, bool]], bool]:
    """Return the directives, and whether the text has more than are read.

    Each is (line number, line, whether it comes after the first command).
    """
    found: list[tuple[int, str, bool]] = []
    is_late = False
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith(_MAGIC):
            if len(found) == DIRECTIVES_MAX:
                return found, True
            found.append((number, line, is_late))
        elif not is_late:
            bare = line.strip()
            is_late = bool(bare) and not bare.startswith("#")
    return found, False


def _read_line(reading: _Reading, number: int, line: str) -> None:
    rest = line[len(_MAGIC) :]
    if rest and not rest[0].isspace():
        reading.note(number, line, Verdict.REFUSED, "A space must follow #SBATCH.")
        return
    try:
        words = _words(rest)
        if not words:
            reading.note(number, line, Verdict.IGNORED, "The line is empty.")
        while words:
            option, value, words = _next_option(words)
            _read_option(reading, number, line, option, value)
    except NotUnderstood as problem:
        reading.note(number, line, Verdict.REFUSED, str(problem))


def _words(text: str) -> list[str]:
    """Split a line as sbatch does: quotes, backslashes, and `#` at the start of a word."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    is_escaped = False
    for character in text:
        if is_escaped:
            word = [*(word or []), character]
            is_escaped = False
        elif character == "\\":
            is_escaped = True
            word = word or []
        elif quote:
            if character == quote:
                quote = ""
            elif word is not None:
                word.append(character)
        elif character in "\"'":
            quote = character
            word = word if word is not None else []
        elif character.isspace():
            if word is not None:
                words.append("".join(word))
            word = None
        elif character == "#" and word is None:
            break
        else:
            word = word if word is not None else []
            word.append(character)
    if quote or is_escaped:
        raise NotUnderstood("A quote or backslash at the end of the line is left open.")
    if word is not None:
        words.append("".join(word))
    return words


_SHORT = {
    "J": "job-name",
    "G": "gpus",
    "N": "nodes",
    "n": "ntasks",
    "t": "time",
    "p": "partition",
    "A": "account",
    "q": "qos",
    "o": "output",
    "e": "error",
    "i": "input",
    "a": "array",
    "d": "dependency",
    "b": "begin",
    "H": "hold",
    "c": "cpus-per-task",
    "C": "constraint",
    "D": "chdir",
    "w": "nodelist",
    "x": "exclude",
    "L": "licenses",
    "M": "clusters",
    "k": "no-kill",
    "s": "oversubscribe",
    "Q": "quiet",
    "v": "verbose",
    "W": "wait",
    "m": "distribution",
    "O": "overcommit",
}
_WITHOUT_VALUE = frozenset(
    {
        "hold",
        "requeue",
        "no-requeue",
        "quiet",
        "verbose",
        "wait",
        "no-kill",
        "oversubscribe",
        "overcommit",
        "parsable",
        "exclusive",
        "contiguous",
        "spread-job",
        "use-min-nodes",
        "ignore-pbs",
        "test-only",
        "help",
        "usage",
        "version",
        "get-user-env",
        "container-mount-home",
        "no-container-mount-home",
        "container-remap-root",
        "no-container-remap-root",
        "container-entrypoint",
        "no-container-entrypoint",
        "container-writable",
        "container-readonly",
    }
)


def _next_option(words: list[str]) -> tuple[str, str | None, list[str]]:
    """Return the long name and the value of the first option in `words`, and the words after it."""
    head, rest = words[0], words[1:]
    if head.startswith("--") and len(head) > 2:
        option, equals, value = head[2:].partition("=")
        if equals:
            return option, value, rest
        if option in _WITHOUT_VALUE:
            return option, None, rest
    elif head.startswith("-") and len(head) > 1:
        option = _SHORT.get(head[1], head[:2])
        if option in _WITHOUT_VALUE:
            return option, None, ["-" + head[2:], *rest] if len(head) > 2 else rest
        if len(head) > 2:
            return option, head[2:], rest
    else:
        raise NotUnderstood(f"{head[:60]!r} is not an option.")
    if rest and not rest[0].startswith("-"):
        return option, rest[0], rest[1:]
    return option, None, rest


_NOT_OFFERED = {
    "begin": "Give begin_at beside the script: `tidegate submit --begin 2027-01-20T08:00:00Z`.",
    "deadline": "Deadlines are not yet offered; remove the line.",
    "chdir": "The working directory cannot be chosen; use `cd` in the script.",
    "nodelist": "Nodes cannot be chosen; choose a pool or a cluster.",
    "exclude": "Nodes cannot be left out; choose a pool or a cluster.",
    "clusters": "Name the cluster in the field `cluster`.",
    "reservation": "Reservations of a cluster cannot be used.",
    "licenses": "Licences cannot be asked for.",
    "input": "Redirect standard input in the script.",
    "export-file": "Give the variables in the field `environment`.",
    "gpus-per-task": "Say --gpus, or --gpus-per-node and --nodes.",
    "gpus-per-socket": "Say --gpus, or --gpus-per-node and --nodes.",
    "wrap": "Write the command into the script.",
    "uid": "Jobs run as the person who submits them.",
    "gid": "Jobs run as the person who submits them.",
    "container": "Name an image with --container-image, or start the container in the script.",
    "container-mounts": "Container mounts are set for each cluster.",
    "container-workdir": "The working directory cannot be chosen; use `cd` in the script.",
    "container-name": "Every start has a container of its own; name an image.",
    "container-save": "Containers are not saved; build the image beforehand.",
    "container-env": "Give the variables in the field `environment`.",
    "container-entrypoint": "The script is run as it is; call the entry point in it.",
    "bb": "Burst buffers are not offered.",
    "bbf": "Burst buffers are not offered.",
    "test-only": "Use the dry run instead.",
}
_NODE_SHARE = "CPUs and memory come with the GPUs of a node, or by --cpus-per-task and --mem."
_WHOLE_MEMORY = "A node is shared; write how much memory is needed of it, such as 64G."
_CONTAINER = "The cluster decides how containers are set up."
_NO_EFFECT = {
    "output": "Logs are kept by Tidegate: see the job's page or `tidegate logs`.",
    "error": "Logs are kept by Tidegate: see the job's page or `tidegate logs`.",
    "open-mode": "Logs are kept by Tidegate: see the job's page or `tidegate logs`.",
    "account": "The team decides whose quota and budget are used.",
    "wckey": "The team decides whose quota and budget are used.",
    "comment": "Comments are not kept.",
    "mail-type": "Mail is not sent.",
    "mail-user": "Mail is not sent.",
    "nice": "The priority class decides the order.",
    "priority": "The priority class decides the order.",
    "time-min": "The time limit is not shortened to start earlier.",
    "quiet": "It concerns the sbatch command only.",
    "verbose": "It concerns the sbatch command only.",
    "parsable": "It concerns the sbatch command only.",
    "wait": "It concerns the sbatch command only; see `tidegate wait`.",
    "ignore-pbs": "It concerns the sbatch command only.",
    "get-user-env": "Nothing of your shell's environment is passed on.",
    "exclusive": "A node is shared when the job does not ask for all of its GPUs.",
    "oversubscribe": "GPUs are never shared between jobs.",
    "overcommit": "One process is started per node.",
    "distribution": "One process is started per node.",
    "no-kill": "A job that loses a node ends and is queued again.",
    "contiguous": "Placement is chosen by Tidegate.",
    "spread-job": "Placement is chosen by Tidegate.",
    "use-min-nodes": "Placement is chosen by Tidegate.",
    "switches": "Placement is chosen by Tidegate.",
    "gpu-bind": "Bind GPUs in the script.",
    "cpus-per-gpu": _NODE_SHARE,
    "mem-per-cpu": _NODE_SHARE,
    "mem-per-gpu": _NODE_SHARE,
    "mincpus": _NODE_SHARE,
    "tmp": _NODE_SHARE,
    "hint": _NODE_SHARE,
    "threads-per-core": _NODE_SHARE,
    "cores-per-socket": _NODE_SHARE,
    "sockets-per-node": _NODE_SHARE,
    "ntasks-per-core": _NODE_SHARE,
    "ntasks-per-socket": _NODE_SHARE,
    "container-mount-home": _CONTAINER,
    "no-container-mount-home": _CONTAINER,
    "container-remap-root": _CONTAINER,
    "no-container-remap-root": _CONTAINER,
    "no-container-entrypoint": _CONTAINER,
    "container-writable": _CONTAINER,
    "container-readonly": _CONTAINER,
    "ntasks-per-gpu": "One process is started per node; start more in the script.",
}


def _read_option(reading: _Reading, number: int, line: str, option: str, value: str | None) -> None:
    if option in _NOT_OFFERED:
        raise NotUnderstood(_NOT_OFFERED[option])
    if option in _NO_EFFECT:
        reading.note(number, line, Verdict.IGNORED, _NO_EFFECT[option])
        return
    if option == "mem" and value is not None and _NO_MEMORY.fullmatch(value):
        reading.note(number, line, Verdict.IGNORED, _WHOLE_MEMORY)
        return
    if option == "export":
        reading.note(number, line, Verdict.IGNORED, _export(value))
        return
    reader = _READERS.get(option)
    if reader is None:
        raise NotUnderstood(f"{option[:40]!r} is not an option that Tidegate reads; remove it.")
    if value is None and option not in _WITHOUT_VALUE:
        raise NotUnderstood(f"--{option} needs a value.")
    values, detail = reader(value or "")
    reading.take(number, line, values, detail)


def _export(value: str | None) -> str:
    if (value or "").upper() in {"NONE", "ALL", "NIL"}:
        return (
            "Nothing of your shell's environment is passed on; give variables in the field "
            "`environment`."
        )
    raise NotUnderstood("Give the variables in the field `environment`.")


_Read = tuple[Mapping[str, Any], str]


def _count(value: str, what: str) -> int:
    if not _NUMBER.fullmatch(value):
        raise NotUnderstood(f"{value[:40]!r} is no number of {what}; write one whole number.")
    return int(value)


def _typed(value: str) -> tuple[str | None, int]:
    match = _TYPED_COUNT.fullmatch(value)
    if match is None:
        raise NotUnderstood(f"{value[:40]!r} is no number of GPUs; write 4 or h100:4.")
    return match[1], int(match[2])


def _gpus(field_name: str) -> Callable[[str], _Read]:
    def read(value: str) -> _Read:
        gpu_type, number = _typed(value)
        return _with_type({field_name: number}, gpu_type, f"{field_name} = {number}")

    return read


def _gres(value: str) -> _Read:
    if _GRES_SHARD.match(value):
        raise NotUnderstood(
            "No cluster gives shards here: ask for slices of GPUs by their type or pool "
            "(gpu:1g.10gb:2), or for a part of one in the field `gpus` (0.25), where a cluster "
            "gives parts."
        )
    match = _GRES_GPU.fullmatch(value)
    if match is None:
        raise NotUnderstood(f"--gres takes gpu:NUMBER or gpu:TYPE:NUMBER, not {value[:40]!r}.")
    gpu_type, number = match[1], int(match[2] or 1)
    return _with_type({"gpus_per_node": number}, gpu_type, f"gpus_per_node = {number}")


def _with_type(values: dict[str, Any], gpu_type: str | None, detail: str) -> _Read:
    if gpu_type is None:
        return values, detail
    return {**values, "gpu_type": gpu_type}, f"{detail}, of type {gpu_type}"


def _time(value: str) -> _Read:
    limit_s = seconds_of(value)
    return {"time_limit_s": limit_s}, (
        "no time limit" if limit_s is None else f"time_limit = {duration_of_seconds(limit_s)}"
    )


def _signal(value: str) -> _Read:
    match = _SIGNAL.fullmatch(value.upper())
    name = match[2] if match is not None else ""
    name = {"1": "HUP", "2": "INT", "10": "USR1", "12": "USR2", "15": "TERM"}.get(name, name)
    if match is None or name not in NOTICE_SIGNALS:
        raise NotUnderstood(f"The notice signal must be one of {', '.join(NOTICE_SIGNALS)}.")
    return {"notice_signal": name}, (
        f"notice_signal = {name}; how long before the stop it comes is the priority class's grace"
    )


def _nodes(value: str) -> _Read:
    """Read a number of nodes, or the range of an elastic job."""
    least_text, dash, most_text = value.partition("-")
    if not dash:
        return {"nodes": (number := _count(value, "nodes"))}, f"nodes = {number}"
    least, most = _count(least_text, "nodes"), _count(most_text, "nodes")
    return {"nodes": most, "nodes_min": least}, f"nodes = {most}, nodes_min = {least}"


def _name(value: str) -> _Read:
    return {"name": value}, f"name = {value[:60]}"


_CONDITIONS = {"afterok": "succeeded", "afterany": "ended", "afternotok": "failed"}
_OTHER_CONDITIONS = {
    "after": "A job can wait for the end of another, not for its start; write afterany.",
    "aftercorr": "Tasks cannot wait for single tasks of an array; write afterok.",
    "afterburstbuffer": "Burst buffers are not offered; write afterany.",
    "expand": "Jobs cannot be expanded; submit one job of the size that is needed.",
    "singleton": "`singleton` is not supported; use afterany:ID.",
}


def _dependency(value: str) -> _Read:
    """Read `TYPE:ID[:ID...]` with commas between; the ids are Tidegate's."""
    if "?" in value:
        raise NotUnderstood("A job can only wait for all of the jobs: write , instead of ?.")
    wishes = []
    for part in value.split(","):
        kind, *ids = part.split(":")
        if other := _OTHER_CONDITIONS.get(kind.lower()):
            raise NotUnderstood(other)
        condition = _CONDITIONS.get(kind.lower())
        if condition is None or not ids:
            raise NotUnderstood(
                f"{part[:60]!r} is no dependency; write afterok:ID, afterany:ID or afternotok:ID."
            )
        for text in ids:
            if not _JOB_ID.fullmatch(text):
                raise NotUnderstood(
                    f"{text[:60]!r} is no id of a Tidegate job; write the one that "
                    "`tidegate submit` printed."
                )
            # A later lookup finds whether the id is a job or an array.
            wishes.append({"id": text, "condition": condition})
    told = "1 job" if len(wishes) == 1 else f"{len(wishes):,} jobs"
    return {"depends_on": wishes}, f"depends_on = {told}"


def _constraint(value: str) -> _Read:
    names = value.split("&")
    if not all(FEATURE.fullmatch(name) for name in names):
        raise NotUnderstood(
            f"{value[:40]!r} is no list of features; write names with & between them, such as "
            "nvlink&ib. Alternatives (|), counts (*) and brackets are not offered."
        )
    features = sorted(set(names))
    return {"features": features}, f"features = {', '.join(features)}"


def _image(value: str) -> _Read:
    return {"image": value}, f"image = {value[:60]}"


def _array(value: str) -> _Read:
    try:
        shape = parse_array(value)
    except ValueError as problem:
        raise NotUnderstood(f"The array {problem}.") from None
    tasks = "1 task" if shape.size == 1 else f"{shape.size:,} tasks"
    return {"array": value}, (
        f"array = {value}: {tasks}. Each has SLURM_ARRAY_TASK_ID, _COUNT, _MIN and _MAX; in place "
        "of SLURM_ARRAY_JOB_ID, which is a number of Slurm's own, use TIDEGATE_ARRAY_ID"
    )


def _memory(value: str) -> _Read:
    match = _MEMORY.fullmatch(value)
    if match is None:
        raise NotUnderstood(f"{value[:40]!r} is no amount of memory; write 512M or 64G.")
    amount, unit = int(match[1]), (match[2] or "M").upper()
    mib = -(-amount // 1_024) if unit == "K" else amount << _MEMORY_SHIFTS[unit]
    return {"memory_mib_per_node": mib}, f"memory_mib_per_node = {mib}"


_READERS: Mapping[str, Callable[[str], _Read]] = {
    "job-name": _name,
    "gpus": _gpus("gpus"),
    "gpus-per-node": _gpus("gpus_per_node"),
    "gres": _gres,
    "nodes": _nodes,
    "cpus-per-task": lambda value: ({"cpus_per_node": _count(value, "CPUs")}, ""),
    "mem": _memory,
    "ntasks": lambda value: ({"ntasks": _count(value, "tasks")}, ""),
    "ntasks-per-node": lambda value: ({"ntasks_per_node": _count(value, "tasks")}, ""),
    "time": _time,
    "partition": lambda value: ({"partition": value}, ""),
    "qos": lambda value: ({"qos": value}, ""),
    "signal": _signal,
    "constraint": _constraint,
    "container-image": _image,
    "requeue": lambda _: ({"is_requeueable": True}, "is_requeueable = true"),
    "no-requeue": lambda _: ({"is_requeueable": False}, "is_requeueable = false"),
    "array": _array,
    "dependency": _dependency,
    "hold": lambda _: ({"held": True}, "held = true"),
}


def _settle_tasks(reading: _Reading) -> None:
    """Check --ntasks against the one process that runs on each node, and report a difference."""
    per_node = reading.given.pop("ntasks_per_node", None)
    tasks = reading.given.pop("ntasks", None)
    nodes = reading.given.get("nodes")
    is_one_each = per_node is not None and per_node.value == 1
    if tasks is not None and is_one_each and nodes is None:
        nodes = reading.given["nodes"] = tasks
    for given, agrees in (
        (per_node, is_one_each),
        (tasks, tasks is not None and tasks.value == (1 if nodes is None else nodes.value)),
    ):
        if given is None:
            continue
        note = reading.notes[given.note]
        if note.verdict is not Verdict.UNDERSTOOD:
            continue
        reading.notes[given.note] = Note(
            note.line,
            note.text,
            Verdict.UNDERSTOOD if agrees else Verdict.IGNORED,
            "One process runs on each node."
            if agrees
            else "The script runs once on each node; start more processes in it.",
        )
    if per_node is not None:
        _settle_cpus(reading, per_node.value)
    elif tasks is None or tasks.value == (1 if nodes is None else nodes.value):
        _settle_cpus(reading, 1)
    else:
        _settle_cpus(reading, None)


def _settle_cpus(reading: _Reading, tasks_per_node: int | None) -> None:
    """Multiply the CPUs per task by the tasks per node.

    If the tasks per node are unknown, the option is ignored and the CPUs that come with the GPUs
    apply.
    """
    given = reading.given.get("cpus_per_node")
    if given is None:
        return
    note = reading.notes[given.note]
    verdict, detail = Verdict.IGNORED, "Say how many tasks a node has, with --ntasks-per-node."
    if tasks_per_node is None:
        del reading.given["cpus_per_node"]
    else:
        given.value *= tasks_per_node
        verdict, detail = Verdict.UNDERSTOOD, f"cpus_per_node = {given.value}"
    reading.notes[given.note] = Note(note.line, note.text, verdict, detail)

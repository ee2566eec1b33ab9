"""A Slurm batch script, read line by line into a request of ours.

A text is read as `sbatch` 22.05 reads it; what Tidegate makes of each option is in
`sbatch_options`. Every option gets a note with its result, so nothing is dropped silently, and
nothing is passed on to a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from jobs.submission.begin_times import begin_of
from jobs.submission.sbatch_lines import (
    DIRECTIVES_MAX,
    LINE_MAX,
    Line,
    directives,
    options_of,
    text_of_note,
)
from jobs.submission.sbatch_notes import Note, NotUnderstood, Verdict
from jobs.submission.sbatch_options import Option, Reading
from jobs.submission.sbatch_shape import GPUS, Asked, Own, Shape, settle
from jobs.submission.sbatch_values import (
    array,
    count,
    dependencies,
    exported,
    features,
    gres,
    mebibytes,
    node_range,
    seconds_of,
    signal,
    typed_gpus,
)
from primitives.durations import duration_of_seconds

#: The most options of a text that are read.
OPTIONS_MAX = 500


@dataclass(frozen=True, slots=True)
class SbatchReading:
    """The result of reading an sbatch text.

    `fields` are named as in the body of POST /jobs; `sources` has the number of each field's note
    in `notes`.
    `partition`, `gpu_type` and `qos` mean a pool or a priority class only if one of that name
    exists, which the caller checks. `begin` is a time that the moment of the submission decides.
    `whole_nodes` is there for a job that takes all GPUs of its
    nodes. `notes` are in the order of the lines. `shape` is the size of the job in Slurm's words,
    with its tasks. A text without directives `is_plain`.
    """

    fields: Mapping[str, Any]
    sources: Mapping[str, int]
    notes: tuple[Note, ...]
    shape: Shape
    is_plain: bool


def parse_sbatch(text: str, own: Own | None = None) -> SbatchReading:
    """Read the directives of `text`. Never raises: a refused line becomes a note.

    `own` is the size that the request itself gives. It is put in the place of the text's.
    """
    own = own or Own()
    reading = _Text()
    lines, too_many = directives(text)
    for line in lines:
        if len(reading.notes) > OPTIONS_MAX:
            break
        _read_line(reading, line)
    if len(reading.notes) > OPTIONS_MAX:
        told = f"There are more than {OPTIONS_MAX} options; the others were not read."
        reading.notes.append(Note(0, "", Verdict.REFUSED, told))
    if too_many:
        told = f"There are more than {DIRECTIVES_MAX} #SBATCH lines."
        reading.notes.append(Note(0, "", Verdict.REFUSED, told))
    settled = settle(reading.asked, own=own, is_exclusive=reading.exclusive is not None)
    for note, (verdict, told) in settled.notes.items():
        reading.retell(note, verdict, told)
    taken = {**reading.fields, **settled.fields}
    is_sized = "cpus_per_node" in taken or not GPUS.isdisjoint(reading.asked)
    is_sized = is_sized or own.has_gpus or own.cpus_per_node is not None
    if reading.exclusive is not None and not is_sized:
        taken["whole_nodes"] = Asked(True, reading.exclusive)
        reading.retell(reading.exclusive, Verdict.UNDERSTOOD, "whole nodes")
    order = sorted(range(len(reading.notes)), key=lambda number: reading.notes[number].line)
    places = {number: place for place, number in enumerate(order)}
    return SbatchReading(
        {name: given.value for name, given in taken.items()},
        {name: places[given.note] for name, given in taken.items()},
        tuple(reading.notes[number] for number in order),
        settled.shape,
        is_plain=not lines,
    )


def unread_directives(text: str) -> tuple[Note, ...]:
    """Return notes for a plain script, in which `#SBATCH` lines have no effect."""
    told = "This was sent as a plain script; send it as `sbatch` to have its directives read."
    return tuple(
        Note(line.number, text_of_note(line), Verdict.IGNORED, told) for line in directives(text)[0]
    )


@dataclass(slots=True)
class _Text:
    """The part that is read so far.

    `asked` are the options that are settled together, `fields` the other members. `said` has the
    note of each option's last line, `exclusive` that of --exclusive.
    """

    asked: dict[str, Asked] = field(default_factory=dict)
    fields: dict[str, Asked] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    said: dict[str, int] = field(default_factory=dict)
    exclusive: int | None = None

    def note(self, line: Line, verdict: Verdict, detail: str) -> None:
        self.notes.append(Note(line.number, text_of_note(line), verdict, detail))

    def retell(self, note: int, verdict: Verdict, detail: str) -> None:
        old = self.notes[note]
        self.notes[note] = Note(old.line, old.text, verdict, detail)

    def overrule(self, option: str, line: Line) -> None:
        """Let `line` count for `option`, and tell the earlier line."""
        earlier = self.said.get(option)
        if earlier is not None:
            self.retell(earlier, Verdict.IGNORED, f"Line {line.number} says otherwise.")
            for taken in (self.asked, self.fields):
                for name in [name for name, given in taken.items() if given.note == earlier]:
                    del taken[name]
        self.said[option] = len(self.notes)


def _read_line(reading: _Text, line: Line) -> None:
    if line.first_command is not None:
        told = (
            f"It follows the first command, where sbatch does not read it either. Move it above "
            f"line {line.first_command}."
        )
        reading.note(line, Verdict.IGNORED, told)
    elif line.is_foreign:
        told = "It is a directive of another batch system; write it as #SBATCH."
        reading.note(line, Verdict.IGNORED, told)
    elif line.is_separator:
        told = (
            "Heterogeneous jobs (hetjob) are not offered: submit each part as a job of its own, "
            "or ask for nodes of one size."
        )
        reading.note(line, Verdict.REFUSED, told)
    elif line.part:
        told = f"It belongs to part {line.part + 1} of a heterogeneous job."
        reading.note(line, Verdict.IGNORED, told)
    elif len(line.text) > LINE_MAX:
        told = f"The line has {len(line.text):,} characters; at most {LINE_MAX:,} are read."
        reading.note(line, Verdict.REFUSED, told)
    else:
        _read_options(reading, line)


def _read_options(reading: _Text, line: Line) -> None:
    is_empty = True
    try:
        for option, value in options_of(line.options):
            is_empty = False
            if len(reading.notes) > OPTIONS_MAX:
                return
            try:
                _read_option(reading, line, option, value)
            except NotUnderstood as problem:
                reading.note(line, Verdict.REFUSED, str(problem))
    except NotUnderstood as problem:
        reading.note(line, Verdict.REFUSED, str(problem))
        return
    if is_empty:
        reading.note(line, Verdict.IGNORED, "The line is empty.")


#: Options that say the same thing.
_SAME = {"no-requeue": "requeue", "tasks-per-node": "ntasks-per-node"}


def _read_option(reading: _Text, line: Line, option: Option, value: str | None) -> None:
    if option.reading is Reading.REFUSED:
        raise NotUnderstood(option.told)
    if option.reading is Reading.NO_EFFECT:
        reading.note(line, Verdict.IGNORED, option.told)
        return
    if option.name == "exclusive":
        if (value or "exclusive").lower() == "exclusive":
            reading.exclusive = len(reading.notes)
        told = "Ask for all GPUs of a node to have it alone."
        reading.note(line, Verdict.IGNORED, told)
        return
    text = value or ""
    if option.name == "container-image" and f"{text}#" in line.options:
        raise NotUnderstood("sbatch ends a line at #: put the name of the image in quotes.")
    name = _SAME.get(option.name, option.name)
    if name in _TOLD:
        reading.note(line, Verdict.IGNORED, _TOLD[name](text))
    elif name == "gres":
        _read_gres(reading, line, text)
    elif name in _SETTLED:
        read = _SETTLED[name](text)
        reading.overrule(name, line)
        reading.asked[name] = Asked(read, len(reading.notes))
        reading.note(line, Verdict.UNDERSTOOD, "")
    else:
        values, told = _MEMBERS[option.name](text)
        reading.overrule(name, line)
        for member, given in values.items():
            reading.fields[member] = Asked(given, len(reading.notes))
        # A value may mean what happens anyway.
        reading.note(line, Verdict.UNDERSTOOD if values else Verdict.IGNORED, told)


def _read_gres(reading: _Text, line: Line, value: str) -> None:
    """Read the GPUs in --gres, and tell that other resources are not handed out."""
    gpus, others = gres(value)
    reading.overrule("gres", line)
    if gpus is not None:
        reading.asked["gres"] = Asked(gpus, len(reading.notes))
        reading.note(line, Verdict.UNDERSTOOD, "")
    elif not others:
        reading.note(line, Verdict.IGNORED, "The job asks for no resources.")
    for other in others:
        told = f"{other[:40]!r} is not handed out by Tidegate; the job gets what the node has."
        reading.note(line, Verdict.IGNORED, told)


def _invalid_dependency(value: str) -> str:
    if value.lower() not in {"yes", "no"}:
        raise NotUnderstood("--kill-on-invalid-dep takes yes or no.")
    return "A job whose dependency can never be met is cancelled, in any case."


def _mail(value: str) -> str:
    for kind in value.split(","):
        if kind.upper() not in _MAIL_TYPES:
            raise NotUnderstood(
                f"{kind[:40]!r} is no type of mail; write BEGIN, END, FAIL or ALL, or remove the "
                "line."
            )
    return (
        "Has no effect. Choose mails with `tidegate notify set`, or wait for the job with "
        "`tidegate wait`."
    )


_MAIL_TYPES = frozenset(
    {
        *("NONE", "BEGIN", "END", "FAIL", "REQUEUE", "ALL", "STAGE_OUT", "INVALID_DEPEND"),
        *("TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50", "ARRAY_TASKS"),
    }
)


#: What has no effect, or is refused, by its value.
_TOLD: Mapping[str, Callable[[str], str]] = {
    "kill-on-invalid-dep": _invalid_dependency,
    "mail-type": _mail,
}

#: The options that are settled together.
_SETTLED: Mapping[str, Callable[[str], Any]] = {
    "nodes": node_range,
    "ntasks": lambda value: count(value, "tasks"),
    "ntasks-per-node": lambda value: count(value, "tasks"),
    "ntasks-per-gpu": lambda value: count(value, "tasks"),
    "cpus-per-task": lambda value: count(value, "CPUs"),
    "cpus-per-gpu": lambda value: count(value, "CPUs"),
    "gpus": typed_gpus,
    "gpus-per-node": typed_gpus,
    "gpus-per-task": typed_gpus,
    "mem": mebibytes,
    "mem-per-cpu": mebibytes,
    "mem-per-gpu": mebibytes,
}

_Read = tuple[Mapping[str, Any], str]
#: The most names without a value that one note names.
_NAMELESS_MAX = 5


def _time(value: str) -> _Read:
    limit_s = seconds_of(value)
    return {"time_limit_s": limit_s}, (
        "no time limit" if limit_s is None else f"time_limit = {duration_of_seconds(limit_s)}"
    )


def _signal(value: str) -> _Read:
    name, ahead_s, is_for_shell_only = signal(value)
    fields: dict[str, Any] = {"notice_signal": name, "signal_ahead_s": ahead_s}
    if is_for_shell_only:
        fields["signals_shell_only"] = True
    whom = "the script's shell alone" if is_for_shell_only else "each process"
    return fields, (
        f"notice_signal = {name} to {whom}, {duration_of_seconds(ahead_s)} before the time limit; "
        "before a preemption, the priority class's grace"
    )


def _dependency(value: str) -> _Read:
    wishes, is_singleton = dependencies(value)
    members: dict[str, Any] = {}
    told = []
    if wishes:
        members["depends_on"] = wishes
        told.append(f"depends_on = {'1 job' if len(wishes) == 1 else f'{len(wishes):,} jobs'}")
    if is_singleton:
        members["is_singleton"] = True
        told.append("is_singleton = true: your jobs of this name run one after the other")
    return members, "; ".join(told)


def _begin(value: str) -> _Read:
    # The time that it means is found at the submission; here only its form counts.
    begin_of(value, datetime(2026, 1, 1, tzinfo=UTC))
    return {"begin": value}, ""


def _folder(value: str) -> _Read:
    if value.rstrip("/") == ".":
        return {}, "The script starts in the job's own folder."
    told = "" if value.startswith("/") else ", made below the job's own folder"
    return {"folder": value}, f"folder = {value[:80]}{told}"


def _file(member: str) -> Callable[[str], _Read]:
    def read(value: str) -> _Read:
        if value == "/dev/null" or value.lower() == "none":
            return {}, "no file; Tidegate keeps the log: see the job's page or `tidegate logs`"
        return {member: value}, f"{member} = {value[:80]}, beside the log"

    return read


def _open_mode(value: str) -> _Read:
    if value[:1].lower() not in ("a", "t"):
        raise NotUnderstood("--open-mode takes append or truncate.")
    appends = value[0].lower() == "a"
    return {"appends_output": appends}, f"appends_output = {str(appends).lower()}"


def _export(value: str) -> _Read:
    given, nameless = exported(value)
    told = [f"environment = {', '.join(given)}"] if given else []
    told.append("nothing of your shell's environment is passed on")
    for name in nameless[:_NAMELESS_MAX]:
        told.append(f"{name[:60]} has no value here: write {name[:60]}=VALUE")
    if len(nameless) > _NAMELESS_MAX:
        told.append(f"{len(nameless) - _NAMELESS_MAX} more names have no value")
    return {"environment": given} if given else {}, "; ".join(told)


def _constraint(value: str) -> _Read:
    names = features(value)
    return {"features": names}, f"features = {', '.join(names)}"


def _array(value: str) -> _Read:
    text, shape = array(value)
    tasks = "1 task" if shape.size == 1 else f"{shape.size:,} tasks"
    return {"array": text}, (
        f"array = {text}: {tasks}. Each has SLURM_ARRAY_TASK_ID, _COUNT, _MIN and _MAX; in place "
        "of SLURM_ARRAY_JOB_ID, which is a number of Slurm's own, use TIDEGATE_ARRAY_ID"
    )


#: The options that are members of the request by themselves.
_MEMBERS: Mapping[str, Callable[[str], _Read]] = {
    "job-name": lambda value: ({"name": value}, f"name = {value[:60]}"),
    "time": _time,
    "partition": lambda value: ({"partition": value}, ""),
    "qos": lambda value: ({"qos": value}, ""),
    "signal": _signal,
    "constraint": _constraint,
    "container-image": lambda value: ({"image": value}, f"image = {value[:60]}"),
    "requeue": lambda _: ({"is_requeueable": True}, "is_requeueable = true"),
    "no-requeue": lambda _: ({"is_requeueable": False}, "is_requeueable = false"),
    "array": _array,
    "dependency": _dependency,
    "begin": _begin,
    "chdir": _folder,
    "output": _file("output_file"),
    "error": _file("error_file"),
    "open-mode": _open_mode,
    "export": _export,
    "hold": lambda _: ({"held": True}, "held = true"),
}

"""The JSON body of a submission, read strictly, with all errors reported at once.

Single members are declared and checked in `jobs.submission.job_members`. Here is what depends on
several of them: script or sbatch, the settings of the sbatch text, size, pools and arrays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from arbiter.explain.phrases import cpu_and_memory_text
from connectors.workload_checks import SCRIPT_BYTES_MAX
from jobs.models import CPUS_PER_NODE_MAX, JobType, Launch
from jobs.submission.array_text import STORED_BYTES_MAX, task_name
from jobs.submission.job_members import FIELDS, TIME_LIMIT_MAX, TIME_LIMIT_S_MAX, JobMembers
from jobs.submission.manifest_requests import ManifestReading, take_manifest
from jobs.submission.member_checks import NAME_MAX
from jobs.submission.problems import Problems
from jobs.submission.sbatch import SbatchReading, parse_sbatch, unread_directives
from jobs.submission.sbatch_notes import Note, Verdict
from jobs.submission.sbatch_shape import Own
from jobs.submission.sizes import Size, read_size
from manifests.jobs import ManifestJob
from primitives.durations import seconds_of_time_limit
from primitives.units import DeviceKind

_WORD = re.compile(r"[A-Za-z0-9._+-]{1,60}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")

_OF_TASKS = ("ntasks", "ntasks_per_node", "cpus_per_task", "gpus_per_task")
#: Names in an sbatch text that mean a member of another name.
_MEANING = {
    "partition": "pool",
    "gpu_type": "pool",
    "qos": "priority_class",
    "begin": "begin_at",
}


@dataclass(frozen=True, slots=True)
class Hint:
    """A name in an sbatch text that counts only if an object of that name exists.

    `note` is the number of its line's note in the notes of the request. With `is_gpu_type` the job
    cannot run without it.
    """

    name: str
    note: int
    is_gpu_type: bool = False


class JobRequest(JobMembers):
    """A well-formed request; `jobs.submission.submission` resolves its names.

    `pools` are the accepted pools, most preferred first. If it is empty, or `priority_class` is
    None, the portal chooses. Hints are then tried first, in order. `begin_hint` is a begin time in
    the words of an sbatch line. `image_note` is the number of
    the note of the sbatch line that names the image, if there is one, `whole_note` that of the line
    that asks for whole nodes. `cpus_per_node` are CPUs beside GPUs; the
    cores of a job without GPUs are its `size`. `manifest_job` is the job of a manifest. `origins`
    has the number of the note of each member that an sbatch line gives.
    """

    name: str
    script: str
    launch: Launch
    size: Size
    notes: tuple[Note, ...] = ()
    pool_hints: tuple[Hint, ...] = ()
    class_hint: Hint | None = None
    begin_hint: Hint | None = None
    image_note: int | None = None
    whole_note: int | None = None
    manifest_job: ManifestJob | None = None
    origins: Mapping[str, int] = {}

    @property
    def cpu_milli_per_node(self) -> int | None:
        """The requested CPUs on each node, in thousandths."""
        return None if self.cpus_per_node is None else self.cpus_per_node * 1_000

    @property
    def cpu_and_memory(self) -> str:
        """The requested CPUs and memory on each node, in words; "" if the request names none."""
        return cpu_and_memory_text(self.cpu_milli_per_node or 0, self.memory_mib_per_node or 0)


def read_job_request(body: Mapping[str, Any]) -> JobRequest:
    """Return the request in a JSON `body`. Members of None count as absent.

    A member of the body wins over the same setting in the sbatch text, with a note. Raises
    InvalidRequest with one error for each problem, each with its JSON pointer.
    """
    given = {name: value for name, value in body.items() if value is not None}
    problems = Problems()
    if given.pop("template", None) is not None:
        # `jobs.templates.applying` has taken that of a submission already.
        problems.fail("template", "is of single jobs; give the members themselves")
    _read_time_limit(given, problems)
    reading: SbatchReading | None = None
    notes: tuple[Note, ...]
    manifest: ManifestReading | None = None
    if "manifest" in given:
        script, manifest = _manifest(given, problems)
        notes = manifest.notes
    else:
        script, reading, notes = _script(given, problems)
    if reading is not None:
        # Notes on the whole text stand before those of the lines.
        sources = {
            name: len(notes) - len(reading.notes) + place for name, place in reading.sources.items()
        }
        notes = _merge(given, problems, reading, sources, notes)
    members = _members(given, problems)
    whole = None if reading is None else sources.get("whole_nodes")
    if manifest is None:
        size = read_size(members, given.keys(), problems, takes_whole_nodes=whole is not None)
    else:
        size = manifest.size
    if members.required_topology is not None and members.preferred_topology is not None:
        problems.fail(
            "preferred_topology", "is given beside required_topology; give one of the two"
        )
    if "pool" in given and "pools" in given:
        problems.fail("pools", "give pool, or several in pools, not both")
    name = members.name or members.script_file or _first_word(script)
    if members.array is not None:
        texts = (script, str(given.get("environment", "")), *(str(one.as_json()) for one in notes))
        _check_tasks(members, name, texts, problems)
    elif members.type == JobType.ARRAY:
        problems.fail("type", "is array only together with array, which gives the indices")
    launch = members.launch or (
        Launch.PER_NODE if reading is None or reading.is_plain else Launch.BATCH
    )
    if manifest is not None:
        launch = Launch.MANIFEST
    elif launch is Launch.MANIFEST:
        problems.fail("launch", "is manifest only for a job that is given as a manifest")
    if launch is Launch.PER_NODE:
        for member in _OF_TASKS:
            if getattr(members, member) is not None:
                problems.fail(member, "is of batch jobs; give launch = batch, or leave it out")
    cpus_of_tasks = None
    if launch is Launch.BATCH:
        cpus_of_tasks = _cpus_of_tasks(given, members, size, problems)
    problems.raise_any(notes)
    derived: dict[str, Any] = {
        "name": name,
        "script": script,
        "launch": launch,
        "size": size,
        "pools": members.pools if members.pool is None else (members.pool,),
        # In a pool of CPU cores the CPUs are the size itself.
        "cpus_per_node": None
        if size.device is DeviceKind.CPU
        else members.cpus_per_node or cpus_of_tasks,
        "notes": notes,
    }
    if manifest is not None:
        derived["manifest_job"] = manifest.job
        if manifest.job is not None and manifest.class_note is not None:
            named = str(manifest.job.priority_class)
            derived["class_hint"] = Hint(named, manifest.class_note)
    if reading is not None:
        if "pool" not in given and "pools" not in given:
            derived["pool_hints"] = tuple(_hints(reading, sources, "gpu_type", "partition"))
        if "priority_class" not in given:
            derived["class_hint"] = next(_hints(reading, sources, "qos"), None)
        if "begin_at" not in given:
            derived["begin_hint"] = next(_hints(reading, sources, "begin"), None)
        if "image" in problems.lines:
            derived["image_note"] = sources["image"]
        if size.is_whole:
            derived["whole_note"] = whole
        derived["origins"] = {name: sources[name] for name in problems.lines}
    return JobRequest.model_construct(**members.__dict__ | derived)


def _members(given: Mapping[str, Any], problems: Problems) -> JobMembers:
    """Return the members of a body, without those that have an error."""
    try:
        return JobMembers.model_validate(given, context=problems)
    except ValidationError as found:
        bad = problems.take(found, JobMembers)
    good = {name: value for name, value in given.items() if name not in bad}
    return JobMembers.model_validate({"team": "?", **good}, context=problems)


def _cpus_of_tasks(
    given: Mapping[str, Any], members: JobMembers, size: Size, problems: Problems
) -> int | None:
    """Return the CPUs that the tasks of a batch job need on a node; None if they ask for none.

    A request with `cpus_per_node` of its own must give enough.
    """
    each, nodes = members.cpus_per_task, size.node_count
    if each is None:
        return None
    tasks = members.ntasks_per_node or 1
    if members.ntasks_per_node is None and members.ntasks is not None and nodes is not None:
        tasks = -(-members.ntasks // nodes)
    needed, node_cpus = each * tasks, members.cpus_per_node
    if node_cpus is not None and "cpus_per_node" in given and needed > node_cpus:
        problems.fail(
            "cpus_per_node",
            f"is {node_cpus}, but {tasks} tasks of {each} CPUs need {needed} on a node",
        )
    elif needed > CPUS_PER_NODE_MAX:
        problems.fail("cpus_per_task", f"makes {needed:,} CPUs on a node, with {tasks} tasks there")
    return needed


def settled(notes: Sequence[Note], number: int, verdict: Verdict, detail: str) -> tuple[Note, ...]:
    """Return `notes` with the verdict and detail of one replaced. A refusal stays."""
    note = notes[number]
    if note.verdict is Verdict.REFUSED:
        return tuple(notes)
    changed = Note(note.line, note.text, verdict, detail)
    return (*notes[:number], changed, *notes[number + 1 :])


def hint_settled(
    notes: Sequence[Note], hint: Hint, verdict: Verdict, detail: str
) -> tuple[Note, ...]:
    """Return `notes` with the result of `hint`.

    A line that also says something else stays understood.
    """
    said = notes[hint.note].detail
    if not said:
        return settled(notes, hint.note, verdict, detail)
    return settled(notes, hint.note, Verdict.UNDERSTOOD, f"{said}; {detail}")


def _hints(reading: SbatchReading, sources: Mapping[str, int], *names: str) -> Iterator[Hint]:
    return (
        Hint(str(reading.fields[name]), sources[name], name == "gpu_type")
        for name in names
        if name in reading.fields
    )


def _merge(
    given: dict[str, Any],
    problems: Problems,
    reading: SbatchReading,
    sources: Mapping[str, int],
    notes: tuple[Note, ...],
) -> tuple[Note, ...]:
    """Take the settings of the sbatch text that the body does not give. Return the new notes."""
    counting = {
        sources[name] for name in reading.fields if name not in given and name not in _MEANING
    }
    is_per_node = given.get("launch") == Launch.PER_NODE
    for name, value in reading.fields.items():
        source = sources[name]
        meaning = _MEANING.get(name, name)
        if is_per_node and name in _OF_TASKS:
            continue
        if name == "environment" and isinstance(given.get(name), dict):
            # Each variable of the request itself wins over the same one in the text.
            given[name] = {**value, **given[name]}
            continue
        if meaning in given or (meaning == "pool" and "pools" in given):
            if source in counting:
                told = f"{notes[source].detail}; the pool is the request's"
                notes = settled(notes, source, Verdict.UNDERSTOOD, told)
            else:
                told = "The request itself says otherwise."
                notes = settled(notes, source, Verdict.IGNORED, told)
        elif name in FIELDS and value is not None:
            problems.lines[name] = notes[source].line
    for name in problems.lines:
        given[name] = reading.fields[name]
    return notes


def _read_time_limit(given: dict[str, Any], problems: Problems) -> None:
    """Convert the text `time_limit` into `time_limit_s`, the only form used later."""
    text = given.pop("time_limit", None)
    if text is None:
        return
    if "time_limit_s" in given:
        problems.fail("time_limit", "give time_limit or time_limit_s, not both")
        return
    if isinstance(text, bool) or not isinstance(text, str | int):
        problems.fail("time_limit", "must be a text such as 2h", "wrong_type")
        return
    try:
        limit_s = seconds_of_time_limit(str(text))
    except ValueError as refusal:
        problems.fail("time_limit", str(refusal))
        return
    if not 1 <= limit_s <= TIME_LIMIT_S_MAX:
        problems.fail("time_limit", f"must be from 1s to {TIME_LIMIT_MAX}", "out_of_range")
        return
    given["time_limit_s"] = limit_s


def _script(
    given: dict[str, Any], problems: Problems
) -> tuple[str, SbatchReading | None, tuple[Note, ...]]:
    """Take script or sbatch out of the body, and return it with what its directives say."""
    texts = {name: given.pop(name) for name in ("script", "sbatch") if name in given}
    if len(texts) != 1:
        if texts:
            problems.fail("script", "give script or sbatch, not both")
        else:
            problems.fail("script", "is required (or sbatch)", "required")
        return "", None, ()
    ((name, given_text),) = texts.items()
    text = _text(name, given_text, problems)
    if not text:
        return "", None, ()
    notes: tuple[Note, ...] = ()
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
        notes = (Note(0, "", Verdict.UNDERSTOOD, "DOS line ends were replaced by UNIX line ends."),)
    if name == "script":
        return text, None, (*notes, *unread_directives(text))
    reading = parse_sbatch(text, _own_size(given))
    return text, reading, (*notes, *reading.notes)


def _manifest(given: dict[str, Any], problems: Problems) -> tuple[str, ManifestReading]:
    """Take the manifest out of the body, and return it with what it says."""
    text = _text("manifest", given.pop("manifest"), problems)
    for name in ("script", "sbatch"):
        if given.pop(name, None) is not None:
            problems.fail(name, "give a script or a manifest, not both")
    if not text:
        return "", ManifestReading(None, (), Size(), None)
    return text, take_manifest(given, text, problems)


def _text(name: str, text: Any, problems: Problems) -> str:
    """Return the text of a script or manifest; "" for one that is refused."""
    if not isinstance(text, str):
        problems.fail(name, "must be a text", "wrong_type")
        return ""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        problems.fail(name, "is not valid Unicode")
        return ""
    if size > SCRIPT_BYTES_MAX:
        problems.fail(
            name,
            f"has {size:,} bytes; at most {SCRIPT_BYTES_MAX:,} are allowed. Put large content "
            "into files",
            "too_large",
        )
        return ""
    if "\x00" in text:
        problems.fail(name, "contains a NUL character")
        return ""
    if not text.strip():
        problems.fail(name, "is empty", "required")
        return ""
    return text


def _own_size(given: Mapping[str, Any]) -> Own:
    """Return the size in the body itself. Values that are refused later count as unknown."""
    return Own(
        has_gpus="gpus" in given or "gpus_per_node" in given,
        gpus=_whole(given.get("gpus")),
        gpus_per_node=_whole(given.get("gpus_per_node")),
        nodes=_whole(given.get("nodes")),
        cpus_per_node=_whole(given.get("cpus_per_node")),
    )


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 1 and value == value // 1 and value < 1e9 else None


def _first_word(script: str) -> str:
    """Return the first command of the script, as a name for a job without one."""
    for line in script.splitlines()[:1_000]:
        for first in line.split("#", 1)[0].split():
            if first == "set":
                break
            if _ASSIGNMENT.match(first) or first in {"exec", "srun"}:
                continue
            word = first.rsplit("/", 1)[-1]
            if _WORD.fullmatch(word):
                return word
            break
    return "job"


def _check_tasks(members: JobMembers, name: str, texts: Iterable[str], problems: Problems) -> None:
    """Check the additional rules for a job that is stored many times, with all of `texts`."""
    array = members.array
    assert array is not None
    if members.type not in (None, JobType.ARRAY):
        problems.fail("type", "is array for the tasks of an array; leave it out")
    length = NAME_MAX - len(task_name("", array.indices[-1]))
    if len(name) > length:
        problems.fail("name", f"must have at most {length} characters, as each task adds its index")
    # Text that cannot be encoded is refused where it is read. Here it only has to be counted.
    stored = array.size * sum(len(text.encode(errors="replace")) for text in texts)
    if stored > STORED_BYTES_MAX:
        problems.fail(
            "array",
            f"has {array.size:,} tasks, which with this script and environment is "
            f"{-(-stored >> 20):,} MiB; at most {STORED_BYTES_MAX >> 20} MiB. Put large content "
            "into files",
            "too_large",
        )

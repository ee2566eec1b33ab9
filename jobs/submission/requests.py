"""The JSON body of a submission, read strictly, with all errors reported at once."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from arbiter.api.snapshot import Level
from arbiter.explain.sentences import beside_text
from connectors.workload_checks import RESERVED_ENVIRONMENT, SCRIPT_BYTES_MAX
from jobs.models import (
    CPUS_PER_NODE_MAX,
    MEMORY_MIB_PER_NODE_MAX,
    POOLS_MAX,
    TOPOLOGIES,
    Condition,
    JobType,
)
from jobs.queue.dependencies import DEPENDENCIES_MAX
from jobs.submission.array_text import STORED_BYTES_MAX, ArrayShape, parse_array, task_name
from jobs.submission.sbatch import (
    FEATURE,
    NOTICE_SIGNALS,
    Note,
    SbatchReading,
    Verdict,
    parse_sbatch,
    unread_directives,
)
from jobs.submission.sizes import Size, read_size
from primitives.durations import duration_of_seconds, seconds_of_time_limit
from primitives.errors import FieldError, InvalidRequest
from primitives.units import MGPU_MAX, MGPU_PER_GPU, DeviceKind, mgpu_of
from webapi.paging import time_or_refuse

NAME_MAX = 200
TIME_LIMIT_S_MAX = 31_536_000
_TIME_LIMIT_MAX = duration_of_seconds(TIME_LIMIT_S_MAX)
ENVIRONMENT_ENTRIES_MAX = 256
ENVIRONMENT_VALUE_BYTES_MAX = 32 << 10
ENVIRONMENT_BYTES_MAX = 128 << 10
CHECKPOINT_PATH_MAX = 1024
FEATURES_MAX = 16
IMAGE_MAX = 512
_NAME_OF_THING_MAX = 1_000

_ENVIRONMENT_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_DENIED_KEYS = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND"})
_DENIED_PREFIXES = ("SLURM_", "SBATCH_", "LD_", "TIDEGATE_")
_IMAGE = re.compile(rf"[!-~]{{1,{IMAGE_MAX}}}")
_WORD = re.compile(r"[A-Za-z0-9._+-]{1,60}")
_JOB_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")

#: Every member of the body of POST /jobs.
FIELDS = frozenset(
    {
        "team",
        "name",
        "pool",
        "pools",
        "gpus",
        "gpus_min",
        "gpus_per_node",
        "nodes",
        "nodes_min",
        "script",
        "sbatch",
        "time_limit",
        "time_limit_s",
        "priority_class",
        "type",
        "environment",
        "is_preemptible",
        "is_requeueable",
        "checkpoint_path",
        "cluster",
        "features",
        "image",
        "required_topology",
        "preferred_topology",
        "cpus_per_node",
        "memory_mib_per_node",
        "notice_signal",
        "held",
        "begin_at",
        "depends_on",
        "array",
    }
)
_SHAPE = ("gpus", "gpus_per_node", "nodes", "nodes_min")
#: Names in an sbatch text that mean a member of another name.
_MEANING = {"partition": "pool", "gpu_type": "pool", "qos": "priority_class"}


@dataclass(frozen=True, slots=True)
class Hint:
    """A name in an sbatch text that counts only if an object of that name exists.

    `note` is the note of its line, still without a detail.
    """

    name: str
    note: Note


@dataclass(frozen=True, slots=True)
class Wish:
    """A requested dependency on a job or an array; `pointer` locates errors about it.

    `kind` is "job", "array", or "id" where the request does not say which of the two it is.
    """

    id: UUID
    kind: str
    condition: Condition
    pointer: str


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A well-formed request; `jobs.submission.submission` resolves its names.

    `pools` are the accepted pools, most preferred first. If it is empty, or `priority_class` is
    None, the portal chooses. Hints are then tried first, in order. `image_note` is the note of the
    sbatch line that names the image, if there is one. `cpus_per_node` are CPUs beside GPUs; the
    cores of a job without GPUs are its `size`.
    """

    team: str
    name: str
    script: str
    size: Size
    pools: tuple[str, ...] = ()
    priority_class: str | None = None
    cluster: str | None = None
    features: tuple[str, ...] = ()
    image: str | None = None
    required_topology: Level | None = None
    preferred_topology: Level | None = None
    cpus_per_node: int | None = None
    memory_mib_per_node: int | None = None
    type: JobType | None = None
    time_limit_s: int | None = None
    environment: Mapping[str, str] | None = None
    is_preemptible: bool = False
    is_requeueable: bool = True
    checkpoint_path: str | None = None
    notice_signal: str = "TERM"
    is_held: bool = False
    begin_at: datetime | None = None
    depends_on: tuple[Wish, ...] = ()
    array: ArrayShape | None = None
    notes: tuple[Note, ...] = ()
    pool_hints: tuple[Hint, ...] = ()
    class_hint: Hint | None = None
    image_note: Note | None = None

    @property
    def cpu_milli_per_node(self) -> int | None:
        """The requested CPUs on each node, in thousandths."""
        return None if self.cpus_per_node is None else self.cpus_per_node * 1_000

    @property
    def beside(self) -> str:
        """The requested CPUs and memory on each node, in words; "" if the request names none."""
        return beside_text(self.cpu_milli_per_node or 0, self.memory_mib_per_node or 0)


def read_job_request(body: Mapping[str, Any]) -> JobRequest:
    """Return the request in a JSON `body`. Members of None count as absent.

    A member of the body wins over the same setting in the sbatch text, with a note. Raises
    InvalidRequest with one error for each problem, each with its JSON pointer.
    """
    reader = _Reader({name: value for name, value in body.items() if value is not None})
    reader.refuse_unknown(FIELDS)
    _read_time_limit(reader)
    script, reading, notes = _script(reader)
    if reading is not None:
        notes = reader.merge(reading, notes)
    cpus_per_node = reader.integer("cpus_per_node", low=1, high=CPUS_PER_NODE_MAX)
    size, topology = read_size(reader, cpus_per_node), _topology(reader)
    request_type = reader.choice("type", [item.value for item in JobType])
    name, array = _name(reader, script), _array(reader)
    if array is not None:
        _check_tasks(reader, array, name, script, notes, request_type)
    elif request_type == JobType.ARRAY:
        reader.fail("type", "is array only together with array, which gives the indices")
    request = JobRequest(
        team=reader.name_of("team", required=True) or "",
        name=name,
        script=script,
        size=size,
        pools=_pools(reader),
        priority_class=reader.name_of("priority_class"),
        cluster=reader.name_of("cluster"),
        features=_features(reader),
        image=_image(reader),
        required_topology=topology[0],
        preferred_topology=topology[1],
        # In a pool of CPU cores the CPUs are the size itself.
        cpus_per_node=None if size.device is DeviceKind.CPU else cpus_per_node,
        memory_mib_per_node=reader.integer(
            "memory_mib_per_node", low=1, high=MEMORY_MIB_PER_NODE_MAX
        ),
        type=None if request_type is None else JobType(request_type),
        time_limit_s=reader.integer("time_limit_s", low=1, high=TIME_LIMIT_S_MAX),
        environment=_environment(reader),
        is_preemptible=reader.boolean("is_preemptible", default=False),
        is_requeueable=reader.boolean("is_requeueable", default=True),
        checkpoint_path=_checkpoint_path(reader),
        notice_signal=reader.choice("notice_signal", NOTICE_SIGNALS) or "TERM",
        is_held=reader.boolean("held", default=False),
        begin_at=_begin_at(reader),
        depends_on=_depends_on(reader),
        array=array,
        notes=notes,
        pool_hints=()
        if reading is None or "pool" in reader.body or "pools" in reader.body
        else tuple(_hints(reading, "gpu_type", "partition")),
        class_hint=None
        if reading is None or "priority_class" in reader.body
        else next(_hints(reading, "qos"), None),
        image_note=None
        if reading is None or not reader.is_from_sbatch("image")
        else reading.sources["image"],
    )
    reader.raise_errors()
    return request


def settled(notes: Iterable[Note], note: Note, verdict: Verdict, detail: str) -> tuple[Note, ...]:
    """Return `notes` with the verdict and detail of `note` replaced."""
    return tuple(
        Note(other.line, other.text, verdict, detail) if other == note else other for other in notes
    )


def hint_settled(
    notes: Iterable[Note], hint: Hint, verdict: Verdict, detail: str
) -> tuple[Note, ...]:
    """Return `notes` with the result of `hint`.

    A line that also says something else stays understood.
    """
    if not hint.note.detail:
        return settled(notes, hint.note, verdict, detail)
    return settled(notes, hint.note, Verdict.UNDERSTOOD, f"{hint.note.detail}; {detail}")


def _hints(reading: SbatchReading, *names: str) -> Iterator[Hint]:
    return (
        Hint(str(reading.fields[name]), reading.sources[name])
        for name in names
        if name in reading.fields
    )


class _Reader:
    """The members of a body, and all errors found in them."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.errors: list[FieldError] = []
        self._lines: dict[str, int] = {}

    def fail(self, name: str, detail: str, code: str = "invalid", *steps: str) -> None:
        """Add an error at the member, or at the line of the sbatch text that it came from."""
        if name in self._lines:
            detail = f"line {self._lines[name]}: {name} {detail}"
            name = "sbatch"
        pointer = "".join(
            "/" + step[:80].replace("~", "~0").replace("/", "~1") for step in (name, *steps)
        )
        self.errors.append(FieldError(pointer, detail, code))

    def is_from_sbatch(self, name: str) -> bool:
        """Return whether the member was read from the sbatch text."""
        return name in self._lines

    def pointer(self, name: str, *steps: str) -> str:
        """Return the JSON pointer for an error about the member that is found later."""
        return "/sbatch" if name in self._lines else "/" + "/".join((name, *steps))

    def raise_errors(self) -> None:
        if self.errors:
            errors = sorted(self.errors, key=lambda error: error.pointer)
            raise InvalidRequest(
                "; ".join(f"{e.pointer.removeprefix('/')}: {e.detail}" for e in errors[:5]),
                errors=errors[:100],
            )

    def refuse_unknown(self, known: frozenset[str]) -> None:
        for name in self.body.keys() - known:
            self.fail(name, "is not a member of this request", "unknown_field")

    def merge(self, reading: SbatchReading, notes: tuple[Note, ...]) -> tuple[Note, ...]:
        """Take the settings of the sbatch text that the body does not give."""
        is_shaped = any(name in self.body for name in _SHAPE[:2])
        for name, value in reading.fields.items():
            source = reading.sources[name]
            meaning = _MEANING.get(name, name)
            if (
                meaning in self.body
                or (meaning == "pool" and "pools" in self.body)
                or (is_shaped and name in _SHAPE)
            ):
                notes = settled(
                    notes, source, Verdict.IGNORED, "The request itself says otherwise."
                )
            elif name in FIELDS and value is not None:
                self._lines[name] = source.line
        for name in self._lines:
            self.body[name] = reading.fields[name]
        return notes

    def text(self, name: str, *, required: bool = False) -> str | None:
        value = self.body.get(name)
        if value is None:
            if required:
                self.fail(name, "is required", "required")
            return None
        if not isinstance(value, str):
            self.fail(name, "must be a text", "wrong_type")
            return None
        return value

    def name_of(self, name: str, *, required: bool = False) -> str | None:
        """Return the name of an object: bounded, without control characters."""
        value = self.text(name, required=required)
        if value is not None and not (
            1 <= len(value) <= _NAME_OF_THING_MAX and value.isprintable()
        ):
            self.fail(name, f"must be 1 to {_NAME_OF_THING_MAX} printable characters")
            return None
        return value

    def choice(self, name: str, values: Iterable[str]) -> str | None:
        value = self.text(name)
        allowed = list(values)
        if value is not None and value not in allowed:
            self.fail(name, f"must be one of {', '.join(allowed)}")
            return None
        return value

    def integer(self, name: str, *, low: int, high: int) -> int | None:
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(name, "must be a whole number", "wrong_type")
        elif not low <= value <= high:
            self.fail(name, f"must be from {low:,} to {high:,}", "out_of_range")
        else:
            return value
        return None

    def boolean(self, name: str, *, default: bool) -> bool:
        value = self.body.get(name, default)
        if not isinstance(value, bool):
            self.fail(name, "must be true or false", "wrong_type")
            return default
        return value

    def mgpu(self, name: str) -> int | None:
        value = self.body.get(name)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            self.fail(name, "must be a number", "wrong_type")
            return None
        if not math.isfinite(value) or not 0 < value <= MGPU_MAX // MGPU_PER_GPU:
            self.fail(
                name, f"must be above 0 and at most {MGPU_MAX // MGPU_PER_GPU:,}", "out_of_range"
            )
            return None
        try:
            mgpu = mgpu_of(Decimal(str(value)))
        except ValueError:
            self.fail(name, "has more than three decimals")
            return None
        if mgpu > MGPU_PER_GPU and mgpu % MGPU_PER_GPU:
            self.fail(name, "must be a whole number, or less than 1 for a part of one GPU")
            return None
        return mgpu


def _read_time_limit(reader: _Reader) -> None:
    """Convert the text `time_limit` into `time_limit_s`, the only form used later."""
    text = reader.body.pop("time_limit", None)
    if text is None:
        return
    if "time_limit_s" in reader.body:
        reader.fail("time_limit", "give time_limit or time_limit_s, not both")
        return
    if isinstance(text, bool) or not isinstance(text, str | int):
        reader.fail("time_limit", "must be a text such as 2h", "wrong_type")
        return
    try:
        limit_s = seconds_of_time_limit(str(text))
    except ValueError as refusal:
        reader.fail("time_limit", str(refusal))
        return
    if not 1 <= limit_s <= TIME_LIMIT_S_MAX:
        reader.fail("time_limit", f"must be from 1s to {_TIME_LIMIT_MAX}", "out_of_range")
        return
    reader.body["time_limit_s"] = limit_s


def _script(reader: _Reader) -> tuple[str, SbatchReading | None, tuple[Note, ...]]:
    names = [name for name in ("script", "sbatch") if name in reader.body]
    if len(names) != 1:
        if names:
            reader.fail("script", "give script or sbatch, not both")
        else:
            reader.fail("script", "is required (or sbatch)", "required")
        return "", None, ()
    text = reader.text(names[0])
    if text is None:
        return "", None, ()
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        reader.fail(names[0], "is not valid Unicode")
        return "", None, ()
    if size > SCRIPT_BYTES_MAX:
        reader.fail(
            names[0],
            f"has {size:,} bytes; at most {SCRIPT_BYTES_MAX:,} are allowed. Put large content "
            "into files",
            "too_large",
        )
        return "", None, ()
    if "\x00" in text:
        reader.fail(names[0], "contains a NUL character")
        return "", None, ()
    if not text.strip():
        reader.fail(names[0], "is empty", "required")
        return "", None, ()
    notes: tuple[Note, ...] = ()
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
        notes = (Note(0, "", Verdict.UNDERSTOOD, "DOS line ends were replaced by UNIX line ends."),)
    if names[0] == "script":
        return text, None, (*notes, *unread_directives(text))
    reading = parse_sbatch(text)
    return text, reading, (*notes, *reading.notes)


def _begin_at(reader: _Reader) -> datetime | None:
    text = reader.text("begin_at")
    if text is None:
        return None
    try:
        return time_or_refuse(text, "begin_at")
    except InvalidRequest:
        reader.fail("begin_at", "must be a time with its zone, such as 2027-01-20T08:00:00Z")
        return None


def _name(reader: _Reader, script: str) -> str:
    given = reader.text("name")
    if given is None:
        return _first_word(script)
    name = unicodedata.normalize("NFKC", given[: 4 * NAME_MAX]).strip()
    if not 1 <= len(name) <= NAME_MAX or not name.isprintable():
        reader.fail("name", f"must be 1 to {NAME_MAX} printable characters")
    return name


def _first_word(script: str) -> str:
    """Return the first command of the script, as a name for a job without one."""
    for line in script.splitlines()[:1_000]:
        words = line.split("#", 1)[0].split()
        while words and (_ASSIGNMENT.match(words[0]) or words[0] in {"exec", "srun", "set"}):
            words = [] if words[0] == "set" else words[1:]
        if words:
            word = words[0].rsplit("/", 1)[-1]
            if _WORD.fullmatch(word):
                return word
    return "job"


def _environment(reader: _Reader) -> dict[str, str]:
    value = reader.body.get("environment", {})
    if not isinstance(value, dict):
        reader.fail("environment", "must be an object of texts", "wrong_type")
        return {}
    if len(value) > ENVIRONMENT_ENTRIES_MAX:
        reader.fail(
            "environment", f"has {len(value):,} variables; at most {ENVIRONMENT_ENTRIES_MAX}"
        )
        return {}
    total = 0
    for key, text in value.items():
        problem = _key_problem(key) or _value_problem(text)
        if problem is not None:
            reader.fail("environment", problem, "invalid", key)
        else:
            total += len(key) + len(text.encode()) + 2
    if total > ENVIRONMENT_BYTES_MAX:
        reader.fail(
            "environment",
            f"has {total:,} bytes in all; at most {ENVIRONMENT_BYTES_MAX:,}",
            "too_large",
        )
    return value


def _key_problem(key: str) -> str | None:
    if not _ENVIRONMENT_KEY.fullmatch(key):
        return "is not a variable name: letters, digits and _, not starting with a digit"
    if key in RESERVED_ENVIRONMENT:
        return "is set by Tidegate for every job"
    if key in _DENIED_KEYS or key.startswith(_DENIED_PREFIXES):
        return "may not be set for a job; set it inside the script"
    return None


def _value_problem(text: Any) -> str | None:
    if not isinstance(text, str):
        return "must be a text"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if size > ENVIRONMENT_VALUE_BYTES_MAX:
        return f"has {size:,} bytes; at most {ENVIRONMENT_VALUE_BYTES_MAX:,}"
    if any(_is_control(character) and character != "\t" for character in text):
        return "contains a control character or line break"
    return None


def _array(reader: _Reader) -> ArrayShape | None:
    text = reader.text("array")
    if text is None:
        return None
    try:
        return parse_array(text)
    except ValueError as problem:
        reader.fail("array", str(problem))
        return None


def _check_tasks(
    reader: _Reader,
    array: ArrayShape,
    name: str,
    script: str,
    notes: Iterable[Note],
    request_type: str | None,
) -> None:
    """Check the additional rules for a job that is stored many times."""
    if request_type not in (None, JobType.ARRAY):
        reader.fail("type", "is array for the tasks of an array; leave it out")
    room = NAME_MAX - len(task_name("", array.indices[-1]))
    if len(name) > room:
        reader.fail("name", f"must have at most {room} characters, as each task adds its index")
    environment = reader.body.get("environment", "")
    texts = (script, str(environment), *(str(note.as_json()) for note in notes))
    # Text that cannot be encoded is refused where it is read. Here it only has to be counted.
    stored = array.size * sum(len(text.encode(errors="replace")) for text in texts)
    if stored > STORED_BYTES_MAX:
        reader.fail(
            "array",
            f"has {array.size:,} tasks, which with this script and environment is "
            f"{-(-stored >> 20):,} MiB; at most {STORED_BYTES_MAX >> 20} MiB. Put large content "
            "into files",
            "too_large",
        )


def _depends_on(reader: _Reader) -> tuple[Wish, ...]:
    value = reader.body.get("depends_on", [])
    if not isinstance(value, list):
        reader.fail("depends_on", "must be a list of jobs and conditions", "wrong_type")
        return ()
    if len(value) > DEPENDENCIES_MAX:
        reader.fail(
            "depends_on", f"names {len(value):,} jobs; at most {DEPENDENCIES_MAX}", "too_large"
        )
        return ()
    wishes: dict[UUID, Wish] = {}
    for index, item in enumerate(value):
        wish = _wish(reader, index, item)
        if wish is None:
            continue
        if wish.id in wishes:
            reader.fail("depends_on", "names this job a second time", "invalid", str(index))
        wishes[wish.id] = wish
    return tuple(wishes.values())


def _wish(reader: _Reader, index: int, item: Any) -> Wish | None:
    step = str(index)
    conditions = Condition.values
    # An sbatch line does not say whether its ids are jobs or arrays.
    kinds = ("id",) if reader.is_from_sbatch("depends_on") else ("job", "array")
    kind = next((kind for kind in kinds if isinstance(item, dict) and kind in item), None)
    if kind is None or item.keys() != {kind, "condition"}:
        reader.fail(
            "depends_on", "must have job or array, and condition, and nothing else", "invalid", step
        )
        return None
    given, condition = item[kind], item["condition"]
    if not isinstance(given, str) or not _JOB_ID.fullmatch(given):
        what = "an array" if kind == "array" else "a job"
        reader.fail("depends_on", f"must be the id of {what}", "invalid", step, kind)
    elif condition not in conditions:
        reader.fail(
            "depends_on",
            f"must be one of {', '.join(conditions)}",
            "invalid",
            step,
            "condition",
        )
    else:
        pointer = reader.pointer("depends_on", step, kind)
        return Wish(UUID(given), kind, Condition(condition), pointer)
    return None


def _checkpoint_path(reader: _Reader) -> str | None:
    path = reader.text("checkpoint_path")
    if path is None:
        return None
    if (
        not path.startswith("/")
        or len(path) > CHECKPOINT_PATH_MAX
        or any(_is_control(character) for character in path)
        or ".." in path.split("/")
        or any("\ud800" <= character <= "\udfff" for character in path)
    ):
        reader.fail(
            "checkpoint_path",
            f"must be an absolute path of at most {CHECKPOINT_PATH_MAX:,} characters, without "
            "control characters and without ..",
        )
        return None
    return path


def _pools(reader: _Reader) -> tuple[str, ...]:
    """Return the pools in `pools`, or the one in `pool`. A request may give only one of them."""
    if "pools" not in reader.body:
        name = reader.name_of("pool")
        return () if name is None else (name,)
    names = reader.body["pools"]
    if "pool" in reader.body:
        reader.fail("pools", "give pool, or several in pools, not both")
    elif not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        reader.fail("pools", "must be a list of names of pools", "wrong_type")
    elif not 1 <= len(names) <= POOLS_MAX:
        reader.fail("pools", f"has {len(names):,} names; give 1 to {POOLS_MAX}", "out_of_range")
    elif len(set(names)) < len(names):
        reader.fail("pools", "names a pool twice")
    else:
        return tuple(names)
    return ()


def _features(reader: _Reader) -> tuple[str, ...]:
    """Return the features, sorted and unique."""
    value = reader.body.get("features", [])
    if not isinstance(value, list):
        reader.fail("features", "must be a list of names of features", "wrong_type")
        return ()
    if len(value) > FEATURES_MAX:
        reader.fail("features", f"has {len(value):,} names; at most {FEATURES_MAX} are allowed")
        return ()
    for index, name in enumerate(value):
        if not isinstance(name, str):
            reader.fail("features", "must be a text", "wrong_type", str(index))
        elif not FEATURE.fullmatch(name):
            reader.fail(
                "features",
                "must be the name of a feature: 1 to 64 letters, digits, '.', '_' and '-'",
                "invalid",
                str(index),
            )
    return tuple(sorted({name for name in value if isinstance(name, str)}))


def _image(reader: _Reader) -> str | None:
    image = reader.text("image")
    if image is not None and not _IMAGE.fullmatch(image):
        reader.fail(
            "image",
            f"must be 1 to {IMAGE_MAX} printable ASCII characters without spaces, such as "
            "nvcr.io#nvidia/pytorch:24.05-py3",
        )
        return None
    return image


def _topology(reader: _Reader) -> tuple[Level | None, Level | None]:
    """Return the required and the preferred level. A request may give at most one of them."""
    required = reader.choice("required_topology", TOPOLOGIES)
    preferred = reader.choice("preferred_topology", TOPOLOGIES)
    if required is not None and preferred is not None:
        reader.fail("preferred_topology", "is given beside required_topology; give one of the two")
    return (
        None if required is None else Level(required),
        None if preferred is None else Level(preferred),
    )


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Zl", "Zp"}

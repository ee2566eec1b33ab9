"""The checks of single members of a job request, with the sentences of their errors."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field, PlainValidator, ValidationInfo

from connectors.workload_checks import (
    ARGUMENTS_BYTES_MAX,
    ARGUMENTS_MAX,
    RESERVED_ENVIRONMENT,
)
from jobs.models import POOLS_MAX, REQUEUE_CAUSES_MAX, Condition
from jobs.queue.dependencies import DEPENDENCIES_MAX
from jobs.submission.array_text import ArrayShape, parse_array
from jobs.submission.problems import Problem, Problems, refused
from jobs.submission.sbatch_values import FEATURE
from primitives.errors import InvalidRequest
from primitives.units import MGPU_MAX, MGPU_PER_GPU, mgpu_of
from webapi.paging import time_or_refuse

NAME_MAX = 200
ENVIRONMENT_ENTRIES_MAX = 256
ENVIRONMENT_VALUE_BYTES_MAX = 32 << 10
ENVIRONMENT_BYTES_MAX = 128 << 10
CHECKPOINT_PATH_MAX = 1024
FEATURES_MAX = 16
IMAGE_MAX = 512
_GPUS_MAX = MGPU_MAX // MGPU_PER_GPU

_ENVIRONMENT_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_DENIED_KEYS = frozenset({"BASH_ENV", "ENV", "PROMPT_COMMAND"})
_DENIED_PREFIXES = ("SLURM_", "SBATCH_", "LD_", "TIDEGATE_")
_IMAGE = re.compile(rf"[!-~]{{1,{IMAGE_MAX}}}")
_EXIT_CODE = re.compile(r"[1-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5]", re.ASCII)
_JOB_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def checked(read: Callable[..., Any], schema: Any = str) -> PlainValidator:
    """Return the mark of a member that `read` reads; `schema` is the type that OpenAPI names."""
    return PlainValidator(read, json_schema_input_type=schema)


def text_of(most: int) -> Any:
    """Return the type of a text of 1 to `most` characters, for OpenAPI."""
    return Annotated[str, Field(min_length=1, max_length=most)]


def one_of(values: Iterable[str], make: Callable[[str], Any] = str) -> PlainValidator:
    """Return the mark of a member that is one of `values`."""
    allowed = [str(value) for value in values]

    def read(value: Any) -> Any:
        if text(value) not in allowed:
            raise refused(Problem(f"must be one of {', '.join(allowed)}"))
        return make(value)

    return checked(read, Annotated[str, Field(json_schema_extra={"enum": list(allowed)})])


def one_line(most: int) -> PlainValidator:
    """Return the mark of a member that is 1 to `most` characters, none of them a control one."""

    def read(value: Any) -> str:
        if not (1 <= len(text(value)) <= most and value.isprintable()):
            raise refused(Problem(f"must be 1 to {most} printable characters"))
        return str(value)

    return checked(read, text_of(most))


@dataclass(frozen=True, slots=True)
class Wish:
    """A requested dependency on a job or an array; `pointer` locates errors about it.

    `kind` is "job", "array", or "id" where the request does not say which of the two it is.
    """

    id: UUID
    kind: str
    condition: Condition
    pointer: str


class DependencyRequest(BaseModel):
    """A job or an array of the same organization to wait for: one of both.

    `failed` means any end but success. For an array it means that all tasks have ended, and not
    all with success.
    """

    job: UUID | None = None
    array: UUID | None = Field(None, description="Id of an array: the job waits for all its tasks")
    condition: Condition


def text(value: Any) -> str:
    """Return the text."""
    if not isinstance(value, str):
        raise refused(Problem("must be a text", "wrong_type"))
    return value


def requeue_on(value: Any) -> tuple[str, ...]:
    """Return the ends after which a job is queued again: "time_limit", or exit codes as text."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise refused(Problem('must be a list of texts such as ["time_limit", "75"]', "wrong_type"))
    if len(value) > REQUEUE_CAUSES_MAX:
        raise refused(Problem(f"has more than {REQUEUE_CAUSES_MAX} entries", "out_of_range"))
    for each in value:
        if each in ("preemption", "node_failure"):
            raise refused(Problem(f"{each} is a matter of is_requeueable; leave it out here"))
        if each != "time_limit" and not _EXIT_CODE.fullmatch(each):
            raise refused(
                Problem(f"{each[:20]!r} is neither time_limit nor an exit code from 1 to 255")
            )
    return tuple(dict.fromkeys(value))


def job_name(value: Any) -> str:
    """Return the name of a job, normalised."""
    name = unicodedata.normalize("NFKC", text(value)[: 4 * NAME_MAX]).strip()
    if not 1 <= len(name) <= NAME_MAX or not name.isprintable():
        raise refused(Problem(f"must be 1 to {NAME_MAX} printable characters"))
    return name


def gpus(value: Any) -> int | float:
    """Return a number of GPUs: whole, or a part of one with at most three decimals."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise refused(Problem("must be a number", "wrong_type"))
    if not math.isfinite(value) or not 0 < value <= _GPUS_MAX:
        raise refused(Problem(f"must be above 0 and at most {_GPUS_MAX:,}", "out_of_range"))
    try:
        mgpu = mgpu_of(Decimal(str(value)))
    except ValueError:
        raise refused(Problem("has more than three decimals")) from None
    if mgpu > MGPU_PER_GPU and mgpu % MGPU_PER_GPU:
        raise refused(Problem("must be a whole number, or less than 1 for a part of one GPU"))
    return value


def pools(value: Any) -> tuple[str, ...]:
    """Return the names of several pools."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise refused(Problem("must be a list of names of pools", "wrong_type"))
    if not 1 <= len(value) <= POOLS_MAX:
        raise refused(Problem(f"has {len(value):,} names; give 1 to {POOLS_MAX}", "out_of_range"))
    if len(set(value)) < len(value):
        raise refused(Problem("names a pool twice"))
    return tuple(value)


def arguments(value: Any) -> tuple[str, ...]:
    """Return the arguments of a script."""
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise refused(Problem("must be a list of texts", "wrong_type"))
    if len(value) > ARGUMENTS_MAX:
        raise refused(Problem(f"has {len(value):,} texts; at most {ARGUMENTS_MAX:,} are allowed"))
    if any("\0" in word for word in value):
        raise refused(Problem("contains a NUL character"))
    try:
        size = sum(len(word.encode()) for word in value)
    except UnicodeEncodeError:
        raise refused(Problem("is not valid Unicode")) from None
    if size > ARGUMENTS_BYTES_MAX:
        raise refused(Problem(f"has {size:,} bytes; at most {ARGUMENTS_BYTES_MAX:,} are allowed"))
    return tuple(value)


def features(value: Any) -> tuple[str, ...]:
    """Return the features, sorted and unique."""
    if not isinstance(value, list):
        raise refused(Problem("must be a list of names of features", "wrong_type"))
    if len(value) > FEATURES_MAX:
        raise refused(Problem(f"has {len(value):,} names; at most {FEATURES_MAX} are allowed"))
    problems = []
    for index, name in enumerate(value):
        if not isinstance(name, str):
            problems.append(Problem("must be a text", "wrong_type", (str(index),)))
        elif not FEATURE.fullmatch(name):
            detail = "must be the name of a feature: 1 to 64 letters, digits, '.', '_' and '-'"
            problems.append(Problem(detail, steps=(str(index),)))
    if problems:
        raise refused(*problems)
    return tuple(sorted(set(value)))


def image(value: Any) -> str:
    """Return the name of a container image."""
    if not _IMAGE.fullmatch(text(value)):
        detail = (
            f"must be 1 to {IMAGE_MAX} printable ASCII characters without spaces, such as "
            "nvcr.io#nvidia/pytorch:24.05-py3"
        )
        raise refused(Problem(detail))
    return str(value)


def checkpoint_path(value: Any) -> str:
    """Return an absolute path."""
    path = text(value)
    if (
        not path.startswith("/")
        or len(path) > CHECKPOINT_PATH_MAX
        or any(_is_control(character) for character in path)
        or ".." in path.split("/")
        or any("\ud800" <= character <= "\udfff" for character in path)
    ):
        detail = (
            f"must be an absolute path of at most {CHECKPOINT_PATH_MAX:,} characters, without "
            "control characters and without .."
        )
        raise refused(Problem(detail))
    return path


def begin_time(value: Any) -> datetime:
    """Return a time, in UTC."""
    try:
        return time_or_refuse(text(value), "begin_at")
    except InvalidRequest:
        detail = "must be a time with its zone, such as 2027-01-20T08:00:00Z"
        raise refused(Problem(detail)) from None


def array_shape(value: Any) -> ArrayShape:
    """Return the indices of an array."""
    indices = text(value)
    try:
        return parse_array(indices)
    except ValueError as problem:
        raise refused(Problem(str(problem))) from None


def environment(value: Any) -> Mapping[str, str]:
    """Return the variables of a job."""
    if not isinstance(value, dict):
        raise refused(Problem("must be an object of texts", "wrong_type"))
    if len(value) > ENVIRONMENT_ENTRIES_MAX:
        detail = f"has {len(value):,} variables; at most {ENVIRONMENT_ENTRIES_MAX}"
        raise refused(Problem(detail))
    total, problems = 0, []
    for key, one in value.items():
        problem = _key_problem(key) or _value_problem(one)
        if problem is not None:
            problems.append(Problem(problem, steps=(key,)))
        else:
            total += len(key) + len(one.encode()) + 2
    if total > ENVIRONMENT_BYTES_MAX:
        detail = f"has {total:,} bytes in all; at most {ENVIRONMENT_BYTES_MAX:,}"
        problems.append(Problem(detail, "too_large"))
    if problems:
        raise refused(*problems)
    return value


def _key_problem(key: str) -> str | None:
    if not _ENVIRONMENT_KEY.fullmatch(key):
        return "is not a variable name: letters, digits and _, not starting with a digit"
    if key in RESERVED_ENVIRONMENT:
        return "is set by Tidegate for every job"
    if key in _DENIED_KEYS or key.startswith(_DENIED_PREFIXES):
        return "may not be set for a job; set it inside the script"
    return None


def _value_problem(value: Any) -> str | None:
    if not isinstance(value, str):
        return "must be a text"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode"
    if size > ENVIRONMENT_VALUE_BYTES_MAX:
        return f"has {size:,} bytes; at most {ENVIRONMENT_VALUE_BYTES_MAX:,}"
    if any(_is_control(character) and character != "\t" for character in value):
        return "contains a control character or line break"
    return None


def wishes(value: Any, info: ValidationInfo[Problems]) -> tuple[Wish, ...]:
    """Return the dependencies. The context is the `Problems` of the body."""
    if not isinstance(value, list):
        raise refused(Problem("must be a list of jobs and conditions", "wrong_type"))
    if len(value) > DEPENDENCIES_MAX:
        detail = f"names {len(value):,} jobs; at most {DEPENDENCIES_MAX}"
        raise refused(Problem(detail, "too_large"))
    body: Problems = info.context
    found: dict[UUID, Wish] = {}
    problems = []
    for index, item in enumerate(value):
        wish = _wish(body, str(index), item)
        if isinstance(wish, Problem):
            problems.append(wish)
            continue
        if wish.id in found:
            problems.append(Problem("names this job a second time", steps=(str(index),)))
        found[wish.id] = wish
    if problems:
        raise refused(*problems)
    return tuple(found.values())


def _wish(body: Problems, step: str, item: Any) -> Wish | Problem:
    conditions = Condition.values
    # An sbatch line does not say whether its ids are jobs or arrays.
    kinds = ("id",) if "depends_on" in body.lines else ("job", "array")
    kind = next((kind for kind in kinds if isinstance(item, dict) and kind in item), None)
    if kind is None or item.keys() != {kind, "condition"}:
        return Problem("must have job or array, and condition, and nothing else", steps=(step,))
    given, condition = item[kind], item["condition"]
    if not isinstance(given, str) or not _JOB_ID.fullmatch(given):
        what = "an array" if kind == "array" else "a job"
        return Problem(f"must be the id of {what}", steps=(step, kind))
    if condition not in conditions:
        return Problem(f"must be one of {', '.join(conditions)}", steps=(step, "condition"))
    pointer = body.pointer("depends_on", step, kind)
    return Wish(UUID(given), kind, Condition(condition), pointer)


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Zl", "Zp"}

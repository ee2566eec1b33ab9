"""The parts of a manifest that the readers of several kinds share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from manifests.documents import Document
from manifests.fields import Field
from manifests.jobs import Origin, PodSet
from manifests.pods import Claims
from primitives.durations import duration_of_seconds

#: As many as a workload of the portal may have ranks.
PODS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Shape:
    """The Pods of an object, and its own time limit."""

    pod_sets: tuple[PodSet, ...] = ()
    time_limit_s: int | None = None


class AsJobSet(NamedTuple):
    """The JobSet that runs an object of another kind: its document and its field, and its Pods.

    `host_files` and `origin` are those of the job. `priority_class` is the one that the object
    names.
    """

    document: Document
    field: Field
    shape: Shape
    host_files: Mapping[str, str] = {}
    origin: Origin | None = None
    priority_class: str | None = None


#: Reads the object of a job; the marks are its labels and annotations.
Reader = Callable[[Field, Claims, Mapping[str, str]], Shape]


def ignore_own(spec: Field) -> None:
    """Say that the portal sets what holds an object and what removes it."""
    if spec.at("suspend").flag() is False:
        spec.at("suspend").ignore("the portal holds the object until the job starts")
    if spec.at("ttlSecondsAfterFinished").is_given:
        spec.at("ttlSecondsAfterFinished").ignore(
            "the portal removes the object after the job's end"
        )


def read_deadline(field: Field) -> int | None:
    """Return the time limit at `field`, in seconds; None without one."""
    limit_s = field.whole(1)
    if limit_s is not None:
        field.note(f"the time limit of the job is {duration_of_seconds(limit_s)}")
    return limit_s


def check_pod_count(field: Field, count: int) -> None:
    """Refuse `field` for more Pods than a job may have."""
    if count > PODS_MAX:
        field.refuse(f"have {count:,} Pods, and a job has at most {PODS_MAX:,}")


def or_default(value: int | None, otherwise: int) -> int:
    """Return `value`, or `otherwise` where there is none."""
    return otherwise if value is None else value

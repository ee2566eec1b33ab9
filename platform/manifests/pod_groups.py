"""Groups of Pods in one file: each group is one job, run as a JobSet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from manifests.documents import Document, Path
from manifests.fields import Field
from manifests.findings import Findings
from manifests.jobs import PodSet
from manifests.pods import TOPOLOGY_MARKS, Claims, PodNeeds, read_pod_spec
from manifests.shapes import Shape, read_deadline

POD_GROUP = "kueue.x-k8s.io/pod-group-name"
POD_COUNT = "kueue.x-k8s.io/pod-group-total-count"
#: The marks of a group that do not count, and what does.
_IGNORED: Mapping[str, str] = {
    "kueue.x-k8s.io/pod-group-fast-admission": "all Pods of a group start at once",
    "kueue.x-k8s.io/retriable-in-group": "the group ends when one of its Pods fails",
}
#: Marks of Kueue that only Pods of a group have.
GROUP_MARKS = frozenset({POD_GROUP, POD_COUNT, *_IGNORED})
#: As many sets of Pods as Kueue's Workload may have.
KINDS_MAX = 18
JOBSET_API = "jobset.x-k8s.io/v1alpha2"
_DEADLINE = "activeDeadlineSeconds"
_NEVER = "Never"
_OF_KUEUE = "kueue.x-k8s.io/"


class GroupedPod(NamedTuple):
    """A Pod of a group: its document, its field, and its labels and annotations together."""

    document: Document
    top: Field
    marks: Mapping[str, str]


class PodGroup(NamedTuple):
    """A group as a JobSet: its document and its field, its Pods, and the marks of all of them."""

    document: Document
    field: Field
    shape: Shape
    marks: Mapping[str, str]


@dataclass(slots=True)
class _Alike:
    """Equal Pods: what each asks for, the first one, their template, and how many they are."""

    needs: PodNeeds
    first: GroupedPod
    metadata: dict[str, Any]
    spec: dict[str, Any]
    count: int = 0


def read_pod_group(
    name: str, pods: Sequence[GroupedPod], claims: Claims, findings: Findings
) -> PodGroup:
    """Return the JobSet that runs `pods`, with a Job for each kind of them.

    Equal Pods are of one kind. A Pod's rank is its place among all Pods, kind by kind.
    """
    _check_marks(pods)
    limit_s = _limit_of(pods)
    kinds: list[_Alike] = []
    for pod in pods:
        needs = read_pod_spec(pod.top.at("spec"), claims, pod.marks)
        if needs.restart_policy in (None, "Always"):
            pod.top.at("spec", "restartPolicy").note(
                "each Pod of a group runs once: restartPolicy is Never"
            )
        metadata, spec = _template(pod)
        found = next(
            (one for one in kinds if (one.metadata, one.spec) == (metadata, spec)),
            None,
        )
        if found is None:
            found = _Alike(needs, pod, metadata, spec)
            kinds.append(found)
        found.count += 1
    document = _jobset(name, kinds)
    field = Field(document, findings, f"Pods of group {name}", (), document.value)
    count = "1 Pod is" if len(pods) == 1 else f"{len(pods)} Pods are"
    field.note(f"{count} one job, run as a JobSet; it ends when one of them fails")
    if len(kinds) > KINDS_MAX:
        field.at("spec").refuse(
            f"has {len(kinds)} kinds of Pods, and Kueue takes at most {KINDS_MAX}; write more of "
            "them alike, or an Indexed Job"
        )
    marks: dict[str, str] = {}
    for pod in reversed(pods):
        marks |= pod.marks
    return PodGroup(document, field, Shape(tuple(_pod_sets(kinds)), limit_s), marks)


def _check_marks(pods: Sequence[GroupedPod]) -> None:
    """Refuse Pods whose number is not that of their group, and two Pods of one name."""
    names: set[str] = set()
    for pod in pods:
        if not pod.marks[POD_GROUP]:
            pod.top.at("metadata", "labels", POD_GROUP).refuse("must be the name of the group")
        for ignored, told in _IGNORED.items():
            if ignored in pod.marks:
                pod.top.at("metadata", "annotations", ignored).ignore(told)
        name = pod.top.at("metadata", "name")
        if (given := name.text()) and given in names:
            name.refuse("is the name of another Pod in this file")
        names.add(given or "")
        count = pod.marks.get(POD_COUNT)
        mark = pod.top.at("metadata", "annotations", POD_COUNT)
        if count is None:
            mark.refuse(f'is required: how many Pods the group has, "{len(pods)}" in this file')
        elif count != str(len(pods)):
            mark.refuse(
                f"is {count[:20]}, and the file has {len(pods)} of the group's Pods; write all in "
                "one file"
            )


def _limit_of(pods: Sequence[GroupedPod]) -> int | None:
    """Return the time limit of the Pods, in seconds; None without one."""
    limits = {read_deadline(pod.top.at("spec", _DEADLINE)) for pod in pods}
    if len(limits) > 1:
        for pod in pods:
            pod.top.at("spec", _DEADLINE).refuse("differs; give all Pods of the group the same")
    return next(iter(limits))


def _template(pod: GroupedPod) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return metadata and spec of the template for `pod`, which runs once in a Job."""
    given = pod.document.value.get("metadata")
    metadata = {
        name: {key: value for key, value in marks.items() if not _is_of_job(key)}
        for name in ("labels", "annotations")
        if isinstance(given, dict) and isinstance(marks := given.get(name), dict)
    }
    spec = pod.document.value.get("spec")
    spec = dict(spec) if isinstance(spec, dict) else {}
    spec.pop(_DEADLINE, None)
    if spec.get("restartPolicy") != "OnFailure":
        spec["restartPolicy"] = _NEVER
    return metadata, spec


def _is_of_job(mark: str) -> bool:
    """Return whether the mark is for the whole job, so that equal Pods may differ in it."""
    return mark.startswith(_OF_KUEUE) and not mark.startswith(TOPOLOGY_MARKS)


def template_path(number: int) -> Path:
    """Return the path of the Pod template of a JobSet's Job with this number, from 0."""
    return ("spec", "replicatedJobs", number, "template", "spec", "template")


def _pod_sets(kinds: Sequence[_Alike]) -> list[PodSet]:
    found: list[PodSet] = []
    rank = 0
    for number, one in enumerate(kinds):
        found.append(
            PodSet(
                _name_of(number),
                one.needs,
                one.count,
                one.count,
                template_path(number),
                ranks_from=rank,
            )
        )
        rank += one.count
    return found


def _name_of(number: int) -> str:
    return f"pods-{number}"


def _jobset(name: str, kinds: Sequence[_Alike]) -> Document:
    """Return the JobSet as a document whose lines are those of the first Pod of each kind."""
    lines: dict[Path, int] = {(): kinds[0].first.document.line_of(())}
    jobs = []
    for number, one in enumerate(kinds):
        path = template_path(number)
        for own, line in one.first.document.lines.items():
            if own[:1] in (("metadata",), ("spec",)) or not own:
                lines[(*path, *own)] = line
        mode = "Indexed" if one.count > 1 else "NonIndexed"
        spec = {
            "backoffLimit": 0,
            "parallelism": one.count,
            "completions": one.count,
            # The Job controller leaves the host name of a single Pod as it is without an index.
            "completionMode": mode,
            "template": {"metadata": one.metadata, "spec": one.spec},
        }
        jobs.append({"name": _name_of(number), "template": {"spec": spec}})
    value = {
        "apiVersion": JOBSET_API,
        "kind": "JobSet",
        "metadata": {"name": name},
        # Pods have the host names and the subdomains of the file.
        "spec": {"network": {"enableDNSHostnames": False}, "replicatedJobs": jobs},
    }
    return Document(kinds[0].first.document.number, value, lines)

"""LeaderWorkerSets: each is one job, run as a JobSet without the operator of LeaderWorkerSets."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from manifests.documents import Document, Path
from manifests.fields import Field
from manifests.findings import Findings
from manifests.jobs import PodSet
from manifests.pod_groups import JOBSET_API, KINDS_MAX, template_path
from manifests.pods import Claims, PodNeeds, read_template
from manifests.shapes import AsJobSet, Shape, or_default

LEADER_WORKER_SET = "LeaderWorkerSet"
_OF_GROUPS = "leaderworkerset.sigs.k8s.io"
_GROUP_NAME = "kueue.x-k8s.io/podset-group-name"
_JOBSET_NAME = "LWS_JOBSET_NAME"
#: Fields that say how an operator keeps a service alive, and what happens instead.
_IGNORED: Mapping[tuple[str, ...], str] = {
    ("startupPolicy",): "all Pods start at once",
    ("rolloutStrategy",): "the Pods are never replaced by newer ones",
    ("networkConfig",): "all Pods of the job share one subdomain",
    ("leaderWorkerTemplate", "restartPolicy"): "the job ends when one of its Pods fails",
    ("leaderWorkerTemplate", "subGroupPolicy"): "a group has no subgroups",
}


class _Pod(NamedTuple):
    """A Pod: its group, its place in the group, the field of its template, and its needs."""

    group: int
    place: int
    template: Field
    needs: PodNeeds

    @property
    def name(self) -> str:
        return f"leader-{self.group}" if self.place == 0 else f"worker-{self.group}-{self.place}"


def read_leader_workers(
    document: Document, top: Field, claims: Claims, findings: Findings
) -> AsJobSet:
    """Return the JobSet that runs all groups, with a Job for each Pod.

    The Pods find the variables that the operator sets: LWS_LEADER_ADDRESS, LWS_GROUP_SIZE and
    LWS_WORKER_INDEX (https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/).
    """
    spec = top.at("spec")
    groups = or_default(spec.at("replicas").whole(1), 1)
    parts = spec.at("leaderWorkerTemplate")
    size = or_default(parts.at("size").whole(1), 1)
    for path, told in _IGNORED.items():
        if spec.at(*path).is_given:
            spec.at(*path).ignore(told)
    if spec.at("leaderWorkerTemplate", "volumeClaimTemplates").is_given:
        parts.at("volumeClaimTemplates").refuse(
            "are not made for jobs; create the claims with kubectl and name them in the Pods"
        )
    if groups * size > KINDS_MAX:
        parts.at("size").refuse(
            f"makes {groups * size} Pods, and a LeaderWorkerSet here has at most {KINDS_MAX}; "
            "submit a file for each replica, or write an Indexed Job"
        )
        groups, size = 1, min(size, KINDS_MAX)
    workers, leaders = parts.at("workerTemplate"), parts.at("leaderTemplate")
    if not workers.is_given:
        workers.refuse("is required: the template of the workers")
    leaders = leaders if leaders.is_given else workers
    needs = {one.path: read_template(one, claims) for one in (leaders, workers)}
    for template in dict.fromkeys((leaders, workers)):
        if (mark := template.at("metadata", "annotations", _GROUP_NAME)).is_given:
            mark.refuse(
                "keeps the Pods of a replica together, and a JobSet keeps no replicas; leave it "
                "out, so that all Pods of the job share the topology"
            )
    pods = [
        _Pod(group, index, template, needs[template.path])
        for group in range(groups)
        for index in range(size)
        for template in (leaders if index == 0 else workers,)
    ]
    made = _jobset(document, pods, size)
    field = Field(made, findings, f"{LEADER_WORKER_SET} run as a JobSet", (), made.value)
    top.note(
        f"{len(pods)} Pods are one job, run as a JobSet until they end, its time limit ends, or "
        "somebody cancels it"
    )
    return AsJobSet(made, field, Shape(tuple(_pod_sets(pods))))


def _pod_sets(pods: list[_Pod]) -> list[PodSet]:
    return [
        PodSet(pod.name, pod.needs, 1, 1, template_path(rank), ranks_from=rank)
        for rank, pod in enumerate(pods)
    ]


def _jobset(document: Document, pods: list[_Pod], size: int) -> Document:
    """Return the JobSet as a document whose lines are those of the templates."""
    lines: dict[Path, int] = {(): document.line_of(())}
    jobs = []
    for number, pod in enumerate(pods):
        length = len(pod.template.path)
        for own, line in document.lines.items():
            if own[:length] == pod.template.path:
                lines[(*template_path(number), *own[length:])] = line
        spec = {
            "backoffLimit": 0,
            "parallelism": 1,
            "completions": 1,
            "template": _template(pod, size),
        }
        jobs.append({"name": pod.name, "template": {"spec": spec}})
    given = document.value.get("metadata")
    name = given.get("name") if isinstance(given, dict) else None
    value = {
        "apiVersion": JOBSET_API,
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"network": {"enableDNSHostnames": True}, "replicatedJobs": jobs},
    }
    return Document(document.number, value, lines)


def _template(pod: _Pod, size: int) -> dict[str, Any]:
    """Return the template of the Pod, with the variables and labels that the operator sets."""
    found = copy.deepcopy(pod.template.value)
    template: dict[str, Any] = found if isinstance(found, dict) else {}
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return template
    if spec.get("restartPolicy") != "OnFailure":
        spec["restartPolicy"] = "Never"
    metadata = template.setdefault("metadata", {})
    if isinstance(metadata, dict) and isinstance(metadata.setdefault("labels", {}), dict):
        metadata["labels"] |= {
            f"{_OF_GROUPS}/group-index": str(pod.group),
            f"{_OF_GROUPS}/worker-index": str(pod.place),
        }
    # JobSet names its Pods JOBSET-JOB-0-0, below a subdomain that has its own name.
    jobset = f"$({_JOBSET_NAME})"
    label = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/jobset-name']"}}
    variables: list[dict[str, Any]] = [
        {"name": _JOBSET_NAME, "valueFrom": label},
        {"name": "LWS_LEADER_ADDRESS", "value": f"{jobset}-leader-{pod.group}-0-0.{jobset}"},
        {"name": "LWS_GROUP_SIZE", "value": str(size)},
        {"name": "LWS_WORKER_INDEX", "value": str(pod.place)},
    ]
    own = {one["name"] for one in variables}
    for kind in ("initContainers", "containers"):
        containers = spec.get(kind)
        for container in containers if isinstance(containers, list) else ():
            if isinstance(container, dict) and isinstance(container.get("env", []), list):
                rest = [
                    one
                    for one in container.get("env", [])
                    if not (isinstance(one, dict) and one.get("name") in own)
                ]
                container["env"] = [*copy.deepcopy(variables), *rest]
    return template

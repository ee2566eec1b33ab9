"""LeaderWorkerSets: each is one job, run as a JobSet without the operator of LeaderWorkerSets."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from manifests.documents import Document, Path
from manifests.fields import Field
from manifests.findings import Findings
from manifests.jobs import PodSet
from manifests.pod_groups import JOBSET_API, KINDS_MAX, template_path
from manifests.pods import Claims, PodNeeds, read_template
from manifests.shapes import AsJobSet, Shape, check_pod_count, or_default

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


class _Part(NamedTuple):
    """The leader of a group, or all its workers: the field of their template, and their needs."""

    group: int
    is_leader: bool
    replicas: int
    template: Field
    needs: PodNeeds

    @property
    def name(self) -> str:
        return f"{'leader' if self.is_leader else 'worker'}-{self.group}"


def read_leader_workers(
    document: Document, top: Field, claims: Claims, findings: Findings
) -> AsJobSet:
    """Return the JobSet that runs all groups: a Job for each leader, and one for each worker.

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
    check_pod_count(parts.at("size"), groups * size)
    if (most := KINDS_MAX // min(size, 2)) < groups:
        spec.at("replicas").refuse(
            f"must be at most {most}: Kueue takes {KINDS_MAX} kinds of Pods in a job, and a group "
            f"has {min(size, 2)}; submit the groups in several files"
        )
        groups = most
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
    made_of = [
        _Part(group, is_leader, count, template, needs[template.path])
        for group in range(groups)
        for is_leader, count, template in ((True, 1, leaders), (False, size - 1, workers))
        if count
    ]
    made = _jobset(document, made_of, size)
    field = Field(made, findings, f"{LEADER_WORKER_SET} run as a JobSet", (), made.value)
    top.note(
        f"{groups * size} Pods are one job, run as a JobSet until they end, its time limit ends, "
        "or somebody cancels it"
    )
    return AsJobSet(made, field, Shape(tuple(_pod_sets(made_of))))


def _pod_sets(parts: Sequence[_Part]) -> list[PodSet]:
    found = []
    rank = 0
    for number, part in enumerate(parts):
        count, path = part.replicas, template_path(number)
        found.append(
            PodSet(part.name, part.needs, count, count, path, copies=count, ranks_from=rank)
        )
        rank += count
    return found


def _jobset(document: Document, parts: Sequence[_Part], size: int) -> Document:
    """Return the JobSet as a document whose lines are those of the templates."""
    lines: dict[Path, int] = {(): document.line_of(())}
    jobs = []
    for number, part in enumerate(parts):
        length = len(part.template.path)
        for own, line in document.lines.items():
            if own[:length] == part.template.path:
                lines[(*template_path(number), *own[length:])] = line
        spec = {
            "backoffLimit": 0,
            "parallelism": 1,
            "completions": 1,
            "template": _template(part, size),
        }
        jobs.append(
            {
                "name": part.name,
                "groupName": f"group-{part.group}",
                "replicas": part.replicas,
                "template": {"spec": spec},
            }
        )
    given = document.value.get("metadata")
    name = given.get("name") if isinstance(given, dict) else None
    value = {
        "apiVersion": JOBSET_API,
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"network": {"enableDNSHostnames": True}, "replicatedJobs": jobs},
    }
    return Document(document.number, value, lines)


def _template(part: _Part, size: int) -> dict[str, Any]:
    """Return the template of the Pods, with the variables and labels that the operator sets.

    The number of a Job within its group is the index of its Pod: 0 is the leader.
    """
    found = copy.deepcopy(part.template.value)
    template: dict[str, Any] = found if isinstance(found, dict) else {}
    spec = template.get("spec")
    if not isinstance(spec, dict):
        return template
    if spec.get("restartPolicy") != "OnFailure":
        spec["restartPolicy"] = "Never"
    metadata = template.setdefault("metadata", {})
    if isinstance(metadata, dict) and isinstance(metadata.setdefault("labels", {}), dict):
        metadata["labels"] |= {f"{_OF_GROUPS}/group-index": str(part.group)}
        if part.is_leader:
            metadata["labels"] |= {f"{_OF_GROUPS}/worker-index": "0"}
    # JobSet names its Pods JOBSET-JOB-0-0, below a subdomain that has its own name.
    jobset = f"$({_JOBSET_NAME})"
    variables: list[dict[str, Any]] = [
        {"name": _JOBSET_NAME, "valueFrom": _label("jobset-name")},
        {"name": "LWS_LEADER_ADDRESS", "value": f"{jobset}-leader-{part.group}-0-0.{jobset}"},
        {"name": "LWS_GROUP_SIZE", "value": str(size)},
        {"name": "LWS_WORKER_INDEX", "valueFrom": _label("job-group-index")},
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


def _label(name: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": f"metadata.labels['jobset.sigs.k8s.io/{name}']"}}

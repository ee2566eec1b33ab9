"""Reads a text into its jobs, what belongs to them, and what becomes of each field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from manifests.devices import Gpus, is_gpu
from manifests.documents import Document, Unreadable, read_documents
from manifests.fields import Field
from manifests.findings import Finding, Findings, Verdict
from manifests.jobs import ManifestJob, PodSet
from manifests.kinds import KINDS, MAX_SECONDS, Kind
from manifests.leader_workers import LEADER_WORKER_SET, read_leader_workers
from manifests.other_objects import OTHER_OBJECTS, read_other_object
from manifests.pod_groups import GROUP_MARKS, JOBSET_API, POD_GROUP, GroupedPod, read_pod_group
from manifests.pods import PRIORITY, read_metadata
from manifests.shapes import AsJobSet, Shape
from manifests.volcano_jobs import VOLCANO, read_volcano_job
from primitives.durations import duration_of_seconds

CLAIM_TEMPLATE = "ResourceClaimTemplate"
CLAIM_API = "resource.k8s.io/v1"
#: As long as the parts of object names that the portal makes of it.
NAME_MAX = 63
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)
_TOP = frozenset({"apiVersion", "kind", "metadata", "spec"})
#: The marks of Kueue that the portal reads on a Pod that is a job.
_MARKS_OF_PODS = frozenset({PRIORITY, MAX_SECONDS})
_SHOWN_MAX = 80
_LISTED_KINDS = ", ".join(
    kind.title or name for (_, name), kind in KINDS.items() if not kind.refusal
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A text as it was read.

    `jobs` has one entry for each job in it, and `claims` the documents of claim templates beside
    them. `other_objects` are the documents of ConfigMaps, Secrets and Services. Nothing may run
    unless `is_accepted`.
    """

    jobs: tuple[ManifestJob, ...]
    claims: tuple[Document, ...]
    findings: tuple[Finding, ...]
    other_objects: tuple[Document, ...] = ()

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """The findings that keep it from running."""
        return tuple(one for one in self.findings if one.verdict is Verdict.REFUSED)

    @property
    def job(self) -> ManifestJob | None:
        """Its only job; None unless there is exactly one."""
        return self.jobs[0] if len(self.jobs) == 1 else None

    @property
    def is_accepted(self) -> bool:
        """Return whether it is one job that the portal runs."""
        return self.job is not None and not self.refusals


@lru_cache(maxsize=64)
def read_manifest(text: str) -> Manifest:
    """Return what the YAML or JSON in `text` says. Nothing raises: errors are findings."""
    try:
        documents = read_documents(text)
    except Unreadable as error:
        finding = Finding(error.line, "manifest", Verdict.REFUSED, error.detail)
        return Manifest((), (), (finding,))
    return manifest_of(documents)


def manifest_of(documents: tuple[Document, ...]) -> Manifest:
    """Return what `documents` say. Nothing raises: errors are findings."""
    return _Reading(documents).manifest()


class _Reading:
    def __init__(self, documents: tuple[Document, ...]) -> None:
        self._findings = Findings()
        self._documents = documents
        self._jobs: list[ManifestJob] = []
        self._device_classes: set[str] = set()
        self._others: dict[tuple[str, str | None], Document] = {}
        self._groups: dict[str, list[GroupedPod]] = {}
        #: Whether a claim was refused, so that the GPUs of the jobs are not known.
        self._has_unread_claims = False

    def manifest(self) -> Manifest:
        tops = [(one, self._top(one)) for one in self._documents]
        claims: dict[str, Gpus | None] = {}
        templates = []
        jobs = []
        for document, top in tops:
            kind = None if top is None else _kind_of(top)[1]
            if top is None or kind is None:
                continue
            if kind == CLAIM_TEMPLATE:
                self._take_claims(top, claims)
                templates.append(document)
            elif kind in OTHER_OBJECTS:
                self._take_other_object(document, top, kind)
            else:
                jobs.append((document, top))
        for document, top in jobs:
            self._take(document, top, claims)
        for name, pods in self._groups.items():
            self._take_group(name, pods, claims)
        if not self._documents:
            self._findings.add(0, "manifest", Verdict.REFUSED, "has no document with a job")
        elif len(self._jobs) > 1:
            listed = ", ".join(job.label for job in self._jobs)
            self._findings.add(
                0,
                "manifest",
                Verdict.REFUSED,
                f"has {len(self._jobs)} jobs ({listed}); submit each in a text of its own, or the "
                "file with `tidegate submit`, which does so",
            )
        elif not self._jobs and not any(
            one.verdict is Verdict.REFUSED for one in self._findings.all()
        ):
            self._findings.add(0, "manifest", Verdict.REFUSED, "has no document of a job")
        others = tuple(self._others.values())
        return Manifest(tuple(self._jobs), tuple(templates), self._findings.all(), others)

    def _top(self, document: Document) -> Field | None:
        value = document.value
        kind = value.get("kind") if isinstance(value, dict) else None
        what = kind[:_SHOWN_MAX] if isinstance(kind, str) else "manifest"
        top = Field(document, self._findings, what, (), value)
        if not isinstance(value, dict):
            top.refuse("must be an object with apiVersion, kind and spec")
            return None
        for name in ("apiVersion", "kind"):
            if not top.at(name).text():
                top.at(name).refuse("is required, such as batch/v1 and Job")
        return top if isinstance(kind, str) and isinstance(value.get("apiVersion"), str) else None

    def _take_other_object(self, document: Document, top: Field, kind: str) -> None:
        self._check_object(top, OTHER_OBJECTS[kind])
        name = read_other_object(top, kind)
        if (kind, name) in self._others:
            top.at("metadata", "name").refuse(f"is the name of another {kind} in this file")
        self._others.setdefault((kind, name), document)

    def _take_claims(self, top: Field, claims: dict[str, Gpus | None]) -> None:
        if top.at("apiVersion").value != CLAIM_API:
            top.at("apiVersion").refuse(f"must be {CLAIM_API}")
        self._check_object(top)
        name = top.at("metadata", "name").text()
        if not name:
            top.at("metadata", "name").refuse("is required: Pods name the template by it")
        read_metadata(top.at("spec", "metadata"))
        if not top.at("spec").value:
            top.at("spec").refuse("is required: the devices that a claim has")
        found: list[Gpus] = []
        for request in top.at("spec", "spec", "devices", "requests").each():
            exactly = request.at("exactly")
            if request.at("firstAvailable").is_given or not exactly.is_given:
                request.refuse("must name its devices in `exactly`")
                self._has_unread_claims = True
                continue
            count = exactly.at("count").whole(1)
            if exactly.at("allocationMode").text() not in (None, "ExactCount"):
                exactly.at("allocationMode").refuse("must be ExactCount, with a count")
            if exactly.at("adminAccess").value:
                exactly.at("adminAccess").refuse("reaches the devices of others; leave it out")
            device_class = exactly.at("deviceClassName").text()
            if device_class:
                self._device_classes.add(device_class)
            else:
                exactly.at("deviceClassName").refuse("is required: the class of its devices")
            if device_class and is_gpu(device_class):
                found.append(Gpus(device_class, 1 if count is None else count, is_claim=True))
        if len(found) > 1:
            top.at("spec").refuse("claims GPUs in several requests; write one with a count")
        claims[name or ""] = found[0] if found else None

    def _take(self, document: Document, top: Field, claims: Mapping[str, Gpus | None]) -> None:
        group, name = _kind_of(top)
        kind = KINDS.get((group, name))
        if kind is None:
            top.at("kind").refuse(_unknown(group, name))
            return
        if top.at("apiVersion").value != kind.api_version:
            top.at("apiVersion").refuse(f"must be {kind.api_version}")
        marks = self._check_object(top)
        if name == "Pod" and POD_GROUP in marks:
            pod = GroupedPod(document, top, marks)
            self._groups.setdefault(marks[POD_GROUP][:NAME_MAX], []).append(pod)
            return
        read = read_volcano_job if group == VOLCANO else None
        if name == LEADER_WORKER_SET:
            read = read_leader_workers
        if read is not None:
            self._take_as_jobset(read(document, top, claims, self._findings), top, marks)
            return
        shape = kind.read(top, claims, marks)
        job = self._add(document, top, shape, marks, kind.api_version, not kind.refusal)
        if kind.refusal:
            top.at("kind").refuse(_kind_refusal(job, kind))
        else:
            self._check_sizes(top, job)

    def _take_group(
        self, name: str, pods: list[GroupedPod], claims: Mapping[str, Gpus | None]
    ) -> None:
        group = read_pod_group(name, pods, claims, self._findings)
        job = self._add(group.document, group.field, group.shape, group.marks, JOBSET_API)
        self._check_sizes(group.field, job)

    def _take_as_jobset(self, made: AsJobSet, top: Field, marks: dict[str, str]) -> None:
        if made.priority_class is not None:
            marks.setdefault(PRIORITY, made.priority_class)
        job = self._add(made.document, made.field, made.shape, marks, JOBSET_API)
        self._jobs[-1] = replace(job, origin=made.origin, host_files=made.host_files)
        self._check_sizes(top, job)

    def _add(
        self,
        document: Document,
        top: Field,
        shape: Shape,
        marks: Mapping[str, str],
        api_version: str,
        is_run: bool = True,
    ) -> ManifestJob:
        job = ManifestJob(
            document=document,
            field=top,
            api_version=api_version,
            kind=_kind_of(top)[1],
            name=_job_name(top),
            pod_sets=shape.pod_sets,
            is_run=is_run,
            time_limit_s=_limit_of(top, marks, shape.time_limit_s),
            priority_class=marks.get(PRIORITY) or _pod_priority(shape.pod_sets),
            device_classes=frozenset(self._device_classes),
            kinds_of_others=frozenset(kind for kind, _ in self._others),
            group=marks.get(POD_GROUP),
        )
        self._jobs.append(job)
        return job

    def _check_sizes(self, top: Field, job: ManifestJob) -> None:
        """Refuse a job of no GPUs, or one whose Pods with GPUs differ: quotas count equal nodes."""
        if not job.pod_sets or self._has_unread_claims:
            return
        sizes = {one.needs.gpus for one in job.holders}
        if not sizes:
            top.at("spec").refuse(
                "asks for no GPUs; write resources.limits such as nvidia.com/gpu: 1, or give the "
                "job as a script for a pool of CPU cores"
            )
        elif len(sizes) > 1:
            listed = ", ".join(
                f"{one.count} x {one.needs.gpus.units} {one.needs.gpus.name}"
                for one in job.holders
                if one.needs.gpus is not None
            )
            top.at("spec").refuse(
                f"has Pods with different GPUs ({listed}); give all Pods that have GPUs as many"
            )
        for name in ("required_topology", "preferred_topology"):
            wanted = {getattr(one.needs, name) for one in job.holders}
            if len(wanted) > 1:
                top.at("spec").refuse("has Pods with different topologies; give all the same")

    def _check_object(self, top: Field, known: frozenset[str] = _TOP) -> dict[str, str]:
        """Check the parts that every object has, and return its labels and annotations."""
        for name, part in top.items():
            if name == "status":
                part.ignore("the cluster writes it")
            elif name not in known:
                part.refuse("is no field of such an object; remove it")
        metadata = top.at("metadata")
        if (given := metadata.at("name").text()) and not _NAME.fullmatch(given):
            metadata.at("name").refuse("must be in lower case, of letters, digits, '-' and '.'")
        is_pod = top.at("kind").value == "Pod"
        marks = _MARKS_OF_PODS if is_pod else frozenset()
        if is_pod and metadata.at("labels", POD_GROUP).is_given:
            marks |= GROUP_MARKS
        return read_metadata(metadata, is_pod=is_pod, known=marks)


def _kind_of(top: Field) -> tuple[str, str]:
    """Return the group of its apiVersion, "" for the core one, and its kind."""
    group, slash, _ = str(top.at("apiVersion").value).partition("/")
    return (group if slash else ""), str(top.at("kind").value)


def _unknown(group: str, name: str) -> str:
    if (group, name) == ("", "PersistentVolumeClaim"):
        return (
            "is not taken beside a job; create it in the team's namespace with kubectl, and name "
            "it in the Pods"
        )
    return (
        f"{name[:_SHOWN_MAX]} of {group[:_SHOWN_MAX] or 'v1'} is no kind of job; jobs are "
        f"{_LISTED_KINDS}, with ResourceClaimTemplates, ConfigMaps, Secrets and Services beside "
        "them"
    )


def _kind_refusal(job: ManifestJob, kind: Kind) -> str:
    """Return why the kind is not run, with the size that was read."""
    if job.gpus is None:
        return kind.refusal
    each = f"{job.gpus.units} {job.gpus.name}"
    return f"{kind.refusal}. It has {job.nodes} Pods with {each} each"


def _job_name(top: Field) -> str | None:
    metadata = top.at("metadata")
    name = metadata.at("name").text() or (metadata.at("generateName").text() or "").rstrip("-.")
    return name or None


def _limit_of(top: Field, marks: Mapping[str, str], own_s: int | None) -> int | None:
    """Return the shorter of the object's own limit and the one that is for Kueue."""
    text = marks.get(MAX_SECONDS)
    if text is None:
        return own_s
    mark = top.at("metadata", "labels", MAX_SECONDS)
    if not text.isdecimal() or not 0 < len(text) <= 9 or int(text) == 0:
        mark.refuse("must be a number of seconds")
        return own_s
    mark.note(f"the time limit of the job is at most {duration_of_seconds(int(text))}")
    return int(text) if own_s is None else min(own_s, int(text))


def _pod_priority(pod_sets: tuple[PodSet, ...]) -> str | None:
    names = {one.needs.priority_class for one in pod_sets}
    return next(iter(sorted(filter(None, names))), None)

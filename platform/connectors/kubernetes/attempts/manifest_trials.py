"""Asks a cluster what it would refuse of a manifest, before a job of it is queued.

The API server judges the objects of an attempt, and each of its Pods, as if they were created now
(`dryRun=All`). Nothing is stored. Questions that the portal's account may not ask stay open, and
the answer names them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from connectors.errors import ConnectorError, WorkloadRejected
from connectors.kinds import ManifestTrial, TrialFinding
from connectors.kubernetes.attempts.submitting import is_passing
from connectors.kubernetes.client.api import (
    AlreadyExists,
    Cause,
    Forbidden,
    KubeApi,
    KubeRefused,
    NotFound,
)
from connectors.kubernetes.manifests.building import WorkloadObjects, objects_for
from connectors.kubernetes.manifests.namespace_needs import (
    Named,
    Shortage,
    at_path,
    named_in,
    requests_of,
    security_advice,
    shortages,
)
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.reading import Object, Odd, part, parts, text
from connectors.kubernetes.objects.resources import (
    CLUSTER_TRAINING_RUNTIME,
    NODE,
    POD,
    RESOURCE_QUOTA,
    SECRET,
    TRAINING_RUNTIME,
    VOLUME_CLAIM,
    Resource,
    resource_of,
)
from connectors.kubernetes.options.options import parse_options
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.protocol import Workload
from manifests.documents import Path
from manifests.fields import quantity_of
from manifests.jobs import ManifestJob, Origin, PodSet
from manifests.operators import INITIALIZERS, TRAINER_NODE
from manifests.reading import read_manifest

#: Seconds for which an answer may be silent, and after which no further question is asked.
ANSWER_S = 3.0
WHOLE_TRIAL_S = 6.0
#: The most objects that are looked for by name.
NAMED_MAX = 20
_SAID_MAX = 900
_NO_NAMESPACE = (
    "its team has no namespace there yet; an administrator pushes the quotas to the cluster"
)


def try_manifest(
    options: Mapping[str, Any], cluster_id: str, workload: Workload, within_s: float = WHOLE_TRIAL_S
) -> ManifestTrial:
    """Return what the cluster would refuse of the manifest `workload`, or cannot check.

    It takes `within_s` seconds at most, and never more than WHOLE_TRIAL_S. Raises ValueError for
    options that cannot be used.
    """
    checked = parse_options(options)
    job = read_manifest(workload.script).job
    try:
        objects = objects_for(workload, checked, cluster_id=cluster_id)
    except WorkloadRejected as error:
        return ManifestTrial((TrialFinding((), str(error)),))
    if job is None:
        return ManifestTrial()
    api = KubeApi(
        kubeconfig=checked.kubeconfig,
        context=checked.context,
        read_s=ANSWER_S,
        write_s=ANSWER_S,
        lasts_s=min(WHOLE_TRIAL_S, within_s),
    )
    try:
        trial = _Trial(api, job, objects, checked.pools[workload.pool], checked.other_resources)
        return trial.answer()
    finally:
        api.close()


class _Trial:
    def __init__(
        self,
        api: KubeApi,
        job: ManifestJob,
        objects: WorkloadObjects,
        pool: KubernetesPool,
        other_resources: Collection[str],
    ) -> None:
        self._api = api
        self._pool = pool
        self._other_resources = other_resources
        self._job = job
        self._objects = objects
        self._namespace = str(objects.main["metadata"]["namespace"])
        self._findings: list[TrialFinding] = []
        self._unchecked: dict[str, None] = {}
        self._ends_s = time.monotonic() + WHOLE_TRIAL_S

    def answer(self) -> ManifestTrial:
        """Return what is found until a question fails, and how that failed."""
        try:
            self._ask()
        except (ConnectorError, Odd) as error:
            self._unchecked[str(error)[:_SAID_MAX]] = None
        return ManifestTrial(tuple(self._findings), tuple(self._unchecked))

    def _ask(self) -> None:
        main = self._objects.main
        origin = self._job.origin
        if origin is not None and not self._serves(origin):
            self._refuse(
                (), f"it has no kind {origin.definition}: it is not installed; {origin.advice}"
            )
            return
        warnings = self._try_main(resource_of(main).collection(self._namespace), main)
        if warnings is not None:
            self._try_others()
            if self._job.kind == "TrainJob" and self._has_time():
                self._try_runtime(main)
            pods = [
                (self._pods_at_once(one), path)
                for one in self._job.pod_sets
                if (path := self._path_of(one.template))
            ]
            if len(pods) < len(self._job.pod_sets):
                self._unchecked["its runtime describes the Pods, which were not tried"] = None
            admitted = [
                (count, pod)
                for count, path in pods
                if self._has_time() and (pod := self._try_pod(path, warnings)) is not None
            ]
            self._try_limits(admitted)
            self._try_nodes([pod for _, pod in admitted])
            self._try_named([path for _, path in pods])

    def _serves(self, origin: Origin) -> bool:
        """Return whether the cluster knows the kind in the file of the job."""
        try:
            known = self._api.get(f"/apis/{origin.api_version}")
        except NotFound:
            return False
        return origin.plural in {text(one, "name") for one in parts(known, "resources")}

    def _pods_at_once(self, pods: PodSet) -> int:
        """Return how many Pods of the set run at once. An elastic one has what others leave."""
        granted = naming.manifest_pods(self._objects.main)
        if pods.count_min is None or granted is None:
            return pods.count
        return granted - (self._job.nodes - pods.count)

    def _try_runtime(self, main: Object) -> None:
        """Look for Jobs in the runtime of a TrainJob whose Pods would get no marks."""
        ref = part(main, "spec", "runtimeRef")
        name = text(ref, "name")
        path = f"{CLUSTER_TRAINING_RUNTIME.collection()}/{quote(name, safe='')}"
        if ref.get("kind") == TRAINING_RUNTIME.kind:
            path = TRAINING_RUNTIME.path(self._namespace, quote(name, safe=""))
        try:
            runtime = self._api.get(path)
        except Forbidden:
            self._unchecked[
                "the portal's account may not read its runtime; an administrator applies role.yaml "
                "of this version"
            ] = None
            return
        known = {TRAINER_NODE, *INITIALIZERS.values()}
        for job in parts(runtime, "spec", "template", "spec", "replicatedJobs"):
            if text(job, "name") not in known:
                self._refuse(
                    ("spec", "runtimeRef"),
                    f"runtime {name} has a Job {text(job, 'name')}, whose Pods the portal cannot "
                    f"hold; name a runtime with no other Jobs than {', '.join(sorted(known))}",
                )

    def _path_of(self, template: Path) -> Path:
        """Return the path of the Pods' template in the object; () for a kind without one."""
        return ("spec", "template") if self._job.kind == "Pod" else template

    def _in_document(self, path: Path) -> Path:
        """Return the path in the document of the job for `path` in the object."""
        is_job_of_pod = self._job.kind == "Pod" and path[:2] == ("spec", "template")
        return path[2:] if is_job_of_pod else path

    def _refuse(self, path: Path, detail: str, *, is_refusal: bool = True) -> None:
        told = detail[:_SAID_MAX]
        self._findings.append(TrialFinding(self._in_document(path), told, is_refusal))

    def _has_time(self) -> bool:
        if time.monotonic() < self._ends_s:
            return True
        self._unchecked[f"the cluster took longer than {WHOLE_TRIAL_S:g} s to answer"] = None
        return False

    def _try_main(self, path: str, main: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the server's warnings about the object; None where it is refused."""
        try:
            return self._api.try_create(path, main)[1]
        except NotFound as error:
            if error.message == f'namespaces "{self._namespace}" not found':
                self._unchecked[_NO_NAMESPACE] = None
            else:
                self._refuse((), f"it has no kind {main['kind']}: its operator is not installed")
        except KubeRefused as error:
            self._take_refusal(error, ())
        return None

    def _try_others(self) -> None:
        """Try the objects that are created with the main one."""
        for other in self._objects.others:
            if not self._has_time():
                return
            try:
                self._api.try_create(resource_of(other).collection(self._namespace), other)
            except Forbidden as error:
                if not (error.is_for_all and resource_of(other) is SECRET):
                    self._take_refusal(error, ())
                    continue
                self._refuse(
                    (),
                    "the portal's account may not create Secrets there; an administrator applies "
                    "secrets-role.yaml",
                )
            except KubeRefused as error:
                for cause in error.causes or (Cause("", "", error.message),):
                    self._refuse((), f"{other['kind']}: {_field_of(cause, ())[1]}")

    def _take_refusal(self, error: KubeRefused, path: Path) -> None:
        """Add a refusal, at the fields that it names."""
        if isinstance(error, Forbidden) and error.is_for_all:
            self._unchecked[f"the portal's account may not ask: {error.message}"] = None
        elif is_passing(error):
            self._refuse(path, f"at present: {error.message}", is_refusal=False)
        elif error.causes:
            for cause in error.causes:
                at, said = _field_of(cause, path)
                self._refuse(at, said)
        else:
            self._refuse(path, security_advice(error.message) or error.message)

    def _try_pod(self, path: Path, warnings: tuple[str, ...]) -> Object | None:
        """Return the spec of a Pod of the template at `path` as the cluster would store it.

        The rules of a namespace hold for Pods: an object that creates them later passes.
        """
        template = at_path(self._objects.main, path)
        pod = {
            "apiVersion": POD.api_version,
            "kind": POD.kind,
            "metadata": {
                **(template.get("metadata") or {}),
                "name": f"{self._objects.main['metadata']['name']}-trial",
                "namespace": self._namespace,
            },
            "spec": {"restartPolicy": "Never", **template["spec"]},
        }
        try:
            found, _ = self._api.try_create(POD.collection(self._namespace), pod)
        except Forbidden as error:
            if is_passing(error):
                # The limits of the namespace tell whether it passes, and for which resource.
                return template["spec"]  # type: ignore[no-any-return]
            if not error.is_for_all:
                self._take_refusal(error, (*path, "spec"))
                return None
            self._unchecked[
                "the portal's account may not try Pods there; an administrator applies role.yaml "
                "of this version"
            ] = None
            for advice in filter(None, map(security_advice, warnings)):
                self._refuse((*path, "spec"), advice)
            return template["spec"]  # type: ignore[no-any-return]
        except KubeRefused as error:
            self._take_refusal(error, (*path, "spec"))
            return None
        return at_path(found, ("spec",))

    def _try_limits(self, pods: list[tuple[int, Object]]) -> None:
        if not pods or not self._has_time():
            return
        quotas = self._api.list(RESOURCE_QUOTA.collection(self._namespace)).items
        for one in shortages(quotas, pods):
            self._refuse(("spec",), _shortage(one), is_refusal=one.is_for_ever)

    def _try_nodes(self, pods: list[Object]) -> None:
        """Look for a node of the pool with the resources beside GPUs that a Pod asks for."""
        wanted = {
            name: amount
            for pod in pods
            for name, amount in requests_of(pod).items()
            if name in self._other_resources and amount
        }
        if not wanted or not self._has_time():
            return
        labels = ",".join(f"{name}={value}" for name, value in self._pool.node_selector.items())
        nodes = self._api.list(NODE.collection(), labels=labels).items
        for name, amount in wanted.items():
            if not any(
                (quantity_of(part(node, "status", "allocatable").get(name, 0)) or 0) >= amount
                for node in nodes
            ):
                self._refuse(
                    ("spec",),
                    f"no node of pool {self._pool.name} shows {amount:f} {name}; the Pods wait "
                    "until one does",
                    is_refusal=False,
                )

    def _try_named(self, paths: list[Path]) -> None:
        """Look for the objects that the Pods name."""
        own = {(one["kind"], one["metadata"]["name"]) for one in self._objects.others}
        named: dict[tuple[Resource, str], Named] = {}
        for path in paths:
            for one in named_in(at_path(self._objects.main, (*path, "spec")), (*path, "spec")):
                if (one.kind.kind, one.name) not in own:
                    named.setdefault((one.kind, one.name), one)
        for one in list(named.values())[:NAMED_MAX]:
            if not self._has_time():
                return
            if self._is_there(one) is False:
                advice = "name another"
                if one.kind is not VOLUME_CLAIM:
                    advice = "write `optional: true` if the Pods can do without"
                self._refuse(
                    one.path,
                    f"the team's namespace {self._namespace} has no {one.kind.kind} {one.name}; "
                    f"create it there, or {advice}",
                )

    def _is_there(self, one: Named) -> bool | None:
        """Return whether the object exists; None where that cannot be asked."""
        try:
            if one.kind is SECRET:
                return self._has_secret(one.name)
            self._api.get(one.kind.path(self._namespace, one.name))
        except NotFound:
            return False
        except Forbidden:
            self._unchecked[f"the portal's account may not look for {one.kind.kind} {one.name}"] = (
                None
            )
            return None
        return True

    def _has_secret(self, name: str) -> bool | None:
        """Return whether the Secret exists. Its content is never read.

        Where there is one, the server refuses to create another of its name.
        """
        metadata = {"name": name, "namespace": self._namespace}
        body = {"apiVersion": SECRET.api_version, "kind": SECRET.kind, "metadata": metadata}
        try:
            self._api.try_create(SECRET.collection(self._namespace), body)
        except AlreadyExists:
            return True
        except Forbidden as error:
            if not error.is_for_all:
                # A ResourceQuota of Secrets is full, whatever their names.
                return None
            raise
        return False


def _field_of(cause: Cause, path: Path) -> tuple[Path, str]:
    """Return the path in the object that a cause names, below the spec at `path`, and its text."""
    steps: list[str | int] = []
    for step in _steps(cause.field):
        steps.append(int(step) if step.isdecimal() else step)
    inner = steps[1:] if path and steps[:1] == ["spec"] else steps
    return (*path, *inner), f"{cause.field}: {cause.message}" if cause.field else cause.message


def _steps(field: str) -> Iterator[str]:
    for name in field.replace("]", "").split("."):
        yield from (step for step in name.split("[") if step)


def _shortage(one: Shortage) -> str:
    left = f"of {one.resource} the Pods need {one.needed:f} at once, and ResourceQuota {one.quota}"
    if one.is_for_ever:
        return f"{left} of the namespace allows {one.hard:f}; ask for less, or have it raised"
    return f"{left} of the namespace has {one.left:f} left now; the Pods come as others end"

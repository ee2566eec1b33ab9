"""Translates an attempt of a manifest job into objects. Pure.

The objects are those that the person wrote. The portal sets the namespace, the queue, its marks,
the suspension and the place of the Pods. It also fills in what Pod Security `restricted` demands
and the manifest leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.manifests.asking import asked_of_pods
from connectors.kubernetes.manifests.host_files import host_files, host_files_name
from connectors.kubernetes.manifests.manifest_places import place_on
from connectors.kubernetes.manifests.operator_objects import (
    patch_runtime,
    prepare_operator_object,
    template_of_runtime,
)
from connectors.kubernetes.manifests.pod_template import TTL_S, kueue_labels, metadata, pool_of
from connectors.kubernetes.manifests.services import renamed_services, service_spec
from connectors.kubernetes.nodes.features import REQUIRED, without_nodes
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.resources import CLAIM_TEMPLATE, CONFIG_MAP, JOB, resource_of
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.protocol import Workload
from manifests.documents import Path
from manifests.jobs import ManifestJob, PodSet
from manifests.kinds import MAX_SECONDS, MIN_PARALLELISM
from manifests.pods import PRIORITY, QUEUE, is_of_job_controller
from manifests.reading import Manifest, read_manifest
from manifests.services import SERVICE
from manifests.volcano_plugins import HOST_FILES

#: The annotation with which the completions of an elastic Job follow its parallelism.
_EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
_REPLACED = frozenset({QUEUE, PRIORITY, MIN_PARALLELISM, MAX_SECONDS, _EQUAL, naming.MANAGED_BY})
#: Fields of Pods that the cluster or the portal decides.
_OF_THE_CLUSTER = (
    "priority",
    "priorityClassName",
    "schedulerName",
    "serviceAccount",
    "serviceAccountName",
)
_TOPOLOGY = "kueue.x-k8s.io/podset-"
#: By kind: how the host name of a Pod continues after the name of its object.
_HOSTS = {
    "JobSet": "-(?:{jobs})-[0-9]+-[0-9]+",
    "PyTorchJob": "-(?:master|worker)-[0-9]+",
    "MPIJob": "-(?:launcher|worker-[0-9]+)",
    "TrainJob": "-(?:{jobs})-[0-9]+-[0-9]+",
}
Json = dict[str, Any]


def manifest_objects(
    workload: Workload, options: KubernetesOptions, cluster_id: str
) -> tuple[Json, tuple[Json, ...]]:
    """Return the suspended object of a manifest job, and the objects that are created with it.

    Raises WorkloadRejected, saying what to change.
    """
    manifest = read_manifest(workload.script)
    job = manifest.job
    if job is None or not manifest.is_accepted:
        refusals = [f"{one.where}: {one.detail}" for one in manifest.refusals[:3]]
        raise WorkloadRejected("; ".join(refusals) or "the manifest is no single job")
    pool = pool_of(workload, options)
    if refusal := place_on(options, workload.pool, job).refusal:
        raise WorkloadRejected(refusal)
    pods_at_once = _pods_of(workload, job, pool)
    claims = {
        str(one.value["metadata"]["name"]): f"{naming.workload_name(workload.key)}-claim-{number}"
        for number, one in enumerate(manifest.claims)
    }
    other_names = {
        (str(one.value["kind"]), str(one.value["metadata"]["name"])): (
            f"{naming.workload_name(workload.key)}-beside-{number}"
        )
        for number, one in enumerate(manifest.other_objects)
    }
    if job.host_files:
        other_names[CONFIG_MAP.kind, HOST_FILES] = host_files_name(workload)
    item: Json = _copied(job.document.value)
    _part(item, "metadata")
    if job.kind == "Pod":
        item = _job_of_pod(item)
    counts = _counts(job, pods_at_once)
    if job.kind in ("Job", "JobSet", "Pod"):
        _set_counts(item, counts, job)
        item["spec"]["ttlSecondsAfterFinished"] = TTL_S
    else:
        prepare_operator_object(item, job, counts)
    templates = _templates(item, job)
    for pods in job.pod_sets:
        _Template(workload, options, cluster_id, pool, claims).fill(templates[pods.name], pods)
        if SERVICE in job.kinds_of_others:
            marks = templates[pods.name]["metadata"]["labels"]
            marks[naming.OF_ATTEMPT] = naming.workload_name(workload.key)
        _rename_sources(templates[pods.name]["spec"], other_names)
    if job.kind == "JobSet":
        for replicated in item["spec"]["replicatedJobs"]:
            _keep_marks(replicated["template"])
    if job.kind == "TrainJob":
        _rename_sources(item["spec"], other_names)
        patch_runtime(item, templates)
    renamed_hosts = _renamed_hosts(job, naming.workload_name(workload.key))
    _rewrite(item, job, renamed_hosts)
    _rename_services(item, job, other_names, naming.team_namespace(workload.team))
    suspended = item
    *path, last = resource_of(item).suspend_at
    for step in path:
        suspended = _part(suspended, step)
    suspended[last] = True
    counted = [(counts[one.name], templates[one.name]) for one in job.pod_sets]
    item["metadata"] = metadata(
        workload,
        cluster_id,
        labels=_labels(item, workload),
        annotations={
            **_others(item["metadata"].get("annotations")),
            naming.MANIFEST: str(pods_at_once),
            naming.ASKED: asked_of_pods(counted, options.pools),
        },
    )
    others = (
        *_claim_templates(workload, cluster_id, manifest, claims),
        *_other_objects(workload, cluster_id, manifest, other_names, tuple(templates.values())),
        *host_files(workload, cluster_id, job, renamed_hosts),
    )
    return item, others


def _pods_of(workload: Workload, job: ManifestJob, pool: KubernetesPool) -> int:
    """Return how many Pods hold the GPUs of the slots. A slot may be for several Pods.

    Raises WorkloadRejected if that is no number that the manifest allows.
    """
    assert job.gpus is not None
    each_mgpu = job.gpus.units * pool.mgpu_per_unit
    pods, rest = divmod(sum(slot.mgpu for slot in workload.slots), each_mgpu)
    if rest or not job.nodes_min <= pods <= job.nodes:
        raise WorkloadRejected(
            "the GPUs of its Pods have another size on this cluster than when it was submitted; "
            "submit it anew"
        )
    return pods


def _copied(value: Any) -> Any:
    """Return a copy in which no part is shared, as parts behind aliases are in the original."""
    if isinstance(value, dict):
        return {name: _copied(one) for name, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value


def _job_of_pod(pod: Json) -> Json:
    """Return the Job that runs a single Pod once."""
    spec = pod["spec"]
    if spec.get("restartPolicy") != "OnFailure":
        spec["restartPolicy"] = "Never"
    spec.pop("activeDeadlineSeconds", None)
    marks = {name: pod["metadata"].get(name) or {} for name in ("labels", "annotations")}
    topology = {
        name: value for name, value in marks["annotations"].items() if name.startswith(_TOPOLOGY)
    }
    template = {"metadata": {"labels": marks["labels"], "annotations": topology}, "spec": spec}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": pod["metadata"],
        "spec": {"backoffLimit": 0, "template": template},
    }


def _templates(item: Json, job: ManifestJob) -> dict[str, Json]:
    """Return the template of each Pod set by its name."""
    if job.kind == "TrainJob":
        return {one.name: template_of_runtime(item, one) for one in job.pod_sets}
    return {one.name: _at(item, _path_in(job, one)) for one in job.pod_sets}


def _path_in(job: ManifestJob, pods: PodSet) -> Path:
    return ("spec", "template") if job.kind == "Pod" else pods.template


def _at(item: Json, path: Path) -> Json:
    found: Any = item
    for step in path:
        found = found[step]
    return found  # type: ignore[no-any-return]


def _counts(job: ManifestJob, granted: int) -> dict[str, int]:
    """Return how many Pods of each set run at once.

    The elastic one of an elastic job has what the others leave of those that were granted.
    """
    counts = {one.name: one.count for one in job.pod_sets}
    for pods in job.pod_sets:
        if pods.count_min is not None:
            counts[pods.name] = granted - (job.nodes - pods.count)
    return counts


def _set_counts(item: Json, counts: Mapping[str, int], job: ManifestJob) -> None:
    """Set the number of Pods of an elastic Job, and an index for each Pod."""
    for pods in job.pod_sets:
        spec: Json = _at(item, _path_in(job, pods)[:-1])
        spec.pop("selector", None)
        if pods.total // pods.copies > 1:
            spec.setdefault("parallelism", 1)
            spec["completions"] = pods.total // pods.copies
            spec["completionMode"] = "Indexed"
        if pods.count_min is not None:
            spec["parallelism"] = counts[pods.name]
            marks = item["metadata"].get("annotations") or {}
            if marks.get(_EQUAL) == "true":
                spec["completions"] = spec["parallelism"]


def _labels(item: Json, workload: Workload) -> dict[str, str]:
    """Return the labels of the object: the person's, its queue and its longest run in Kueue."""
    limit = {} if workload.time_limit_s is None else {MAX_SECONDS: str(workload.time_limit_s)}
    return {**_others(item["metadata"].get("labels")), **kueue_labels(workload), **limit}


def _others(marks: Mapping[str, str] | None) -> dict[str, str]:
    """Return the labels or annotations without those that the portal sets."""
    return {
        name: value
        for name, value in (marks or {}).items()
        if name not in _REPLACED
        and not name.startswith(_TOPOLOGY)
        and not is_of_job_controller(name)
    }


def _keep_marks(part: Json) -> None:
    """Leave the person's labels and annotations in the metadata of a template, and nothing else."""
    if "metadata" in part:
        given = part["metadata"] or {}
        part["metadata"] = {
            name: _others(given[name]) for name in ("labels", "annotations") if name in given
        }


class _Template:
    """Fills in the templates of the Pods of one workload."""

    def __init__(
        self,
        workload: Workload,
        options: KubernetesOptions,
        cluster_id: str,
        pool: KubernetesPool,
        claims: Mapping[str, str],
    ) -> None:
        self._workload = workload
        self._options = options
        self._cluster_id = cluster_id
        self._pool = pool
        self._claims = claims

    def fill(self, template: Json, pods: PodSet) -> None:
        """Add our marks, the place and the demands of the namespace to `template`."""
        meta = template.get("metadata") or {}
        annotations = {naming.KEY: self._workload.key}
        if pods.ranks_from:
            annotations[naming.FIRST_RANK] = str(pods.ranks_from)
        if pods.copies > 1:
            annotations[naming.RANKS_OF_COPY] = str(pods.total // pods.copies)
        holds = pods.needs.gpus is not None
        known = {
            name: value
            for name, value in (meta.get("annotations") or {}).items()
            if not is_of_job_controller(name)
        }
        if holds and not any(name.startswith(_TOPOLOGY) for name in known):
            annotations |= _topology(self._pool)
        template["metadata"] = {
            "annotations": {**known, **annotations},
            "labels": {
                **_others(meta.get("labels")),
                **naming.labels(self._cluster_id, self._workload.team),
                naming.ROLE: naming.ROLE_RANK,
            },
        }
        spec: Json = template["spec"]
        for volume in spec.get("volumes") or ():
            if claim_template := ((volume or {}).get("ephemeral") or {}).get("volumeClaimTemplate"):
                _keep_marks(claim_template)
        self._secure(spec)
        if holds:
            self._place(spec)
        for claim in spec.get("resourceClaims") or ():
            claim["resourceClaimTemplateName"] = self._claims[claim["resourceClaimTemplateName"]]

    def _secure(self, spec: Json) -> None:
        """Fill in what Pod Security demands, and whose identity the Pods have."""
        options = self._options
        for name in _OF_THE_CLUSTER:
            spec.pop(name, None)
        if options.service_account is not None:
            spec["serviceAccountName"] = options.service_account
        spec["automountServiceAccountToken"] = False
        if options.pull_secrets:
            known = list(spec.get("imagePullSecrets") or ())
            spec["imagePullSecrets"] = [*known, *({"name": one} for one in options.pull_secrets)]
        if spec.get("terminationGracePeriodSeconds") is None:
            spec["terminationGracePeriodSeconds"] = max(1, self._workload.grace_s)
        security = _part(spec, "securityContext")
        _set_if_absent(security, "runAsNonRoot", True)
        _set_if_absent(security, "seccompProfile", {"type": "RuntimeDefault"})
        if security.get("runAsUser") is None:
            security["runAsUser"] = options.run_as_user
            _set_if_absent(security, "runAsGroup", options.run_as_user)
            _set_if_absent(security, "fsGroup", options.run_as_user)
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            own = _part(container, "securityContext")
            _set_if_absent(own, "allowPrivilegeEscalation", False)
            _part(own, "capabilities")["drop"] = ["ALL"]

    def _place(self, spec: Json) -> None:
        """Send Pods with GPUs to the nodes of their pool."""
        pool = self._pool
        if pool.node_selector:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **pool.node_selector}
        if pool.tolerations:
            known = list(spec.get("tolerations") or ())
            spec["tolerations"] = [*known, *(dict(one) for one in pool.tolerations)]
        if pool.runtime_class is not None:
            spec["runtimeClassName"] = pool.runtime_class
        if self._workload.closed_nodes:
            required = _part(_part(_part(spec, "affinity"), "nodeAffinity"), REQUIRED)
            required["nodeSelectorTerms"] = without_nodes(
                required.get("nodeSelectorTerms") or (), self._workload.closed_nodes
            )


def _set_if_absent(item: Json, name: str, value: Any) -> None:
    """Set the field unless the file gives it. A field that is null counts as absent."""
    if item.get(name) is None:
        item[name] = value


def _part(item: Json, name: str) -> Json:
    """Return the mapping `name` of `item`, made if there is none."""
    found: Json = item.get(name) or {}
    item[name] = found
    return found


def _topology(pool: KubernetesPool) -> dict[str, str]:
    """Return the annotations for the pool's own topology, which the administrator chose."""
    if pool.required_topology is not None:
        return {f"{_TOPOLOGY}required-topology": pool.required_topology}
    if pool.preferred_topology is not None:
        return {f"{_TOPOLOGY}preferred-topology": pool.preferred_topology}
    return {}


def _claim_templates(
    workload: Workload, cluster_id: str, manifest: Manifest, names: Mapping[str, str]
) -> list[Json]:
    found = []
    for one in manifest.claims:
        spec = _copied(one.value["spec"])
        _keep_marks(spec)
        name = names[str(one.value["metadata"]["name"])]
        found.append(
            {
                "apiVersion": CLAIM_TEMPLATE.api_version,
                "kind": CLAIM_TEMPLATE.kind,
                "metadata": metadata(workload, cluster_id, name=name),
                "spec": spec,
            }
        )
    return found


def _other_objects(
    workload: Workload,
    cluster_id: str,
    manifest: Manifest,
    names: Mapping[tuple[str, str], str],
    templates: Collection[Json],
) -> list[Json]:
    """Return the ConfigMaps, Secrets and Services of the file. Each attempt has its own."""
    found = []
    for one in manifest.other_objects:
        item = _copied(one.value)
        name = names[str(item["kind"]), str(item["metadata"]["name"])]
        if item["kind"] == SERVICE:
            given = None if manifest.job is None else manifest.job.name
            here = naming.workload_name(workload.key)
            item["spec"] = service_spec(item, templates, given=given, here=here)
        found.append({**item, "metadata": metadata(workload, cluster_id, name=name)})
    return found


#: The parts of a Pod that name a ConfigMap or a Secret: the kind, and the field with the name.
_SOURCES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    **dict.fromkeys(("configMap", "configMapRef", "configMapKeyRef"), ("ConfigMap", ("name",))),
    **dict.fromkeys(("secretRef", "secretKeyRef"), ("Secret", ("name",))),
    # A volume has secretName, and a projected source has name.
    "secret": ("Secret", ("secretName", "name")),
}


def _rename_sources(part: Any, names: Mapping[tuple[str, str], str]) -> None:
    """Write the names that the ConfigMaps and Secrets of the file have here."""
    if isinstance(part, list):
        for one in part:
            _rename_sources(one, names)
    elif isinstance(part, dict):
        for key, one in part.items():
            if key in _SOURCES and isinstance(one, dict):
                kind, fields = _SOURCES[key]
                for field in fields:
                    if (kind, one.get(field)) in names:
                        one[field] = names[kind, one[field]]
            _rename_sources(one, names)


def _renamed_hosts(job: ManifestJob, name: str) -> Callable[[str], str]:
    """Return what writes `name`, the object's name here, into the names of hosts in a text.

    A host is the object's name with an ending of its kind. Some are in the subdomain of that name.
    """
    ending = _HOSTS.get(job.kind)
    if job.name is None or ending is None:
        return str
    jobs = "|".join(re.escape(one.name) for one in job.pod_sets)
    host = re.compile(
        rf"(?<![\w.-]){re.escape(job.name)}({ending.format(jobs=jobs)})"
        rf"(?:\.({re.escape(job.name)}))?(?![\w-])"
    )

    return lambda text: host.sub(
        lambda found: f"{name}{found[1]}{f'.{name}' if found[2] else ''}", text
    )


def _rename_services(
    item: Json, job: ManifestJob, names: Mapping[tuple[str, str], str], namespace: str
) -> None:
    """Write the names that the Services of the file have here where its Pods name them."""
    renamed = renamed_services(names, namespace)
    if renamed is None:
        return
    _rewrite(item, job, renamed)
    specs = (
        [] if job.kind == "TrainJob" else [one["spec"] for one in _templates(item, job).values()]
    )
    network = item["spec"].get("network") if job.kind == "JobSet" else None
    for one in (*specs, *([network] if isinstance(network, dict) else ())):
        # The cluster refuses one of another type.
        if isinstance(subdomain := one.get("subdomain"), str):
            one["subdomain"] = names.get((SERVICE, subdomain), subdomain)


def _rewrite(item: Json, job: ManifestJob, renamed: Callable[[str], str]) -> None:
    """Change the words of commands, arguments and variables of the job's containers."""
    for container in _containers(item, job):
        for member in ("command", "args"):
            if member in container:
                container[member] = _mapped(container[member], renamed)
        for variable in container.get("env") or ():
            if isinstance(variable.get("value"), str):
                variable["value"] = renamed(variable["value"])


def _containers(item: Json, job: ManifestJob) -> Iterator[Json]:
    """Yield the containers of the Pods of `job`."""
    if job.kind == "TrainJob":
        yield item["spec"]["trainer"]
        return
    for pods in job.pod_sets:
        spec = _at(item, _path_in(job, pods))["spec"]
        yield from (*(spec.get("initContainers") or ()), *spec["containers"])


def _mapped(words: Any, change: Callable[[str], str]) -> Any:
    if not isinstance(words, list):
        # The cluster refuses another type.
        return words
    return [change(one) if isinstance(one, str) else one for one in words]

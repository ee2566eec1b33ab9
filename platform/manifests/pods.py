"""The requests of the Pods of one template, and their fields that no team may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from manifests.devices import Gpus, is_gpu, is_native
from manifests.fields import Field

CONTAINERS_MAX = 20
#: Volumes that Pod Security "restricted" allows.
_VOLUMES = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"),
        *("projected", "secret", "name"),
    }
)
_NO_HOST = ("hostNetwork", "hostPID", "hostIPC")
_REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
_PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
#: Prefixes of labels and annotations that controllers and the portal alone may write.
_OF_OTHERS = ("kueue.x-k8s.io/", "jobset.sigs.k8s.io/")
_META = frozenset({"name", "generateName", "namespace", "labels", "annotations"})
_OF_SERVER = frozenset(
    {
        *("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"),
        "selfLink",
    }
)
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """The request of each Pod of a template.

    `gpus` is None for a Pod without GPUs. `cpu_milli` and `memory_mib` are None where the Pod does
    not say. `images` are those of all containers, the main one's first. `required_topology` and
    `preferred_topology` are labels of nodes. `devices` are the resources that belong to
    devices, and `variables` the names in its environment.
    """

    gpus: Gpus | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    images: tuple[str, ...] = ()
    restart_policy: str | None = None
    priority_class: str | None = None
    required_topology: str | None = None
    preferred_topology: str | None = None
    devices: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    runtime_class: str | None = None


#: By the name of a ResourceClaimTemplate: the GPUs that a claim of it has.
Claims = Mapping[str, Gpus | None]


def read_template(template: Field, claims: Claims) -> PodNeeds:
    """Return what the Pods of `template` ask for. Refusals are added to its findings."""
    labels = read_metadata(template.at("metadata"), is_pod=True)
    return read_pod_spec(template.at("spec"), claims, labels)


def is_of_job_controller(mark: str) -> bool:
    """Return whether the cluster's Job controller writes this label or annotation."""
    return mark in ("controller-uid", "job-name") or mark.startswith("batch.kubernetes.io/")


def read_metadata(
    metadata: Field, *, is_pod: bool = False, known: frozenset[str] = frozenset()
) -> dict[str, str]:
    """Check the metadata of an object or template, and return labels and annotations together.

    Owners, finalizers and marks of the portal are refused. A queue, and fields that a
    cluster wrote into an object that was read from it, are ignored. The marks in `known` pass.
    """
    for name, part in metadata.items():
        if name in _OF_SERVER:
            part.ignore("the cluster writes it")
        elif name == "namespace":
            part.ignore("the job runs in the namespace of its team")
        elif name not in _META:
            part.refuse("is not taken from a manifest; remove it")
    found: dict[str, str] = {}
    for name in ("labels", "annotations"):
        marks = metadata.at(name)
        found |= marks.texts()
        for key, mark in marks.items():
            if key not in known:
                _check_mark(key, mark, is_pod=is_pod)
    return found


TOPOLOGY_MARKS = "kueue.x-k8s.io/podset-"
#: Marks of Kueue that the portal reads on the object itself.
_READ_OF_KUEUE = frozenset(
    {
        *(PRIORITY, "kueue.x-k8s.io/job-min-parallelism"),
        *("kueue.x-k8s.io/job-completions-equal-parallelism",),
        "kueue.x-k8s.io/max-exec-time-seconds",
    }
)


def check_added_marks(marks: Field) -> None:
    """Refuse what only the portal and controllers write, in marks that an operator adds.

    The operator puts them over those of the portal, so none is merely left out.
    """
    marks.texts()
    for key, mark in marks.items():
        if (
            key.partition("/")[0].endswith("tidegate.io")
            or key == _MANAGED_BY
            or is_of_job_controller(key)
            or key.startswith(_OF_OTHERS)
        ):
            mark.refuse("is written by a controller or by the portal; leave it out")


_ELASTIC = "kueue.x-k8s.io/elastic-job"
_MANAGED_BY = "app.kubernetes.io/managed-by"


def _check_mark(key: str, mark: Field, *, is_pod: bool) -> None:
    if key.partition("/")[0].endswith("tidegate.io") or key == _MANAGED_BY:
        if key == _MANAGED_BY:
            mark.ignore("the portal manages the object, and says so here")
        else:
            mark.refuse("is the portal's own mark; leave it out")
    elif key == QUEUE:
        mark.ignore("the job goes to its team's queue")
    elif (is_pod and key.startswith(TOPOLOGY_MARKS)) or (not is_pod and key in _READ_OF_KUEUE):
        return
    elif not is_pod and key.startswith("jobset.sigs.k8s.io/"):
        mark.refuse("is written by the JobSet controller; leave it out")
    elif key == _ELASTIC:
        mark.refuse(
            "changes the size of a running job, which quotas do not follow; leave it out, or write "
            "kueue.x-k8s.io/job-min-parallelism for a job that starts with fewer Pods"
        )
    elif is_of_job_controller(key):
        mark.ignore("the cluster's Job controller writes it")
    elif key.startswith(_OF_OTHERS):
        mark.refuse("is written by a controller or by the portal; leave it out")


def read_pod_spec(spec: Field, claims: Claims, marks: Mapping[str, str]) -> PodNeeds:
    """Return what a Pod with `spec` asks for. `marks` are its labels and annotations."""
    if not spec.is_given:
        spec.refuse("is required: the Pod's containers")
        return PodNeeds()
    _check_spec(spec)
    containers = list(spec.at("containers").each())
    first = list(spec.at("initContainers").each())
    if not containers:
        spec.at("containers").refuse("is required: at least one container")
    if len(containers) + len(first) > CONTAINERS_MAX:
        spec.at("containers").refuse(f"has more than {CONTAINERS_MAX} containers")
    images = []
    for container in (*containers, *first):
        _check_container(container)
        image = container.at("image").text()
        if image:
            images.append(image)
        else:
            container.at("image").refuse("is required: the container's image")
    devices = _devices(spec, *containers, *first)
    gpus = _gpus(spec, containers, first, claims, devices)
    return PodNeeds(
        gpus=gpus,
        cpu_milli=_most(containers, first, lambda one: _asked(one, "cpu", 1_000)),
        memory_mib=_mib(_most(containers, first, lambda one: _asked(one, "memory", 1))),
        node_selector=spec.at("nodeSelector").texts(),
        images=tuple(dict.fromkeys(images)),
        restart_policy=spec.at("restartPolicy").text(),
        priority_class=spec.at("priorityClassName").text(),
        required_topology=marks.get(_REQUIRED_TOPOLOGY),
        preferred_topology=marks.get(_PREFERRED_TOPOLOGY),
        devices=frozenset(devices),
        variables=frozenset(_variables(*containers, *first)),
        runtime_class=spec.at("runtimeClassName").text(),
    )


def needs_of_resources(resources: Field, image: str | None, environment: Field) -> PodNeeds:
    """Return what a Pod of one container with `resources` and `environment` asks for."""
    devices = frozenset(
        name
        for which in ("limits", "requests")
        for name, amount in resources.at(which).items()
        if not is_native(name) and amount.scaled()
    )
    gpus = [
        Gpus(name, units)
        for name in sorted(filter(is_gpu, devices))
        if (units := _amount(resources, name, 1))
    ]
    if len(gpus) > 1:
        resources.refuse("asks for GPUs of several kinds; ask for one kind")
    return PodNeeds(
        gpus=gpus[0] if gpus else None,
        cpu_milli=_amount(resources, "cpu", 1_000),
        memory_mib=_mib(_amount(resources, "memory", 1)),
        images=(image,) if image else (),
        devices=devices,
        variables=frozenset(_names_in(environment)),
    )


def _check_spec(spec: Field) -> None:
    for name in _NO_HOST:
        if spec.at(name).flag():
            spec.at(name).refuse("the team's namespace allows no access to the node; leave it out")
    if spec.at("nodeName").is_given:
        spec.at("nodeName").refuse(
            "the scheduler chooses the node; write nodeSelector or leave it out"
        )
    if spec.at("schedulerName").text() not in (None, "default-scheduler"):
        spec.at("schedulerName").ignore("the cluster's own scheduler places the Pods")
    for name in ("serviceAccountName", "serviceAccount"):
        if spec.at(name).text() not in (None, "", "default"):
            spec.at(name).refuse("the Pods run as the cluster's account for jobs; leave it out")
    if spec.at("automountServiceAccountToken").flag():
        spec.at("automountServiceAccountToken").ignore("the Pods of jobs get no token")
    if spec.at("schedulingGates").is_given:
        spec.at("schedulingGates").refuse("the portal holds the Pods itself; leave it out")
    if spec.at("priority").is_given:
        spec.at("priority").ignore("the portal's priority class counts")
    for volume in spec.at("volumes").each():
        for name, source in volume.items():
            if name not in _VOLUMES:
                source.refuse(
                    "the team's namespace allows no such volume; use persistentVolumeClaim, "
                    "emptyDir, configMap or secret"
                )
        read_metadata(volume.at("ephemeral", "volumeClaimTemplate", "metadata"))
        if volume.at("csi", "nodePublishSecretRef").is_given:
            volume.at("csi", "nodePublishSecretRef").refuse(
                "gives a driver of the node a Secret; use persistentVolumeClaim"
            )
        for source in volume.at("projected", "sources").each():
            if source.at("serviceAccountToken").is_given:
                source.at("serviceAccountToken").refuse("the Pods of jobs get no token; remove it")
    _check_security(spec.at("securityContext"))


def _check_container(container: Field) -> None:
    for port in container.at("ports").each():
        if port.at("hostPort").is_given and port.at("hostPort").value != 0:
            port.at("hostPort").refuse(
                "the team's namespace allows no port of the node; leave it out"
            )
    security = container.at("securityContext")
    _check_security(security)
    for name in ("privileged", "allowPrivilegeEscalation"):
        if security.at(name).flag():
            security.at(name).refuse(
                f"the team's namespace does not allow it; write `{name}: false`, or leave it out"
            )
    for added in security.at("capabilities", "add").each():
        if added.text() not in (None, "NET_BIND_SERVICE"):
            added.refuse(
                "the team's namespace allows no more capabilities; write `capabilities: "
                "{drop: [ALL]}`, or leave it out"
            )
    if security.at("procMount").text() not in (None, "Default"):
        security.at("procMount").refuse("the team's namespace does not allow it; leave it out")


def _check_security(security: Field) -> None:
    if security.at("runAsNonRoot").flag() is False:
        security.at("runAsNonRoot").refuse(
            "the Pods may not run as root; write `runAsNonRoot: true`, or leave it out"
        )
    if security.at("runAsUser").whole() == 0:
        security.at("runAsUser").refuse("the Pods may not run as root; name another user or none")
    if security.at("seccompProfile", "type").text() == "Unconfined":
        security.at("seccompProfile", "type").refuse(
            "write `type: RuntimeDefault`, or leave it out"
        )
    if security.at("appArmorProfile", "type").text() == "Unconfined":
        security.at("appArmorProfile", "type").refuse(
            "write `type: RuntimeDefault`, or leave it out"
        )
    if security.at("windowsOptions", "hostProcess").flag():
        security.at("windowsOptions", "hostProcess").refuse("is not allowed; leave it out")
    if security.at("sysctls").value:
        security.at("sysctls").refuse("are the node's administrator's; leave them out")


def _devices(*parts: Field) -> tuple[str, ...]:
    """Return the resources of devices of which the parts of a Pod ask for more than 0."""
    names: dict[str, None] = {}
    for part in parts:
        for which in ("limits", "requests"):
            for name, amount in part.at("resources", which).items():
                if not is_native(name) and amount.scaled():
                    names[name] = None
    return tuple(names)


def _variables(*containers: Field) -> Iterator[str]:
    """Yield the names of the variables of containers. One without a name is refused."""
    for container in containers:
        yield from _names_in(container.at("env"))


def _names_in(environment: Field) -> Iterator[str]:
    for variable in environment.each():
        name = variable.at("name").text()
        if name:
            yield name
        else:
            variable.at("name").refuse("is required: the variable's name")


def _gpus(
    spec: Field, containers: list[Field], first: list[Field], claims: Claims, devices: Iterable[str]
) -> Gpus | None:
    """Return the GPUs of a Pod: its only resource or device class of GPUs."""
    found = [
        Gpus(name, units)
        for name in filter(is_gpu, devices)
        if (units := _most(containers, first, lambda one, name=name: _asked(one, name, 1)))  # type: ignore[misc]
    ]
    for claim in spec.at("resourceClaims").each():
        claimed = _claimed(claim, claims)
        if claimed is not None:
            found.append(claimed)
    if len(found) > 1:
        listed = ", ".join(one.name for one in found)
        spec.refuse(f"asks for GPUs of several kinds ({listed}); ask for one kind")
    return found[0] if found else None


def _claimed(claim: Field, claims: Claims) -> Gpus | None:
    if claim.at("resourceClaimName").is_given:
        claim.at("resourceClaimName").refuse(
            "is a claim that the portal does not know; write resourceClaimTemplateName, with its "
            "ResourceClaimTemplate in this file"
        )
        return None
    name = claim.at("resourceClaimTemplateName")
    if name.text() not in claims:
        name.refuse("has no ResourceClaimTemplate in this file; add it as a document")
        return None
    return claims[name.text() or ""]


def _most(
    containers: list[Field], first: list[Field], asked: Callable[[Field], int | None]
) -> int | None:
    """Return what the Pod asks for at once, as Kubernetes counts; None if no container says."""
    sidecars = most = 0
    is_said = False
    for one in first:
        each = asked(one)
        is_said = is_said or each is not None
        most = max(most, sidecars + (each or 0))
        if one.at("restartPolicy").text() == "Always":
            sidecars += each or 0
    asks = [asked(one) for one in containers]
    is_said = is_said or any(each is not None for each in asks)
    return max(most, sidecars + sum(each or 0 for each in asks)) if is_said else None


def _asked(container: Field, resource: str, factor: int) -> int | None:
    return _amount(container.at("resources"), resource, factor)


def _amount(resources: Field, resource: str, factor: int) -> int | None:
    requests = resources.at("requests", resource)
    found = requests if requests.is_given else resources.at("limits", resource)
    return found.scaled(factor)


def _mib(size: int | None) -> int | None:
    return None if size is None else -(-size >> 20)

"""The objects that a quota tree becomes on a cluster with Kueue: names, settings and manifests.

Pure. A thing's *settings* are what of it is ours, flat, as people see it in a difference;
`settings_of` reads them from an object that the cluster has and `manifest` writes the object that
has them: the one is the other's inverse. What an administrator sets besides is left alone.

An organization is a root Cohort, what is between it and its teams are Cohorts below, a team is a
ClusterQueue with a namespace of its own. All are named for the hash of their path, so that no
slug becomes a name; the annotation `tidegate.io/path` tells it.

**Arbiter mode.** Promise: Kueue never holds back what the arbiter granted. Every queue has
nominal quota `WIDE` (W), lends 0 and borrows 0, and no cohort has any. Kueue lets a queue that
uses u reserve, by its `available()`,

    max(0, local - u) + min(W - local - max(0, u - local) + borrowing limit, what the cohort has)

where local = W - lending limit = W. The second term is min(0, 0) = 0 while u <= W, as no cohort
has quota and no queue stores any there. So a team may reserve q whenever u + q <= W, whatever other
teams, other organizations and other clusters of the pool do: nothing is shared, so nothing has to
be wide enough for all together, and no sum over queues can overflow. u counts each of the team's
workloads that hold quota: those that were granted, those that wait for a vote and those whose end
Kueue has not noticed. That it gives quota back before GPUs are free only lowers u. What is left is
W >= u + q: a workload asks for at most 2^31 Pods of less than 2^7 GPUs, so W = 10^15 holds 3,600
of the largest that can be written down, and 10^9 of a million GPUs each. CPU, memory and
ephemeral storage are as wide, in both modes.

What Kueue can still say no to is not quota: a queue that is stopped, a resource that no pool
names, and, where a pool names topology levels, Pods for which there are no nodes.

**Shared mode.** Kueue holds the tree too, also while the portal is away. A node's own quota is its
guarantee less its children's, in whole devices: Kueue adds a cohort's nominal quota to its
members'. Lending and borrowing limits are the node's. A root has none: there is nothing above it
to lend to. So where several organizations share a pool, or devices of it are nobody's, one more
cohort stands above them which owns what nobody is guaranteed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.entitlements import Entitlement, Entitlements, Terms, Value
from connectors.errors import WorkloadRejected
from connectors.kubernetes import naming
from connectors.kubernetes.naming import (
    BORROWED_CLASS,
    CLUSTER,
    CONTROLLER,
    GUARANTEED_CLASS,
    LOCAL_QUEUE,
    MANAGED_BY,
    MANAGED_BY_US,
    PATH,
    TEAM,
    cluster_label,
    team_namespace,
)
from connectors.kubernetes.options import SHARED_MODE, KubernetesOptions, KubernetesPool

Json = dict[str, Any]

TOPOLOGY = "topology"
FLAVOR = "flavor"
PRIORITY_CLASS = "priority class"
ADMISSION_CHECK = "admission check"
COHORT = "cohort"
NAMESPACE = "namespace"
CLUSTER_QUEUE = "cluster queue"
NETWORK_POLICY = "network policy"
OBJECT_LIMITS = "object limits"
QUEUE = "queue"

POD_SECURITY = "pod-security.kubernetes.io/enforce"
#: Pinned, so that an upgrade of the cluster refuses no Pod that it took before.
POD_SECURITY_VERSION = "v1.36"
WIDE = 10**15
_WIDE_RESOURCES = {"cpu": WIDE, "memory": 2**60, "ephemeral-storage": 2**60}
BORROWS = " borrow limit"
LENDS = " lend limit"
_NOTHING = (0, 0, 0)
_GPU_REQUESTS = "requests."
#: Far above what teams do, far below what hurts an API server.
_OBJECTS_MAX: Mapping[str, int] = {
    "pods": 10_000,
    "count/jobs.batch": 100_000,
    "count/configmaps": 100_000,
    "count/services": 5_000,
    "services.nodeports": 0,
    "services.loadbalancers": 0,
}
#: Pods of the team reach each other, nobody else's reach them. They may call anywhere: data and
#: images are outside. Who wants less adds a policy for egress; ours does not stand in its way.
_ISOLATED: Json = {
    "podSelector": {},
    "policyTypes": ["Ingress"],
    "ingress": [{"from": [{"podSelector": {}}]}],
}
_QUANTITY = re.compile(r"([0-9]{1,19})([numkMGTPE]|[KMGTPE]i)?", re.ASCII)
_FACTORS = {
    **{"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18},
    **{"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60},
}


@dataclass(frozen=True, slots=True)
class Kind:
    """Where the API has objects of a thing. Of those in namespaces a team has one, `only`."""

    api: str
    kind: str
    plural: str
    only: str = ""

    @property
    def collection(self) -> str:
        """The path of all of them, in all namespaces."""
        return f"{self._root}/{self.plural}"

    def path(self, name: str) -> str:
        """The path of the object `name`, or of the one in the namespace `name`."""
        if self.only:
            return f"{self._root}/namespaces/{name}/{self.plural}/{self.only}"
        return f"{self._root}/{self.plural}/{name}"

    @property
    def _root(self) -> str:
        return f"/apis/{self.api}" if "/" in self.api else f"/api/{self.api}"


_KUEUE = "kueue.x-k8s.io/v1beta2"
#: In the order in which they are made.
KINDS: Mapping[str, Kind] = {
    TOPOLOGY: Kind(_KUEUE, "Topology", "topologies"),
    FLAVOR: Kind(_KUEUE, "ResourceFlavor", "resourceflavors"),
    PRIORITY_CLASS: Kind(_KUEUE, "WorkloadPriorityClass", "workloadpriorityclasses"),
    ADMISSION_CHECK: Kind(_KUEUE, "AdmissionCheck", "admissionchecks"),
    COHORT: Kind(_KUEUE, "Cohort", "cohorts"),
    NAMESPACE: Kind("v1", "Namespace", "namespaces"),
    NETWORK_POLICY: Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "tidegate"),
    OBJECT_LIMITS: Kind("v1", "ResourceQuota", "resourcequotas", "tidegate"),
    CLUSTER_QUEUE: Kind(_KUEUE, "ClusterQueue", "clusterqueues"),
    QUEUE: Kind(_KUEUE, "LocalQueue", "localqueues", LOCAL_QUEUE),
}
#: What clusters with another batch scheduler have of these.
OF_EVERY_SCHEDULER = frozenset({NAMESPACE, NETWORK_POLICY, OBJECT_LIMITS})


@dataclass(frozen=True, slots=True)
class Shape:
    """How a cluster writes quotas. `pools` are in the one order in which queues list their
    flavors; `owner` is the value of label `naming.CLUSTER` by which objects are known as ours."""

    pools: tuple[KubernetesPool, ...]
    owner: str
    is_shared: bool = False
    has_kueue: bool = True

    @property
    def top_cohort(self) -> str:
        """The name of the cohort above all organizations."""
        return f"tidegate-{self.owner[:12]}"

    @property
    def flavors(self) -> list[str]:
        """One for each pool."""
        return [pool.flavor for pool in self.pools]

    @property
    def resources(self) -> list[str]:
        """Those of the devices, each once."""
        return sorted({pool.resource for pool in self.pools})

    @property
    def things(self) -> tuple[str, ...]:
        """The kinds of object that such a cluster gets, in the order in which they are made."""
        return tuple(thing for thing in KINDS if self.has_kueue or thing in OF_EVERY_SCHEDULER)


def shape_of(options: KubernetesOptions, cluster_id: str) -> Shape:
    """The shape of the cluster `cluster_id` with `options`."""
    return Shape(
        pools=tuple(pool for _, pool in sorted(options.pools.items())),
        owner=cluster_label(cluster_id),
        is_shared=options.mode == SHARED_MODE,
        has_kueue=options.has_kueue,
    )


def cell_of(pool: KubernetesPool) -> str:
    """The name of the pool's quota in settings."""
    return f"{pool.flavor} {pool.resource}"


@dataclass(frozen=True, slots=True)
class Item:
    """One object with the settings that it should have. `path` is its node of the tree."""

    thing: str
    name: str
    settings: Mapping[str, Value]
    path: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from all others."""
        return self.thing, self.name


# What is wanted.


def wanted_items(wanted: Entitlements, shape: Shape) -> tuple[Item, ...]:
    """All objects of the tree, parents before children. Raises WorkloadRejected for pools that
    give one Topology different levels."""
    things = set(shape.things)
    found = [*_of_cluster(shape), *_of_tree(wanted, shape)]
    order = list(KINDS)
    return tuple(
        sorted(
            (item for item in found if item.thing in things),
            key=lambda item: (order.index(item.thing), depth(item.path), item.name),
        )
    )


def depth(path: str) -> int:
    """How far below the top: 0 for what is above all organizations."""
    return path.count("/") + 1 if path else 0


def _of_cluster(shape: Shape) -> Iterable[Item]:
    levels: dict[str, tuple[str, ...]] = {}
    for pool in shape.pools:
        name = pool.topology_name
        if name is not None and levels.setdefault(name, pool.topology_levels) != (
            pool.topology_levels
        ):
            raise WorkloadRejected(
                f"the options give topology {name} different topology_levels in different pools; "
                "make them equal, or name another topology"
            )
        yield Item(
            FLAVOR,
            pool.flavor,
            {
                "node_labels": sorted(f"{k}={v}" for k, v in pool.node_selector.items()),
                "tolerations": sorted(_text(one) for one in pool.tolerations),
                "topology": name,
            },
        )
    for name, labels in levels.items():
        yield Item(TOPOLOGY, name, {"levels": list(labels)})
    yield Item(PRIORITY_CLASS, GUARANTEED_CLASS, {"value": 1_000})
    yield Item(PRIORITY_CLASS, BORROWED_CLASS, {"value": 100})
    yield Item(ADMISSION_CHECK, naming.ADMISSION_CHECK, {"controller": CONTROLLER})


def _of_tree(wanted: Entitlements, shape: Shape) -> Iterable[Item]:
    units = _Units(wanted, shape)
    top = units.top()
    if top:
        yield Item(COHORT, shape.top_cohort, {"path": None, "parent": None, "weight": 1, **top})
    for node in wanted.nodes:
        name = team_namespace(node.path)
        above = node.path.rpartition("/")[0]
        parent = team_namespace(above) if above else (shape.top_cohort if top else None)
        placed: dict[str, Value] = {"path": node.path, "weight": node.weight}
        if not node.is_team:
            cells = units.of_cohort(node, has_parent=parent is not None)
            yield Item(COHORT, name, {**placed, "parent": parent, **cells}, node.path)
            continue
        yield from _of_team(node, name, shape)
        yield Item(
            CLUSTER_QUEUE,
            name,
            {
                **placed,
                "cohort": parent,
                "strategy": "BestEffortFIFO",
                "stop": "None",
                "namespaces": [f"{TEAM}={name}"],
                "preemption": [],
                "checks": [naming.ADMISSION_CHECK],
                "flavors": shape.flavors,
                "resources": [*_WIDE_RESOURCES, *shape.resources],
                **units.of_team(node),
            },
            node.path,
        )


def _of_team(node: Entitlement, name: str, shape: Shape) -> Iterable[Item]:
    yield Item(
        NAMESPACE,
        name,
        {
            "path": node.path,
            "team": name,
            "pod_security": "restricted",
            "pod_security_version": POD_SECURITY_VERSION,
        },
        node.path,
    )
    yield Item(NETWORK_POLICY, name, {"rules": _text(_ISOLATED)}, node.path)
    limits = {**_OBJECTS_MAX, **_device_limits(node, shape)}
    yield Item(OBJECT_LIMITS, name, limits, node.path)
    yield Item(QUEUE, name, {"cluster_queue": name, "stop": "None"}, node.path)


def _device_limits(node: Entitlement, shape: Shape) -> dict[str, Value]:
    """Devices in the team's Pods at once, those beside the queue included.

    In shared mode twice what the team may use: Kubernetes counts Pods that are being stopped until
    they are gone, and Kueue starts the next before. In arbiter mode none: a quota that was raised
    and is not pushed yet would hold back what was granted.
    """
    found: dict[str, Value] = {}
    for resource in shape.resources:
        most: int | None = 0
        for pool in shape.pools:
            if pool.resource == resource and most is not None:
                terms = node.terms.get(pool.name, Terms(0))
                if terms.borrow_limit_mgpu is None:
                    most = None
                else:
                    most += (terms.guaranteed_mgpu + terms.borrow_limit_mgpu) // pool.mgpu_per_unit
        found[_GPU_REQUESTS + resource] = None if most is None or not shape.is_shared else 2 * most
    return found


class _Units:
    """The tree's quotas in whole devices."""

    def __init__(self, wanted: Entitlements, shape: Shape) -> None:
        self._shape = shape
        self._spare_mgpu = wanted.spare_mgpu
        self._organizations = [node for node in wanted.nodes if "/" not in node.path]
        self._below: dict[tuple[str, str], int] = {}
        for node in wanted.nodes:
            above = node.path.rpartition("/")[0]
            for pool in shape.pools:
                key = (above, pool.name)
                self._below[key] = self._below.get(key, 0) + self._guaranteed(node, pool)

    def top(self) -> dict[str, Value]:
        """The quota of the cohort above all organizations, none where none is needed."""
        if not self._shape.is_shared:
            return {}
        spare = [
            (pool, self._spare_mgpu.get(pool.name, 0) // pool.mgpu_per_unit)
            for pool in self._shape.pools
        ]
        if len(self._organizations) < 2 and not any(units for _, units in spare):
            return {}
        found: dict[str, Value] = {"other_quota": []}
        for pool, units in spare:
            found |= _cell(pool, units, None, None)
        return found

    def of_cohort(self, node: Entitlement, *, has_parent: bool) -> dict[str, Value]:
        """Its own quota, which Kueue adds to its members', and its limits."""
        found: dict[str, Value] = {"other_quota": []}
        for pool in self._shape.pools:
            own: int = 0
            borrows: int | None = None
            lends: int | None = None
            if self._shape.is_shared:
                own = max(
                    0, self._guaranteed(node, pool) - self._below.get((node.path, pool.name), 0)
                )
                if has_parent:
                    borrows, lends = self._limits(node, pool)
            found |= _cell(pool, own, borrows, lends)
        return found

    def of_team(self, node: Entitlement) -> dict[str, Value]:
        """A cell for every resource of every flavor, as Kueue asks for."""
        own = {(pool.flavor, pool.resource): pool for pool in self._shape.pools}
        found: dict[str, Value] = {}
        for flavor in self._shape.flavors:
            for resource in _WIDE_RESOURCES:
                found[f"{flavor} {resource}"] = None
            for resource in self._shape.resources:
                pool = own.get((flavor, resource))
                if pool is None:
                    found[f"{flavor} {resource}"] = 0
                elif self._shape.is_shared:
                    borrows, lends = self._limits(node, pool)
                    found |= _cell(pool, self._guaranteed(node, pool), borrows, lends)
                else:
                    found |= _cell(pool, None, 0, 0)
        return found

    def _guaranteed(self, node: Entitlement, pool: KubernetesPool) -> int:
        return node.terms.get(pool.name, Terms(0)).guaranteed_mgpu // pool.mgpu_per_unit

    def _limits(self, node: Entitlement, pool: KubernetesPool) -> tuple[int | None, int | None]:
        terms = node.terms.get(pool.name, Terms(0))
        borrows, lends = terms.borrow_limit_mgpu, terms.lend_limit_mgpu
        return (
            None if borrows is None else borrows // pool.mgpu_per_unit,
            None if lends is None else lends // pool.mgpu_per_unit,
        )


# What the cluster has.


def is_ours(thing: str, found: Json, shape: Shape) -> bool:
    """Whether we made the object `found`. What every Tidegate has alike under names of its own is
    anybody's of them: the check is also made by who votes."""
    if thing == ADMISSION_CHECK and found.get("spec", {}).get("controllerName") == CONTROLLER:
        return True
    if thing == PRIORITY_CLASS and found["metadata"]["name"] in (GUARANTEED_CLASS, BORROWED_CLASS):
        return True
    return _owner(found) == shape.owner


def is_of_another_portal(found: Json, shape: Shape) -> bool:
    """Whether Tidegate made it, and not for this cluster as we know it."""
    labels = _labels(found)
    return labels.get(MANAGED_BY) == MANAGED_BY_US and _owner(found) != shape.owner


def _owner(found: Json) -> str:
    labels = _labels(found)
    is_managed = labels.get(MANAGED_BY) == MANAGED_BY_US
    return str(labels.get(CLUSTER, "")) if is_managed else ""


def is_terminating(found: Json) -> bool:
    """Whether it was deleted and waits for what uses it."""
    return "deletionTimestamp" in found["metadata"]


def name_of(thing: str, found: Json) -> str:
    """The name by which the object is changed."""
    metadata = found["metadata"]
    return str(metadata["namespace" if KINDS[thing].only else "name"])


def path_of(found: Json) -> str:
    """The node of the tree that the object was made for, "" where it does not tell."""
    path = (found["metadata"].get("annotations") or {}).get(PATH, "")
    return path if isinstance(path, str) else ""


def settings_of(thing: str, found: Json, shape: Shape) -> dict[str, Value]:
    """What of the object `found` is ours to set."""
    return _READERS[thing](found, shape)


def _read_topology(found: Json, shape: Shape) -> dict[str, Value]:
    return {"levels": [str(level.get("nodeLabel")) for level in found["spec"].get("levels", ())]}


def _read_flavor(found: Json, shape: Shape) -> dict[str, Value]:
    spec = found.get("spec") or {}
    return {
        "node_labels": sorted(f"{k}={v}" for k, v in (spec.get("nodeLabels") or {}).items()),
        "tolerations": sorted(_text(one) for one in spec.get("tolerations") or ()),
        "topology": spec.get("topologyName"),
    }


def _read_class(found: Json, shape: Shape) -> dict[str, Value]:
    return {"value": found.get("value")}


def _read_check(found: Json, shape: Shape) -> dict[str, Value]:
    return {"controller": found["spec"].get("controllerName")}


def _read_cohort(found: Json, shape: Shape) -> dict[str, Value]:
    spec = found.get("spec") or {}
    cells = _cells(spec)
    settings: dict[str, Value] = {
        "path": path_of(found) or None,
        "parent": spec.get("parentName"),
        "weight": _weight(spec),
    }
    for pool in shape.pools:
        nominal, borrows, lends = cells.pop((pool.flavor, pool.resource), (0, None, None))
        settings |= _cell(pool, nominal, borrows, lends)
    settings["other_quota"] = sorted(f"{flavor} {resource}" for flavor, resource in cells)
    return settings


def _read_cluster_queue(found: Json, shape: Shape) -> dict[str, Value]:
    spec = found.get("spec") or {}
    strategy = spec.get("admissionChecksStrategy") or {}
    preemption = spec.get("preemption") or {}
    borrowing = preemption.get("borrowWithinCohort") or {}
    rules = {**preemption, "borrowWithinCohort": borrowing.get("policy", "Never")}
    groups = spec.get("resourceGroups") or ()
    settings: dict[str, Value] = {
        "path": path_of(found) or None,
        "weight": _weight(spec),
        "cohort": spec.get("cohortName"),
        "strategy": spec.get("queueingStrategy"),
        "stop": spec.get("stopPolicy", "None"),
        "namespaces": _selected(spec.get("namespaceSelector")),
        "preemption": sorted(f"{name}={rule}" for name, rule in rules.items() if rule != "Never"),
        "checks": sorted(_check_text(check) for check in strategy.get("admissionChecks") or ()),
        "flavors": [str(one.get("name")) for group in groups for one in group.get("flavors", ())],
        "resources": [str(one) for group in groups for one in group.get("coveredResources", ())],
    }
    cells = _cells(spec)
    own = {(pool.flavor, pool.resource): cell_of(pool) for pool in shape.pools}
    for flavor in shape.flavors:
        for resource in (*_WIDE_RESOURCES, *shape.resources):
            nominal, borrows, lends = cells.get((flavor, resource), _NOTHING)
            cell = f"{flavor} {resource}"
            if (flavor, resource) in own:
                shown = None if nominal == WIDE else nominal
                settings |= {cell: shown, cell + BORROWS: borrows, cell + LENDS: lends}
            else:
                settings[cell] = _compact(resource, (nominal, borrows, lends))
    return settings


def _read_namespace(found: Json, shape: Shape) -> dict[str, Value]:
    labels = _labels(found)
    return {
        "path": path_of(found) or None,
        "team": labels.get(TEAM),
        "pod_security": labels.get(POD_SECURITY),
        "pod_security_version": labels.get(f"{POD_SECURITY}-version"),
    }


def _read_policy(found: Json, shape: Shape) -> dict[str, Value]:
    return {"rules": _text(found.get("spec") or {})}


def _read_limits(found: Json, shape: Shape) -> dict[str, Value]:
    hard = (found.get("spec") or {}).get("hard") or {}
    named = [*_OBJECTS_MAX, *(_GPU_REQUESTS + resource for resource in shape.resources)]
    return {name: quantity(hard[name]) if name in hard else None for name in named}


def _read_queue(found: Json, shape: Shape) -> dict[str, Value]:
    spec = found.get("spec") or {}
    return {"cluster_queue": spec.get("clusterQueue"), "stop": spec.get("stopPolicy", "None")}


_READERS: Mapping[str, Callable[[Json, Shape], dict[str, Value]]] = {
    TOPOLOGY: _read_topology,
    FLAVOR: _read_flavor,
    PRIORITY_CLASS: _read_class,
    ADMISSION_CHECK: _read_check,
    COHORT: _read_cohort,
    NAMESPACE: _read_namespace,
    NETWORK_POLICY: _read_policy,
    OBJECT_LIMITS: _read_limits,
    CLUSTER_QUEUE: _read_cluster_queue,
    QUEUE: _read_queue,
}

# What is written.


def manifest(thing: str, name: str, settings: Mapping[str, Value], shape: Shape) -> Json:
    """The object with `settings`, all of which must be there. What is None in it shall not be in
    the object; `for_apply` and `for_merge_patch` say so."""
    kind = KINDS[thing]
    metadata: Json = {
        "name": kind.only or name,
        "labels": {MANAGED_BY: MANAGED_BY_US, CLUSTER: shape.owner},
    }
    if kind.only:
        metadata["namespace"] = name
    if path := settings.get("path"):
        metadata["annotations"] = {PATH: path}
    found: Json = {"apiVersion": kind.api, "kind": kind.kind, "metadata": metadata}
    if thing == NAMESPACE:
        metadata["labels"] |= {
            TEAM: settings["team"],
            POD_SECURITY: settings["pod_security"],
            f"{POD_SECURITY}-version": settings["pod_security_version"],
        }
    elif thing == PRIORITY_CLASS:
        found["value"] = settings["value"]
        found["description"] = f"Tidegate: {name.removeprefix('tidegate-')}"
    else:
        found["spec"] = _WRITERS[thing](settings, shape)
    return found


def for_apply(body: Json) -> Json:
    """`body` for server-side apply: what is ours, and nothing of what others added to a list."""
    body = _without_none(body)
    strategy = body.get("spec", {}).get("admissionChecksStrategy")
    if strategy:
        ours = [one for one in strategy["admissionChecks"] if one["name"] == naming.ADMISSION_CHECK]
        strategy["admissionChecks"] = ours
    return body


def for_merge_patch(body: Json) -> Json:
    """`body` as a merge patch: None takes a field away, a list replaces the list."""
    return {
        key: for_merge_patch(value) if isinstance(value, dict) else _without_none(value)
        for key, value in body.items()
    }


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(one) for key, one in value.items() if one is not None}
    return [_without_none(one) for one in value] if isinstance(value, list) else value


def _write_topology(settings: Mapping[str, Value], shape: Shape) -> Json:
    return {"levels": [{"nodeLabel": label} for label in _texts(settings["levels"])]}


def _write_flavor(settings: Mapping[str, Value], shape: Shape) -> Json:
    pairs = (label.partition("=") for label in _texts(settings["node_labels"]))
    tolerations = [json.loads(one) for one in _texts(settings["tolerations"])]
    return {
        "nodeLabels": {key: value for key, _, value in pairs} or None,
        "tolerations": tolerations or None,
        "topologyName": settings["topology"],
    }


def _write_check(settings: Mapping[str, Value], shape: Shape) -> Json:
    return {"controllerName": settings["controller"]}


def _write_cohort(settings: Mapping[str, Value], shape: Shape) -> Json:
    groups = []
    # A resource may be in one group only, and all flavors of a group have all of its resources.
    filled = {
        (pool.flavor, pool.resource): cell
        for pool in shape.pools
        if (cell := _limits_in(settings, cell_of(pool))) != (0, None, None)
    }
    if filled:
        flavors = [name for name in shape.flavors if any(name == key[0] for key in filled)]
        resources = [name for name in shape.resources if any(name == key[1] for key in filled)]
        groups = [
            {
                "coveredResources": resources,
                "flavors": [
                    {
                        "name": flavor,
                        "resources": [
                            _quota(name, filled.get((flavor, name), (0, None, None)))
                            for name in resources
                        ],
                    }
                    for flavor in flavors
                ],
            }
        ]
    return {
        "parentName": settings["parent"],
        "fairSharing": {"weight": str(settings["weight"])},
        "resourceGroups": groups or None,
    }


def _write_cluster_queue(settings: Mapping[str, Value], shape: Shape) -> Json:
    own = {(pool.flavor, pool.resource): cell_of(pool) for pool in shape.pools}
    resources = _texts(settings["resources"])

    def cell(flavor: str, resource: str) -> tuple[Value, Value, Value]:
        if (flavor, resource) in own:
            nominal, borrows, lends = _limits_in(settings, own[flavor, resource])
            return WIDE if nominal is None else nominal, borrows, lends
        return _expanded(resource, settings.get(f"{flavor} {resource}", 0))

    flavors = [
        {"name": flavor, "resources": [_quota(name, cell(flavor, name)) for name in resources]}
        for flavor in _texts(settings["flavors"])
    ]
    checks = [_check_of(text) for text in _texts(settings["checks"])]
    selected = dict(
        one.split("=", 1) for one in _texts(settings["namespaces"]) if not one.startswith("{")
    )
    rules = dict(one.split("=", 1) for one in _texts(settings["preemption"]))
    return {
        "cohortName": settings["cohort"],
        "queueingStrategy": settings["strategy"],
        "stopPolicy": settings["stop"],
        "namespaceSelector": {"matchLabels": selected, "matchExpressions": None},
        "preemption": {
            "reclaimWithinCohort": rules.get("reclaimWithinCohort", "Never"),
            "withinClusterQueue": rules.get("withinClusterQueue", "Never"),
            "borrowWithinCohort": {"policy": rules.get("borrowWithinCohort", "Never")},
        },
        "admissionChecksStrategy": {"admissionChecks": checks},
        "fairSharing": {"weight": str(settings["weight"])},
        "resourceGroups": [{"coveredResources": resources, "flavors": flavors}],
    }


def _write_policy(settings: Mapping[str, Value], shape: Shape) -> Json:
    spec = json.loads(str(settings["rules"]))
    return spec if isinstance(spec, dict) else {}


def _write_limits(settings: Mapping[str, Value], shape: Shape) -> Json:
    hard = {name: None if value is None else str(value) for name, value in settings.items()}
    return {"hard": hard}


def _write_queue(settings: Mapping[str, Value], shape: Shape) -> Json:
    return {"clusterQueue": settings["cluster_queue"], "stopPolicy": settings["stop"]}


_WRITERS: Mapping[str, Callable[[Mapping[str, Value], Shape], Json]] = {
    TOPOLOGY: _write_topology,
    FLAVOR: _write_flavor,
    ADMISSION_CHECK: _write_check,
    COHORT: _write_cohort,
    NETWORK_POLICY: _write_policy,
    OBJECT_LIMITS: _write_limits,
    CLUSTER_QUEUE: _write_cluster_queue,
    QUEUE: _write_queue,
}

# Words.


def _labels(found: Json) -> Mapping[str, Any]:
    return found["metadata"].get("labels") or {}


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _texts(value: Value) -> list[str]:
    return list(value) if isinstance(value, list) else []


def quantity(quantity: Any) -> int | str:
    """A quantity of the API in whole units, or as it stands where that is no whole number."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None or found[2] in ("n", "u", "m"):
        return str(quantity)
    return int(found[1]) * _FACTORS[found[2] or ""]


def _weight(spec: Json) -> Value:
    return quantity((spec.get("fairSharing") or {}).get("weight", "1"))


def _cells(spec: Json) -> dict[tuple[str, str], tuple[Value, Value, Value]]:
    """Nominal quota, borrowing limit and lending limit by flavor and resource."""
    found: dict[tuple[str, str], tuple[Value, Value, Value]] = {}
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for one in flavor.get("resources") or ():
                limits = [
                    quantity(one[name]) if name in one else None
                    for name in ("borrowingLimit", "lendingLimit")
                ]
                key = str(flavor.get("name")), str(one.get("name"))
                found[key] = (quantity(one.get("nominalQuota", "0")), limits[0], limits[1])
    return found


def _cell(pool: KubernetesPool, nominal: Value, borrows: Value, lends: Value) -> dict[str, Value]:
    name = cell_of(pool)
    return {name: nominal, name + BORROWS: borrows, name + LENDS: lends}


def _limits_in(settings: Mapping[str, Value], cell: str) -> tuple[Value, Value, Value]:
    return settings[cell], settings[cell + BORROWS], settings[cell + LENDS]


def _quota(resource: str, cell: Sequence[Value]) -> Json:
    nominal, borrows, lends = (None if value is None else str(value) for value in cell)
    return {
        "name": resource,
        "nominalQuota": nominal,
        "borrowingLimit": borrows,
        "lendingLimit": lends,
    }


def _compact(resource: str, cell: tuple[Value, Value, Value]) -> Value:
    """A cell that is no pool's in one word: None is wide, 0 is nothing."""
    if cell == (_WIDE_RESOURCES.get(resource), 0, 0):
        return None
    return 0 if cell == _NOTHING else "/".join("-" if one is None else str(one) for one in cell)


def _expanded(resource: str, value: Value) -> tuple[Value, Value, Value]:
    if value is None:
        return _WIDE_RESOURCES[resource], 0, 0
    if value == 0:
        return _NOTHING
    nominal, borrows, lends = (None if one == "-" else one for one in str(value).split("/"))
    return nominal, borrows, lends


def _selected(selector: Json | None) -> list[str]:
    """The labels that a namespace must have; anything else as it stands."""
    if selector is None:
        return ["none"]
    found = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    return sorted(found) + [_text(one) for one in selector.get("matchExpressions") or ()]


def _check_text(check: Json) -> str:
    only = check.get("onFlavors")
    return f"{check.get('name')} on {','.join(only)}" if only else str(check.get("name"))


def _check_of(text: str) -> Json:
    name, _, only = text.partition(" on ")
    return {"name": name, "onFlavors": only.split(",") if only else None}

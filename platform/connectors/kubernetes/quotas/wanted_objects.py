"""The objects of a quota tree on a cluster with Kueue, each with its settings. Pure.

An organization is a root Cohort. The nodes between it and its teams are Cohorts below. A team is a
ClusterQueue with a namespace of its own. All are named by the hash of their path, so that no slug
becomes a name. The annotation `tidegate.io/path` has the path.

**Arbiter mode.** The promise: Kueue never holds back a job that the arbiter granted. Every queue
has nominal quota `WIDE` (W), lends 0 and borrows 0, and no cohort has any. By its `available()`,
Kueue lets a queue that uses u reserve

    max(0, local - u) + min(W - local - max(0, u - local) + borrowing limit, the cohort's quota)

where local = W - lending limit = W. The second term is min(0, 0) = 0 while u <= W, as no cohort has
quota and no queue stores any there. So a team may reserve q whenever u + q <= W, whatever other
teams, organizations and clusters of the pool do. Nothing is shared, so nothing has to be wide
enough for all together, and no sum over queues can overflow.

u counts each of the team's workloads that hold quota: granted ones, ones that wait for a vote, and
ones whose end Kueue has not noticed. Kueue may release quota before GPUs are free, which only
lowers u. The remaining condition is W >= u + q. A workload asks for at most 2^31 Pods of less than
2^7 GPUs. So W = 10^15 holds 3,600 of the largest possible ones, and 10^9 of a million GPUs each.
CPU, memory and ephemeral storage are as wide, in both modes.

Kueue can still refuse for reasons other than quota: a stopped queue, or a resource that no pool
names. In a pool with topology levels, it also refuses Pods without suitable nodes.

**Shared mode.** Kueue enforces the tree too, even while the portal is away. A node's own quota is
its guarantee minus its children's, in whole devices: Kueue adds a cohort's nominal quota to its
members'. Lending and borrowing limits are the node's. A root has none, as there is nothing above it
to lend to. If several organizations share a pool, or devices of it are not guaranteed, one more
cohort is above them. It owns the devices that are guaranteed to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connectors.entitlements import (
    Change,
    ChangeKind,
    Entitlement,
    Entitlements,
    Terms,
    Value,
)
from connectors.errors import WorkloadRejected
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.naming import (
    BORROWED_CLASS,
    CONTROLLER,
    GUARANTEED_CLASS,
    TEAM,
    team_namespace,
)
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.kubernetes.quotas.cells import cell_settings
from connectors.kubernetes.quotas.objects import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    FLAVOR,
    KINDS,
    NAMESPACE,
    NETWORK_POLICY,
    OBJECT_LIMITS,
    PRIORITY_CLASS,
    QUEUE,
    TOPOLOGY,
    Json,
    Shape,
)
from connectors.kubernetes.quotas.settings import GPU_REQUESTS, OBJECTS_MAX, json_text

#: Pinned, so that after an upgrade the cluster refuses no Pod that it accepted before.
POD_SECURITY_VERSION = "v1.36"
#: Only Pods of the team can connect to its Pods. These may connect anywhere, because data and
#: images are outside. An administrator can add a policy for egress; ours does not conflict with it.
_ISOLATED: Json = {
    "podSelector": {},
    "policyTypes": ["Ingress"],
    "ingress": [{"from": [{"podSelector": {}}]}],
}


@dataclass(frozen=True, slots=True)
class Item:
    """One object with its intended settings. `path` is its node of the tree."""

    thing: str
    name: str
    settings: Mapping[str, Value]
    path: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the object."""
        return self.thing, self.name


def wanted_items(wanted: Entitlements, shape: Shape) -> tuple[Item, ...]:
    """Return all objects of the tree, parents before children.

    Raises WorkloadRejected for pools that give one Topology different levels.
    """
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
    """Return the depth below the top: 0 for objects above all organizations."""
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
                "tolerations": sorted(json_text(one) for one in pool.tolerations),
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
                "resources": [*shape.wide_resources, *shape.resources],
                **units.of_team(node),
            },
            node.path,
        )


def team_subject(path: str) -> str:
    """Return the subject of the object that the team at `path` needs to submit anything."""
    return Change(ChangeKind.CREATE, NAMESPACE, team_namespace(path), path=path).subject


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
    yield Item(NETWORK_POLICY, name, {"rules": json_text(_ISOLATED)}, node.path)
    limits = {**OBJECTS_MAX, **_device_limits(node, shape)}
    yield Item(OBJECT_LIMITS, name, limits, node.path)
    yield Item(QUEUE, name, {"cluster_queue": name, "stop": "None"}, node.path)


def _device_limits(node: Entitlement, shape: Shape) -> dict[str, Value]:
    """Return limits on the devices in the team's Pods at once, including Pods outside the queue.

    In shared mode the limit is twice the team's ceiling: Kubernetes counts Pods that are being
    stopped until they are gone, and Kueue starts the next ones before. In arbiter mode there is no
    limit. A quota that was raised but not pushed yet would hold back a granted job.
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
        found[GPU_REQUESTS + resource] = None if most is None or not shape.is_shared else 2 * most
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
        """Return the quota of the cohort above all organizations; {} where none is needed."""
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
            found |= cell_settings(pool, units, None, None)
        return found

    def of_cohort(self, node: Entitlement, *, has_parent: bool) -> dict[str, Value]:
        """Return the cohort's own quota, which Kueue adds to its members', and its limits."""
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
            found |= cell_settings(pool, own, borrows, lends)
        return found

    def of_team(self, node: Entitlement) -> dict[str, Value]:
        """Return a cell for every resource of every flavor, as Kueue requires."""
        own = {(pool.flavor, pool.resource): pool for pool in self._shape.pools}
        found: dict[str, Value] = {}
        wide = self._shape.wide_resources
        for flavor in self._shape.flavors:
            for resource in (*wide, *self._shape.resources):
                pool = own.get((flavor, resource))
                if pool is None:
                    found[f"{flavor} {resource}"] = None if resource in wide else 0
                elif self._shape.is_shared:
                    borrows, lends = self._limits(node, pool)
                    found |= cell_settings(pool, self._guaranteed(node, pool), borrows, lends)
                else:
                    found |= cell_settings(pool, None, 0, 0)
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

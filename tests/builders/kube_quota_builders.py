"""Quota trees for Kubernetes, and the part of an API server that holds what becomes of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from connectors.entitlements import Change, Entitlement, Entitlements, Share, Terms
from connectors.kubernetes.client.api import Conflict, KubeApi, KubeList, KubeRefused, NotFound
from connectors.kubernetes.objects.naming import team_namespace
from connectors.kubernetes.options.options import parse_options
from connectors.kubernetes.quotas.cells import quantity
from connectors.kubernetes.quotas.entitlements import KubernetesEntitlements
from connectors.kubernetes.quotas.objects import Shape, shape_of

Json = dict[str, Any]
CLUSTER_ID = "0199d3c0-0000-7000-8000-000000000001"
H100_LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
GPUS = "h100 nvidia.com/gpu"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
#: The company of `a_company_tree`, as its cluster names it.
ORG, RESEARCH = team_namespace("org"), team_namespace("org/research")
NLP, VISION = team_namespace("org/research/nlp"), team_namespace("org/research/vision")
PRODUCTION = team_namespace("org/production")


def kube_shape(mode: str = "arbiter", **options: Any) -> Shape:
    """The shape of a cluster with pool h100, unless `options` say otherwise."""
    given = {
        "kubeconfig": "/etc/tidegate/kube",
        "mode": mode,
        "pools": {"h100": {"node_selector": H100_LABELS}},
        **options,
    }
    return shape_of(parse_options(given), CLUSTER_ID)


def gpus(guaranteed: int, *, lends: int | None = None, borrows: int | None = None) -> Terms:
    """Terms in whole GPUs."""
    return Terms(
        guaranteed * 1_000,
        None if lends is None else lends * 1_000,
        None if borrows is None else borrows * 1_000,
    )


def a_node(
    path: str, terms: Terms, *, is_team: bool = False, weight: int = 100, pool: str = "h100"
) -> Entitlement:
    return Entitlement(path, is_team, {pool: Share(0, None)}, weight, (), {pool: terms})


def a_tree(*nodes: Entitlement, spare_gpus: int = 0) -> Entitlements:
    roots = frozenset(node.path.partition("/")[0] for node in nodes)
    return Entitlements(nodes, roots, 300, {"h100": spare_gpus * 1_000})


def a_company_tree() -> Entitlements:
    """64 GPUs of an organization: production has 24, research 40 and of these nlp and vision 16
    each."""
    return a_tree(
        a_node("org", gpus(64)),
        a_node("org/production", gpus(24, lends=0, borrows=0), is_team=True),
        a_node("org/research", gpus(40, borrows=8)),
        a_node("org/research/nlp", gpus(16, lends=4, borrows=8), is_team=True, weight=30),
        a_node("org/research/vision", gpus(16), is_team=True),
        spare_gpus=64,
    )


@dataclass
class FakeKubeApi:
    """An API server in memory, with Kueue's rules for quotas. `broken` are the laws of order that a
    write broke; `refuses` are paths that it refuses, `loses` those of which it keeps nothing."""

    objects: dict[str, Json] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    refuses: dict[str, KubeRefused] = field(default_factory=dict)
    loses: set[str] = field(default_factory=set)
    dry_runs: int = 0
    _applied: dict[tuple[str, str], Json] = field(default_factory=dict)
    _uids: int = 0

    def get(self, path: str) -> Json:
        if path not in self.objects:
            raise NotFound(404, "NotFound", f"{path} not found")
        return copy.deepcopy(self.objects[path])

    def list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList:
        root, _, plural = path.rpartition("/")
        items = [
            copy.deepcopy(found)
            for at, found in sorted(self.objects.items())
            if at.startswith(f"{root}/") and at.split("/")[-2] == plural
        ]
        return KubeList(items, "1", 1)

    def apply(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        force: bool,
        dry_run: bool = False,
        manager: str,
    ) -> Json:
        found = copy.deepcopy(self.objects.get(path, {}))
        key = (path, manager)
        _take(found, self._applied.get(key, {}), body)
        if found and not force and _conflicts(found, body):
            raise Conflict(409, "Conflict", "conflict with another manager")
        _give(found, body)
        if dry_run:
            self.dry_runs += 1
        else:
            self._applied[key] = copy.deepcopy(dict(body))
        return self._keep(path, found, dry_run=dry_run)

    def merge_patch(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Json:
        found = self.get(path)
        _merge(found, body)
        return self._keep(path, found, dry_run=dry_run)

    def delete(self, path: str, *, uid: str | None = None) -> None:
        found = self.objects.get(path)
        if found is None or uid not in (None, found["metadata"]["uid"]):
            return
        self.writes.append(f"delete {path}")
        for other in self.objects.values():
            if tuple(path.split("/")[-2:]) in _named(other):
                self.broken.append(f"{path} went before {other['metadata']['name']}")
        del self.objects[path]
        self._applied = {key: one for key, one in self._applied.items() if key[0] != path}

    def total(self) -> int:
        """GPUs of all nominal quotas."""
        return sum(
            int(cast(int, quantity(cell["nominalQuota"])))
            for found in self.objects.values()
            for group in (found.get("spec") or {}).get("resourceGroups", ())
            for flavor in group["flavors"]
            for cell in flavor["resources"]
            if cell["name"] == "nvidia.com/gpu"
        )

    def _keep(self, path: str, found: Json, *, dry_run: bool) -> Json:
        if path in self.refuses:
            raise self.refuses[path]
        if refusal := self._refusal(path, found):
            raise KubeRefused(422, "Invalid", refusal)
        if path in self.loses:
            return self.get(path) if path in self.objects else found
        if not dry_run:
            self.writes.append(path)
            self._check_order(found, self.objects.get(path, {}))
            if "uid" not in found["metadata"]:
                self._uids += 1
                found["metadata"]["uid"] = f"uid-{self._uids}"
            self.objects[path] = copy.deepcopy(found)
        return found

    def _refusal(self, path: str, found: Json) -> str:
        namespace = found["metadata"].get("namespace")
        if namespace and f"/api/v1/namespaces/{namespace}" not in self.objects:
            raise NotFound(404, "NotFound", f'namespaces "{namespace}" not found')
        spec = found.get("spec") or {}
        has_parent = bool(spec.get("parentName") or spec.get("cohortName"))
        for group in spec.get("resourceGroups", ()):
            for flavor in group["flavors"]:
                if [cell["name"] for cell in flavor["resources"]] != group["coveredResources"]:
                    return "flavors must have the same resources as the coveredResources"
                for cell in flavor["resources"]:
                    limits = [cell[n] for n in ("borrowingLimit", "lendingLimit") if n in cell]
                    if limits and not has_parent:
                        return "must be nil when parent is empty"
                    lends = int(quantity(cell.get("lendingLimit", "0")))
                    if "cohortName" in spec and lends > int(quantity(cell["nominalQuota"])):
                        return "must be less than or equal to the nominalQuota"
        return ""

    def refuses_now(self, path: str) -> bool:
        """Whether the object as it stands is one that Kueue would not take."""
        return bool(self._refusal(path, self.objects[path]))

    def _check_order(self, found: Json, before: Json) -> None:
        for plural, name in sorted(_named(found) - _named(before)):
            if f"/apis/kueue.x-k8s.io/v1beta2/{plural}/{name}" not in self.objects:
                self.broken.append(f"{found['kind']} before its {plural} {name}")


def a_control(api: FakeKubeApi, shape: Shape) -> KubernetesEntitlements:
    return KubernetesEntitlements(cast(KubeApi, api), shape)


def push(control: KubernetesEntitlements, wanted: Entitlements) -> list[str]:
    """Make all changes that do not wait; their subjects with what they do."""
    done = []
    for change in control.changes(wanted):
        if not change.is_blocked:
            control.apply(change)
            done.append(f"{change.kind} {change.subject}")
    return done


def _named(found: Json) -> set[tuple[str, str]]:
    """What the object names: kind and name."""
    spec = found.get("spec") or {}
    one = {
        ("cohorts", spec.get("parentName")),
        ("cohorts", spec.get("cohortName")),
        ("topologies", spec.get("topologyName")),
        ("clusterqueues", spec.get("clusterQueue")),
        *(("resourceflavors", name) for name in _flavors(spec)),
    }
    return {(plural, name) for plural, name in one if name}


def _flavors(spec: Json) -> Sequence[str]:
    return [
        flavor["name"] for group in spec.get("resourceGroups", ()) for flavor in group["flavors"]
    ]


def _conflicts(found: Json, body: Mapping[str, Any]) -> bool:
    return any(
        _conflicts(found[key], value)
        if isinstance(value, dict) and isinstance(found.get(key), dict)
        else key in found and found[key] != value
        for key, value in body.items()
    )


def _take(found: Json, applied: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    """What was applied before and is not any more goes."""
    for key, value in applied.items():
        if key not in body:
            if isinstance(value, dict) and isinstance(found.get(key), dict):
                _take(found[key], value, {})
                if not found[key]:
                    del found[key]
            else:
                found.pop(key, None)
        elif isinstance(value, dict) and isinstance(body[key], dict):
            _take(found.setdefault(key, {}), value, body[key])


def _give(found: Json, body: Mapping[str, Any]) -> None:
    for key, value in body.items():
        if isinstance(value, dict) and key != "matchLabels":
            _give(found.setdefault(key, {}), value)
        elif key == "admissionChecks":
            named = {one["name"]: dict(one) for one in found.get(key, ())}
            for one in value:
                named[one["name"]] = {**named.get(one["name"], {}), **one}
            found[key] = list(named.values())
        else:
            found[key] = copy.deepcopy(value)


def _merge(found: Json, body: Mapping[str, Any]) -> None:
    for key, value in body.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            _merge(found.setdefault(key, {}), value)
        else:
            found[key] = copy.deepcopy(value)


def queue_path(team: str) -> str:
    """Where the queue of a team is."""
    return f"{KUEUE}/clusterqueues/{team}"


def cell(found: dict[str, Any], flavor: str = "h100", name: str = "nvidia.com/gpu") -> Any:
    """The quota that a queue or cohort has of a flavor's resource."""
    (group,) = found["spec"]["resourceGroups"]
    (one,) = (one for one in group["flavors"] if one["name"] == flavor)
    (it,) = (it for it in one["resources"] if it["name"] == name)
    return it


def told(changes: tuple[Change, ...]) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Kind, subject, before and after of each."""
    return [(c.kind.value, c.subject, dict(c.before), dict(c.after)) for c in changes]


def pushed(api: FakeKubeApi, mode: str = "shared") -> None:
    """The tree of a company is there, and no write counts yet."""
    push(a_control(api, kube_shape(mode)), a_company_tree())
    assert api.broken == []
    api.writes.clear()


#: The cohort above it.
TOP = kube_shape().top_cohort

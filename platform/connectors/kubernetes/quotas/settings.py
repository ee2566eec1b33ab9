"""Our part of an object: read from the cluster, and written as a manifest. Pure.

The *settings* of a thing are our part of it in flat form, as people see them in a difference.
`settings_of` reads them from an object of the cluster. `manifest` is its inverse and writes the
object with them. Other settings of an administrator are left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from connectors.entitlements import Value
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.naming import CLUSTER, MANAGED_BY, MANAGED_BY_US, PATH, TEAM
from connectors.kubernetes.quotas.cells import (
    BORROWS,
    LENDS,
    NOTHING,
    UNSET,
    Cell,
    cell_in,
    cell_of,
    cell_settings,
    cells_in,
    compact,
    expanded,
    limits_in,
    line_of,
    quantity,
    quota_of,
)
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
    WIDE,
    Json,
    Shape,
    labels_of,
    path_of,
)

POD_SECURITY = "pod-security.kubernetes.io/enforce"
#: The prefix of a device resource in limits of objects.
GPU_REQUESTS = "requests."
#: Far above the needs of teams, and far below what harms an API server.
OBJECTS_MAX: Mapping[str, int] = {
    "pods": 10_000,
    "count/jobs.batch": 100_000,
    "count/configmaps": 100_000,
    "count/services": 5_000,
    "services.nodeports": 0,
    "services.loadbalancers": 0,
}


def settings_of(thing: str, found: Json, shape: Shape) -> dict[str, Value]:
    """Return our settings of the object `found`."""
    return _READERS[thing](found, shape)


def _read_topology(found: Json, shape: Shape) -> dict[str, Value]:
    return {"levels": [str(level.get("nodeLabel")) for level in found["spec"].get("levels", ())]}


def _read_flavor(found: Json, shape: Shape) -> dict[str, Value]:
    spec = found.get("spec") or {}
    return {
        "node_labels": sorted(f"{k}={v}" for k, v in (spec.get("nodeLabels") or {}).items()),
        "tolerations": sorted(json_text(one) for one in spec.get("tolerations") or ()),
        "topology": spec.get("topologyName"),
    }


def _read_class(found: Json, shape: Shape) -> dict[str, Value]:
    return {"value": found.get("value")}


def _read_check(found: Json, shape: Shape) -> dict[str, Value]:
    return {"controller": found["spec"].get("controllerName")}


def _read_cohort(found: Json, shape: Shape) -> dict[str, Value]:
    spec = found.get("spec") or {}
    cells = cells_in(spec)
    settings: dict[str, Value] = {
        "path": path_of(found) or None,
        "parent": spec.get("parentName"),
        "weight": _weight(spec),
    }
    for pool in shape.pools:
        nominal, borrows, lends = cells.pop((pool.flavor, pool.resource), UNSET)
        settings |= cell_settings(pool, nominal, borrows, lends)
    # Every flavor of a group lists all of its resources, even without any units.
    settings["other_quota"] = sorted(
        line_of(flavor, resource, cell)
        for (flavor, resource), cell in cells.items()
        if cell != UNSET
    )
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
    cells = cells_in(spec)
    own = {(pool.flavor, pool.resource): cell_of(pool) for pool in shape.pools}
    for flavor in shape.flavors:
        for resource in (*shape.wide_resources, *shape.resources):
            nominal, borrows, lends = cells.get((flavor, resource), NOTHING)
            cell = f"{flavor} {resource}"
            if (flavor, resource) in own:
                shown = None if nominal == WIDE else nominal
                settings |= {cell: shown, cell + BORROWS: borrows, cell + LENDS: lends}
            else:
                settings[cell] = compact(resource, (nominal, borrows, lends))
    return settings


def _read_namespace(found: Json, shape: Shape) -> dict[str, Value]:
    labels = labels_of(found)
    return {
        "path": path_of(found) or None,
        "team": labels.get(TEAM),
        "pod_security": labels.get(POD_SECURITY),
        "pod_security_version": labels.get(f"{POD_SECURITY}-version"),
    }


def _read_policy(found: Json, shape: Shape) -> dict[str, Value]:
    return {"rules": json_text(found.get("spec") or {})}


def _read_limits(found: Json, shape: Shape) -> dict[str, Value]:
    hard = (found.get("spec") or {}).get("hard") or {}
    named = [*OBJECTS_MAX, *(GPU_REQUESTS + resource for resource in shape.resources)]
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


def manifest(thing: str, name: str, settings: Mapping[str, Value], shape: Shape) -> Json:
    """Return the object with `settings`, which must be complete.

    A None in it means that the object must not have the field; `for_apply` and `for_merge_patch`
    express that.
    """
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
    """Return `body` for server-side apply: only our part, without entries of others in a list."""
    body = _without_none(body)
    strategy = body.get("spec", {}).get("admissionChecksStrategy")
    if strategy:
        ours = [one for one in strategy["admissionChecks"] if one["name"] == naming.ADMISSION_CHECK]
        strategy["admissionChecks"] = ours
    return body


def for_merge_patch(body: Json) -> Json:
    """Return `body` as a merge patch: None removes a field, and a list replaces the list."""
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
    # A resource may be in only one group, and every flavor of a group lists all of its resources.
    filled = {
        (pool.flavor, pool.resource): cell
        for pool in shape.pools
        if (cell := limits_in(settings, cell_of(pool))) != UNSET
    }
    filled |= map(cell_in, _texts(settings["other_quota"]))
    if filled:
        flavors = _in_order(shape.flavors, {flavor for flavor, _ in filled})
        resources = _in_order(shape.device_resources, {resource for _, resource in filled})
        groups = [
            {
                "coveredResources": resources,
                "flavors": [
                    {
                        "name": flavor,
                        "resources": [
                            quota_of(name, filled.get((flavor, name), UNSET)) for name in resources
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

    def cell(flavor: str, resource: str) -> Cell:
        if (flavor, resource) in own:
            nominal, borrows, lends = limits_in(settings, own[flavor, resource])
            return WIDE if nominal is None else nominal, borrows, lends
        return expanded(resource, settings.get(f"{flavor} {resource}", 0))

    flavors = [
        {"name": flavor, "resources": [quota_of(name, cell(flavor, name)) for name in resources]}
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


def json_text(value: Any) -> str:
    """Return `value` as JSON in the canonical form for comparisons."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _texts(value: Value) -> list[str]:
    return list(value) if isinstance(value, list) else []


def _in_order(ours: Sequence[str], names: Collection[str]) -> list[str]:
    """Return `names`: first those of `ours` in their order, then the others."""
    return [name for name in ours if name in names] + sorted(set(names).difference(ours))


def _weight(spec: Json) -> Value:
    return quantity((spec.get("fairSharing") or {}).get("weight", "1"))


def _selected(selector: Json | None) -> list[str]:
    """Return the labels that a namespace must have; anything else is unchanged."""
    if selector is None:
        return ["none"]
    found = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    return sorted(found) + [json_text(one) for one in selector.get("matchExpressions") or ()]


def _check_text(check: Json) -> str:
    only = check.get("onFlavors")
    return f"{check.get('name')} on {','.join(only)}" if only else str(check.get("name"))


def _check_of(text: str) -> Json:
    name, _, only = text.partition(" on ")
    return {"name": name, "onFlavors": only.split(",") if only else None}

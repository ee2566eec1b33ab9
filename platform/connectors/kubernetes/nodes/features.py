"""Features of nodes as labels of a Kubernetes cluster, and the affinity of Pods to nodes. No I/O.

Option `features` maps a feature to a label, or to a label with a value. Any other feature NAME is
label `feature.node.kubernetes.io/NAME`, which Node Feature Discovery sets, with any value but
"false".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.options.options import FEATURE_PREFIX, is_label_name

#: By feature a label of nodes and its value, or None for any; `KubernetesOptions.features`.
Features = Mapping[str, tuple[str, str | None]]

#: The field of a node affinity that binds the scheduler.
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
#: The longest feature that a job can ask for, and the most features listed per node.
_LENGTH_MAX = 64
_FEATURES_MAX = 200
_NO = "false"


def feature_terms(wanted: tuple[str, ...], features: Features) -> list[dict[str, Any]]:
    """Return the node affinity expressions that only nodes with all of `wanted` match.

    Raises WorkloadRejected for a feature that cannot be a label.
    """
    terms: list[dict[str, Any]] = []
    for feature in dict.fromkeys(wanted):
        if feature in features:
            key, value = features[feature]
            if value is None:
                terms.append({"key": key, "operator": "Exists"})
            else:
                terms.append({"key": key, "operator": "In", "values": [value]})
            continue
        if not is_label_name(feature):
            raise WorkloadRejected(
                f"feature {feature[:80]!r} can be no label of this cluster's nodes; use one of "
                "theirs, or have its administrators add it to option features"
            )
        key = f"{FEATURE_PREFIX}{feature}"
        terms.append({"key": key, "operator": "Exists"})
        terms.append({"key": key, "operator": "NotIn", "values": [_NO]})
    return terms


def without_nodes(terms: Sequence[Mapping[str, Any]], nodes: Sequence[str]) -> list[dict[str, Any]]:
    """Return node selector terms for the nodes of `terms`, without the named nodes.

    No terms stand for all nodes, and an empty term for none, as in Kubernetes. A field takes one
    name only, so there is an entry for each node.
    """
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    if not fields:
        return [dict(term) for term in terms]
    if not terms:
        return [{"matchFields": fields}]
    return [
        {**term, "matchFields": [*(term.get("matchFields") or ()), *fields]}
        if term.get("matchExpressions") or term.get("matchFields")
        else dict(term)
        for term in terms
    ]


def features_of(labels: Mapping[str, str], features: Features) -> tuple[str, ...]:
    """Return the sorted features of a node with `labels`, as `feature_terms` match them."""
    found = {
        name.removeprefix(FEATURE_PREFIX)
        for name, value in labels.items()
        if name.startswith(FEATURE_PREFIX) and value != _NO
    }
    # Only the options decide about a feature that they define.
    found -= features.keys()
    found |= {
        feature
        for feature, (key, value) in features.items()
        if key in labels and value in (None, labels[key])
    }
    return tuple(sorted(one for one in found if len(one) <= _LENGTH_MAX)[:_FEATURES_MAX])

"""What a feature of a node is on a Kubernetes cluster: one of its labels. No I/O.

A feature that option `features` has is the label, or label with a value, that it says there. Any
other feature NAME is label `feature.node.kubernetes.io/NAME`, which Node Feature Discovery sets,
with whatever value but "false".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.options.options import FEATURE_PREFIX, is_label_name

#: By feature a label of nodes and its value, or None for any; `KubernetesOptions.features`.
Features = Mapping[str, tuple[str, str | None]]

#: The longest feature that a job can ask for, and the most that are told of one node.
_LENGTH_MAX = 64
_FEATURES_MAX = 200
_NO = "false"


def feature_terms(wanted: tuple[str, ...], features: Features) -> list[dict[str, Any]]:
    """The expressions of a node affinity that only nodes with all of `wanted` match.

    Raises WorkloadRejected for a feature that can be no label.
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


def features_of(labels: Mapping[str, str], features: Features) -> tuple[str, ...]:
    """The features of a node with `labels`, sorted: those that `feature_terms` match on it."""
    found = {
        name.removeprefix(FEATURE_PREFIX)
        for name, value in labels.items()
        if name.startswith(FEATURE_PREFIX) and value != _NO
    }
    # A feature that the options define is theirs alone.
    found -= features.keys()
    found |= {
        feature
        for feature, (key, value) in features.items()
        if key in labels and value in (None, labels[key])
    }
    return tuple(sorted(one for one in found if len(one) <= _LENGTH_MAX)[:_FEATURES_MAX])

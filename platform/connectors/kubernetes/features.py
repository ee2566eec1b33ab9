"""What a feature of a node is on a Kubernetes cluster: one of its labels. No I/O.

A feature that option `features` has is the label, or label with a value, that it says there. Any
other feature NAME is label `feature.node.kubernetes.io/NAME`, which Node Feature Discovery sets,
with whatever value but "false".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.errors import WorkloadRejected
from connectors.kubernetes.options import FEATURE_PREFIX, KubernetesOptions, is_label_name

_NO = "false"


def feature_terms(features: tuple[str, ...], options: KubernetesOptions) -> list[dict[str, Any]]:
    """The expressions of a node affinity that only nodes with all of `features` match.

    Raises WorkloadRejected for a feature that can be no label.
    """
    terms: list[dict[str, Any]] = []
    for feature in dict.fromkeys(features):
        key, value = _label(feature, options)
        if value is not None:
            terms.append({"key": key, "operator": "In", "values": [value]})
        else:
            terms.append({"key": key, "operator": "Exists"})
            terms.append({"key": key, "operator": "NotIn", "values": [_NO]})
    return terms


def features_of(labels: Mapping[str, str], options: KubernetesOptions) -> tuple[str, ...]:
    """The features of a node with `labels`, sorted."""
    found = {
        feature
        for feature, (key, value) in options.features.items()
        if key in labels and (labels[key] == value if value is not None else labels[key] != _NO)
    }
    found |= {
        name.removeprefix(FEATURE_PREFIX)
        for name, value in labels.items()
        if name.startswith(FEATURE_PREFIX)
        and value != _NO
        and name.removeprefix(FEATURE_PREFIX) not in options.features
    }
    return tuple(sorted(found))


def _label(feature: str, options: KubernetesOptions) -> tuple[str, str | None]:
    if feature in options.features:
        return options.features[feature]
    if not is_label_name(feature):
        raise WorkloadRejected(
            f"feature {feature[:80]!r} can be no label of this cluster's nodes; use one of theirs, "
            "or have its administrators add it to option features"
        )
    return f"{FEATURE_PREFIX}{feature}", None

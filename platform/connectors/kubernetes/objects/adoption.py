"""Recognizes objects that we created before. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.kubernetes.objects.attempts import has_controller
from connectors.kubernetes.objects.naming import CREATOR, PRIORITY_LABEL


def is_as_made(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Return whether `found`, with the name and key of `wanted`, is one that we created.

    It must have the same namespace and labels. Neither a native user nor a controller may have
    created it. Its content may differ: a second submission of a key changes nothing.
    """
    metadata = found.get("metadata") or {}
    if metadata.get("namespace") != wanted["metadata"]["namespace"]:
        return False
    if CREATOR in (metadata.get("annotations") or {}) or has_controller(found):
        return False
    labels = metadata.get("labels") or {}
    return all(
        labels.get(name) == value
        for name, value in wanted["metadata"]["labels"].items()
        if name != PRIORITY_LABEL
    )

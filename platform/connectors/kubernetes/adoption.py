"""Whether an object that is there is the one that we would create: made before, by us. Pure.

Names and annotations can be written by others, too. What is adopted must be what was asked for:
all that we say, and none of what would make a Pod run or hold more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from connectors.kubernetes.attempts import has_controller
from connectors.kubernetes.observing import CREATOR

#: What Kueue, the controllers and we ourselves change after an object was created.
_CHANGED_LATER = frozenset({"suspend", "tolerations"})
#: What makes a Pod run or hold more than it was asked to.
_ADDS = frozenset({"initContainers", "ephemeralContainers", "envFrom", "lifecycle"})
#: What the API server writes as it likes: "12000m" is "12".
_QUANTITIES = frozenset({"requests", "limits", "minResources", "sizeLimit"})
_FACTORS: Mapping[str, Decimal] = {
    "m": Decimal("0.001"),
    **{suffix: Decimal(1_000**power) for power, suffix in enumerate(("", "k", "M", "G", "T", "P"))},
    **{f"{suffix}i": Decimal(1_024**power) for power, suffix in enumerate("KMGTP", 1)},
}


def is_as_made(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether `found`, which has the name and the key of `wanted`, is what comes of creating it.

    Fields that the server fills in may be there beside those that we write.
    """
    metadata = found.get("metadata") or {}
    if metadata.get("namespace") != wanted["metadata"]["namespace"]:
        return False
    if CREATOR in (metadata.get("annotations") or {}) or has_controller(found):
        return False
    labels = metadata.get("labels") or {}
    if any(labels.get(name) != value for name, value in wanted["metadata"]["labels"].items()):
        return False
    for name in ("spec", "data"):
        if not _is_in(wanted.get(name), found.get(name)):
            return False
    return not set(found.get("data") or ()) - set(wanted.get("data") or ())


def _is_in(wanted: Any, found: Any, *, is_quantity: bool = False) -> bool:
    if isinstance(wanted, Mapping):
        if found is not None and not isinstance(found, Mapping):
            return False
        there: Mapping[str, Any] = found or {}
        if any(there.get(name) and not wanted.get(name) for name in _ADDS):
            return False
        return all(
            name in _CHANGED_LATER
            or _is_in(value, there.get(name), is_quantity=is_quantity or name in _QUANTITIES)
            for name, value in wanted.items()
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        listed = [] if found is None else found
        return (
            isinstance(listed, list)
            and len(wanted) == len(listed)
            and all(
                _is_in(*each, is_quantity=is_quantity) for each in zip(wanted, listed, strict=True)
            )
        )
    if is_quantity and isinstance(wanted, str):
        return _amount(wanted) == _amount(found)
    # What is empty may be left out by the server.
    return bool(wanted == found or (not wanted and found is None))


def _amount(quantity: Any) -> Decimal | None:
    text = str(quantity)
    digits = text.rstrip("mkKMGTPi")
    try:
        return Decimal(digits) * _FACTORS[text[len(digits) :]]
    except (InvalidOperation, KeyError):
        return None

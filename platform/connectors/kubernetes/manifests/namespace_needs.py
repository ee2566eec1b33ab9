"""The demands of Pods on their namespace: objects that they name, and its ResourceQuotas. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from connectors.kubernetes.objects.reading import Object, Odd, part, parts, text
from connectors.kubernetes.objects.resources import (
    CONFIG_MAP,
    SECRET,
    VOLUME_CLAIM,
    Resource,
)
from manifests.documents import Path
from manifests.fields import quantity_of

#: Resources that a ResourceQuota may name without the word `requests.`.
_PLAIN = ("cpu", "memory", "ephemeral-storage")
_NUMBER_OF_PODS = ("pods", "count/pods")
#: The beginning of Pod Security's sentence, whether it refuses or warns.
_SECURITY = re.compile(r"(?:would )?violates? PodSecurity \"([^\"]*)\": (.*)", re.DOTALL)


class Named(NamedTuple):
    """An object of the namespace that a Pod needs: its kind, its name, and the field with it."""

    kind: Resource
    name: str
    path: Path


def named_in(spec: Object, path: Path) -> Iterator[Named]:
    """Yield the objects without which a Pod with `spec`, found at `path`, cannot start.

    Objects marked as optional are left out. Each object is yielded once.
    """
    seen = set()
    for one in _named_in(spec, path):
        if one[:2] not in seen and one.name:
            seen.add(one[:2])
            yield one


def _named_in(spec: Object, path: Path) -> Iterator[Named]:
    for number, volume in enumerate(parts(spec, "volumes")):
        at = (*path, "volumes", number)
        yield from _source(CONFIG_MAP, volume, (*at, "configMap"), "name")
        yield from _source(SECRET, volume, (*at, "secret"), "secretName")
        yield from _source(VOLUME_CLAIM, volume, (*at, "persistentVolumeClaim"), "claimName")
        for place, source in enumerate(parts(volume, "projected", "sources")):
            below = (*at, "projected", "sources", place)
            yield from _source(CONFIG_MAP, source, (*below, "configMap"), "name")
            yield from _source(SECRET, source, (*below, "secret"), "name")
    for group in ("initContainers", "containers"):
        for number, container in enumerate(parts(spec, group)):
            at = (*path, group, number)
            for place, source in enumerate(parts(container, "envFrom")):
                below = (*at, "envFrom", place)
                yield from _source(CONFIG_MAP, source, (*below, "configMapRef"), "name")
                yield from _source(SECRET, source, (*below, "secretRef"), "name")
            for place, variable in enumerate(parts(container, "env")):
                value = part(variable, "valueFrom")
                below = (*at, "env", place, "valueFrom")
                yield from _source(CONFIG_MAP, value, (*below, "configMapKeyRef"), "name")
                yield from _source(SECRET, value, (*below, "secretKeyRef"), "name")


def _source(kind: Resource, item: Object, path: Path, member: str) -> Iterator[Named]:
    found = part(item, str(path[-1]))
    if found and not found.get("optional"):
        yield Named(kind, text(found, member), (*path, member))


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a ResourceQuota of the namespace has less than the Pods need.

    `left` is what it has left now, and `hard` its limit.
    """

    quota: str
    resource: str
    needed: Decimal
    hard: Decimal
    left: Decimal

    @property
    def is_for_ever(self) -> bool:
        """Return whether the Pods need more than the limit itself."""
        return self.needed > self.hard


def shortages(quotas: Iterable[Object], pods: Iterable[tuple[int, Object]]) -> tuple[Shortage, ...]:
    """Return where `quotas` have less than the Pods need at once, given by count and spec.

    A ResourceQuota for some Pods only, by scopes, is left out.
    """
    needed = _needed(pods)
    found = []
    for quota in quotas:
        if parts(quota, "spec", "scopeSelector", "matchExpressions") or quota["spec"].get("scopes"):
            continue
        used = part(quota, "status", "used")
        for resource, limit in part(quota, "spec", "hard").items():
            hard, amount = quantity_of(limit), needed.get(resource, Decimal(0))
            left = None if hard is None else hard - (quantity_of(used.get(resource, 0)) or 0)
            if hard is not None and left is not None and amount > left:
                name = text(quota, "metadata", "name")
                found.append(Shortage(name, resource, amount, hard, left))
    return tuple(found)


def _needed(pods: Iterable[tuple[int, Object]]) -> Mapping[str, Decimal]:
    """Return what Pods need by the names that ResourceQuotas have for it."""
    found: Counter[str] = Counter()
    for count, spec in pods:
        for word in _NUMBER_OF_PODS:
            found[word] += count
        for which in ("requests", "limits"):
            for resource, amount in _sums(spec, which).items():
                found[f"{which}.{resource}"] += amount * count  # type: ignore[assignment]
                if which == "requests" and resource in _PLAIN:
                    found[resource] += amount * count  # type: ignore[assignment]
    return {name: Decimal(amount) for name, amount in found.items()}


def requests_of(spec: Object) -> Mapping[str, Decimal]:
    """Return the most that a Pod with `spec` requests at once, by resource."""
    return _sums(spec, "requests")


def _sums(spec: Object, which: str) -> Mapping[str, Decimal]:
    """Return the most that the containers of a Pod ask for at once, by resource.

    A limit is the request, too, where a container has none of its own.
    """
    asked = {
        id(one): {
            **(part(one, "resources", "limits") if which == "requests" else {}),
            **part(one, "resources", which),
        }
        for group in ("initContainers", "containers")
        for one in parts(spec, group)
    }
    return {
        name: _most(spec, lambda one, name=name: asked[id(one)].get(name, 0))  # type: ignore[misc]
        for name in {name for resources in asked.values() for name in resources}
    }


def _most(spec: Object, asked: Callable[[Object], Any]) -> Decimal:
    """Return the most at once: init containers run one by one, beside sidecars before them."""

    def amount(container: Object) -> Decimal:
        return quantity_of(asked(container)) or Decimal(0)

    sidecars = most = Decimal(0)
    for one in parts(spec, "initContainers"):
        most = max(most, sidecars + amount(one))
        if text(one, "restartPolicy") == "Always":
            sidecars += amount(one)
    return max(most, sidecars + sum(map(amount, parts(spec, "containers")), Decimal(0)))


def security_advice(message: str) -> str:
    """Return what Pod Security says in `message`; "" if it says nothing."""
    found = _SECURITY.search(message)
    if found is None:
        return ""
    return f'Pod Security "{found[1]}" of the namespace refuses its Pods: {found[2].strip()}'


def at_path(item: Any, path: Path) -> Object:
    """Return the part of `item` at `path`. Raises Odd where there is none."""
    found: Any = item
    for step in path:
        try:
            found = found[step]
        except (KeyError, IndexError, TypeError):
            raise Odd(f"it has no {path[-1]}") from None
    if not isinstance(found, dict):
        raise Odd(f"{path[-1]} is no object")
    return found

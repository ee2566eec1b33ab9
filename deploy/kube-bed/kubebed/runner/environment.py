"""A container's environment and command, as Kubernetes makes them from the Pod. Pure.

Sources: https://kubernetes.io/docs/tasks/inject-data-application/ and, for `$(NAME)`, the package
third_party/forked/golang/expansion of k8s.io/kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

Document = Mapping[str, Any]
#: (kind "configmaps" or "secrets", name) -> its data, or None if there is no such object.
Fetch = Callable[[str, str], Mapping[str, str] | None]

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFERENCE = re.compile(r"\$(?:(\$)|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"(metadata\.(?:labels|annotations))\['(.+)'\]")
_ENV_NAME = re.compile(r"[ -<>-~]+")
_QUANTITY = re.compile(r"([0-9.]+)([a-zA-Z]*)")
_FACTORS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
}


class CannotConfigure(Exception):
    """What the Pod asks for is not there; a kubelet says CreateContainerConfigError."""


def expand(text: str, values: Mapping[str, str]) -> str:
    """`$(NAME)` becomes its value and stays as it is where there is none; `$$` becomes `$`."""

    def one(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        return values.get(found[2], found[0])

    return _REFERENCE.sub(one, text)


def environment(
    pod: Document, container: Document, base: Mapping[str, str], fetch: Fetch
) -> dict[str, str]:
    """Every variable of the container. Raises CannotConfigure."""
    values = dict(base)
    for source in container.get("envFrom") or ():
        values.update(_from_object(source, fetch))
    for entry in container.get("env") or ():
        if "valueFrom" in entry:
            value = _from_reference(pod, container, entry["valueFrom"], fetch)
            if value is None:
                continue
        else:
            value = expand(entry.get("value", ""), values)
        values[entry["name"]] = value
    return values


def command(container: Document, values: Mapping[str, str]) -> tuple[str, ...]:
    """`command` and `args`, expanded; there is no image whose own command could stand in."""
    words: Sequence[str] = [*(container.get("command") or ()), *(container.get("args") or ())]
    return tuple(expand(word, values) for word in words)


def field(pod: Document, path: str) -> str:
    """What a fieldRef says. Raises CannotConfigure for a field that it may not name."""
    metadata, spec = pod["metadata"], pod["spec"]
    if found := _SUBSCRIPT.fullmatch(path):
        kind = found[1].partition(".")[2]
        return str((metadata.get(kind) or {}).get(found[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata[path.partition(".")[2]])
        case "metadata.labels" | "metadata.annotations":
            entries = metadata.get(path.partition(".")[2]) or {}
            return "\n".join(f"{key}={quoted(entries[key])}" for key in sorted(entries))
        case "spec.nodeName":
            return str(spec["nodeName"])
        case "spec.serviceAccountName":
            return str(spec.get("serviceAccountName", ""))
        case "status.hostIP" | "status.podIP":
            return str(pod.get("status", {}).get(path.partition(".")[2], ""))
        case "status.hostIPs" | "status.podIPs":
            return str(pod.get("status", {}).get(path.partition(".")[2][:-1], ""))
    raise CannotConfigure(f"unsupported fieldPath: {path}")


def resource(container: Document, reference: Document) -> str:
    """What a resourceFieldRef says: whole units of the divisor, rounded up."""
    kind, _, name = str(reference["resource"]).partition(".")
    amounts = container.get("resources", {}).get(kind) or {}
    divisor = quantity(str(reference.get("divisor", "1"))) or Fraction(1)
    return str(-(-quantity(str(amounts.get(name, "0"))) // divisor))


def quantity(text: str) -> Fraction:
    """The number that Kubernetes writes as `100m` or `2Gi`."""
    found = _QUANTITY.fullmatch(text)
    if not found or found[2] not in _FACTORS:
        raise CannotConfigure(f"not a quantity: {text}")
    return Fraction(found[1]) * _FACTORS[found[2]]


def quoted(text: str) -> str:
    """As Go's %q writes it."""
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    pieces = [short.get(one) or (one if one.isprintable() else _escaped(one)) for one in text]
    return f'"{"".join(pieces)}"'


def _escaped(one: str) -> str:
    number = ord(one)
    if number < 0x80:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _from_object(source: Document, fetch: Fetch) -> dict[str, str]:
    kind = "configmaps" if "configMapRef" in source else "secrets"
    reference = source.get("configMapRef") or source.get("secretRef") or {}
    data = fetch(kind, reference["name"])
    if data is None:
        if reference.get("optional"):
            return {}
        raise CannotConfigure(_not_found(kind, reference["name"]))
    prefix = source.get("prefix", "")
    return {
        f"{prefix}{key}": value for key, value in data.items() if _ENV_NAME.fullmatch(prefix + key)
    }


def _from_reference(
    pod: Document, container: Document, source: Document, fetch: Fetch
) -> str | None:
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return resource(container, source["resourceFieldRef"])
    kind = "configmaps" if "configMapKeyRef" in source else "secrets"
    reference = source.get("configMapKeyRef") or source.get("secretKeyRef") or {}
    data = fetch(kind, reference["name"])
    if data is not None and reference["key"] in data:
        return data[reference["key"]]
    if reference.get("optional"):
        return None
    if data is None:
        raise CannotConfigure(_not_found(kind, reference["name"]))
    what = "ConfigMap" if kind == "configmaps" else "Secret"
    raise CannotConfigure(
        f"couldn't find key {reference['key']} in {what} "
        f"{pod['metadata']['namespace']}/{reference['name']}"
    )


def _not_found(kind: str, name: str) -> str:
    return f'{kind.removesuffix("s")} "{name}" not found'

"""ConfigMaps, Secrets and Services in the file of a job, which its Pods name."""

from __future__ import annotations

from collections.abc import Mapping

from manifests.fields import Field
from manifests.services import SERVICE, check_service

_COMMON = frozenset({"apiVersion", "kind", "metadata", "data", "immutable"})
#: The fields of the kinds that a manifest may have beside its job. All are of the core API, v1.
OTHER_OBJECTS: Mapping[str, frozenset[str]] = {
    "ConfigMap": _COMMON | {"binaryData"},
    "Secret": _COMMON | {"stringData", "type"},
    SERVICE: frozenset({"apiVersion", "kind", "metadata", "spec"}),
}
_PLAIN = "Opaque"


def read_other_object(top: Field, kind: str) -> str | None:
    """Check the object, and return its name. Other fields than its content are refused."""
    if top.at("apiVersion").value != "v1":
        top.at("apiVersion").refuse("must be v1")
    name = top.at("metadata", "name").text()
    if not name:
        top.at("metadata", "name").refuse(f"is required: Pods name the {kind} by it")
    for group in ("data", "binaryData", "stringData"):
        top.at(group).texts()
    if kind == SERVICE:
        check_service(top.at("spec"))
        top.note("its name is a new one in each attempt, and in command, args and env of the Pods")
    if kind == "Secret":
        if top.at("type").text() not in (None, _PLAIN):
            top.at("type").refuse(f"must be {_PLAIN}; create others in the team's namespace")
        top.note("the portal keeps the file, so that whoever may read the job's script sees it")
    return name

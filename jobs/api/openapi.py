"""The parts of OpenAPI that no serializer of jobs gives: the request, and the tokens of attempts.

The application loads it at its start, like `tenants.api.openapi`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.extensions import (
    OpenApiAuthenticationExtension,
    OpenApiSerializerExtension,
)
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent

from jobs.submission.job_members import STORED, JobMembers


class AttemptScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The checkpoint token of an attempt in OpenAPI."""

    target_class = "jobs.api.checkpoints.AttemptAuthentication"
    name = "attemptToken"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """Return the definition of HTTP bearer authentication."""
        return _bearer(
            "tgc_, the attempt's number and a signature",
            "The token of a running attempt, in its TIDEGATE_CHECKPOINT_TOKEN.",
        )


class JobTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The token of a running job in OpenAPI."""

    target_class = "jobs.api.job_tokens.JobTokenAuthentication"
    name = "jobToken"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        """Return the definition of HTTP bearer authentication."""
        return _bearer(
            "tgj_, the job, the attempt's number and a signature",
            "The token of a running job, in its TIDEGATE_TOKEN.",
        )


def _bearer(form: str, description: str) -> dict[str, Any]:
    return {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": form,
        "description": description,
    }


class RequestedJob(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """The job request, as `JobMembers` declares it."""

    target_class = "jobs.api.serializers.JobRequestSerializer"

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        """Return the schema of the request; schemas that it refers to become components."""
        schema = JobMembers.model_json_schema(ref_template="#/components/schemas/{model}")
        known = schema.get("$defs", {})
        for name, found in known.items():
            if "enum" not in found:
                component = ResolvedComponent(  # type: ignore[no-untyped-call]
                    name=name, type=ResolvedComponent.SCHEMA, schema=_object(found, known)
                )
                auto_schema.registry.register_on_missing(component)
        return _object(schema, known)


class ShownMembers(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    """A body that shows stored members of the job request beside its own fields."""

    target_class = "jobs.api.serializers.ShowsStored"
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        """Return the schema of the fields and of the stored members, which are all required."""
        schema: dict[str, Any] = auto_schema._map_serializer(  # type: ignore[no-untyped-call]
            self.target, direction, bypass_extensions=True
        )
        declared = JobMembers.model_json_schema()
        for name in self.target.stored:
            shown = _member(declared["properties"][name], declared.get("$defs", {}))
            shown = {key: shown[key] for key in _SHAPE & shown.keys()}
            if getattr(JobMembers.model_fields[name], "default", ...) is None:
                shown["type"] = [shown["type"], "null"]
                if "enum" in shown:
                    shown["enum"] = [*shown["enum"], None]
            if STORED[name].help:
                shown["description"] = STORED[name].help
            schema["properties"][name] = shown
        schema["required"] = sorted({*schema.get("required", ()), *self.target.stored})
        return schema


#: What a shown member has of its declaration. Bounds and defaults are for requests.
_SHAPE = frozenset({"type", "format", "items", "enum", "additionalProperties"})


def _object(schema: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object as OpenAPI has it here."""
    return {
        "type": "object",
        "description": schema["description"],
        "properties": {
            name: _member(member, known) for name, member in schema["properties"].items()
        },
        "required": schema["required"],
    }


def _member(schema: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a member without its title, and without null, which means absent."""
    plain = dict(schema)
    plain.pop("title", None)
    if plain.get("default", ...) in (None, []):
        del plain["default"]
    for option in plain.pop("anyOf", ()):
        if option != {"type": "null"}:
            plain = {**option, **plain}
    name = plain.get("$ref", "").rsplit("/", 1)[-1]
    if "enum" in known.get(name, {}):
        del plain["$ref"]
        plain = {"type": known[name]["type"], "enum": known[name]["enum"], **plain}
    return plain

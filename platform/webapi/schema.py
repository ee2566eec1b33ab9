"""Settings of OpenAPI that all endpoints share."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema

from webapi.deprecation import deprecation_of


class PortalSchema(AutoSchema):
    """Derives operation ids from method and path, and one tag per resource."""

    def get_tags(self) -> list[str]:
        """Return the resource's name, which is the first step after the version."""
        steps = [step for step in self.path.split("/") if step and "{" not in step]
        return [steps[2] if len(steps) > 2 else "tidegate"]

    def get_operation(self, *given: Any, **options: Any) -> dict[str, Any] | None:
        """Return the operation. One that also answers unknown callers says so: `security: []`.

        The description of a deprecated one names its end and its successor.
        """
        operation: dict[str, Any] | None = super().get_operation(*given, **options)
        if operation is not None:
            operation.setdefault("security", [])
            if (notice := deprecation_of(self.view, self.method)) is not None:
                operation["deprecated"] = True
                words = [operation.get("description", ""), notice.sentence]
                operation["description"] = " ".join(filter(None, words))
        return operation

    def get_operation_id(self) -> str:
        """Return method and path in words, which are unique because routes are.

        Examples are `get_jobs`, `get_jobs_by_job_id` and `post_jobs_by_job_id_cancel`.
        """
        steps = self.path.removeprefix("/api/v1/").split("/")
        words = [f"by_{step[1:-1]}" if step.startswith("{") else step for step in steps]
        return "_".join([self.method.lower(), *words]).replace("-", "_")

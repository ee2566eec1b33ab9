"""What OpenAPI says of every endpoint beyond its own serializers."""

from __future__ import annotations

from drf_spectacular.openapi import AutoSchema


class PortalSchema(AutoSchema):
    """Operation ids from method and path, and one tag per resource."""

    def get_tags(self) -> list[str]:
        """The resource's name: the first step after the version."""
        steps = [step for step in self.path.split("/") if step and "{" not in step]
        return [steps[2] if len(steps) > 2 else "tidegate"]

    def get_operation_id(self) -> str:
        """Method and path in words: `get_jobs`, `get_jobs_by_job_id`, `post_jobs_by_job_id_cancel`.

        Unique because routes are.
        """
        steps = self.path.removeprefix("/api/v1/").split("/")
        words = [f"by_{step[1:-1]}" if step.startswith("{") else step for step in steps]
        return "_".join([self.method.lower(), *words]).replace("-", "_")

"""What OpenAPI says of every endpoint beyond its own serializers."""

from __future__ import annotations

from drf_spectacular.openapi import AutoSchema


class PortalSchema(AutoSchema):
    """Operation ids from the path, and one tag per resource."""

    def get_tags(self) -> list[str]:
        """The resource's name: the first step after the version."""
        steps = [step for step in self.path.split("/") if step and "{" not in step]
        return [steps[2] if len(steps) > 2 else "tidegate"]

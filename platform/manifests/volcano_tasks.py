"""The tasks of a Volcano Job: their Pods, and the names that these have in a JobSet."""

from __future__ import annotations

from dataclasses import dataclass

from manifests.fields import Field
from manifests.pods import PodNeeds


@dataclass(frozen=True, slots=True)
class Task:
    """A task with `replicas` equal Pods. `field` and `template` are those of the file.

    `is_split` says that each Pod is a Job of its own in the JobSet. `after` is the task whose Pods
    are ready before its own start.
    """

    name: str
    replicas: int
    field: Field
    template: Field
    needs: PodNeeds
    is_split: bool = False
    after: str | None = None

    @property
    def variable(self) -> str:
        """The name of the task as a part of file names; variables have it in capitals."""
        return self.name.replace("-", "_")

    def hosts(self, job: str) -> list[str]:
        """Return the names of its Pods in the JobSet `job`, in the subdomain of that name."""
        return [f"{job}-{self.name}-{self.ending(index)}.{job}" for index in range(self.replicas)]

    def ending(self, index: int) -> str:
        """Return how the host name of its Pod `index` ends: the number of the Job, and its own."""
        return f"{index}-0" if self.is_split else f"0-{index}"

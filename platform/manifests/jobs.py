"""The jobs that a manifest describes: their Pod sets, and the size that quotas count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as field_of
from typing import NamedTuple

from manifests.devices import Gpus
from manifests.documents import Document, Path
from manifests.fields import Field
from manifests.pods import PodNeeds


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal Pods of a job: `count` at once, and `total` until it ends.

    `copies` equal groups (the replicas of a Job in a JobSet) have them in equal parts. `count_min`
    is how many it needs to start. `template` is the path of the template in the document, or of the
    Pod itself. `ranks_from` is the rank of the first one.
    """

    name: str
    needs: PodNeeds
    count: int
    total: int
    template: Path
    count_min: int | None = None
    copies: int = 1
    ranks_from: int = 0


class Origin(NamedTuple):
    """The kind in the file of a job that a JobSet runs, which its cluster has to know.

    `plural` is its name in the API. `advice` says what to write for a cluster without it.
    """

    api_version: str
    kind: str
    plural: str
    advice: str

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.api_version.partition('/')[0]}"


@dataclass(frozen=True, slots=True)
class ManifestJob:
    """One job of a manifest.

    `is_run` says that the portal runs jobs of its kind. `name` is None where the cluster was to
    choose one. `time_limit_s` is its own limit. `device_classes` are those that its claims name.
    `kinds_of_others` are the kinds of the other objects in its file, such as ConfigMap.
    `group` is the name of a group of Pods, which `document` describes as a JobSet. `origin` is the
    kind of a job for which `document` is a JobSet, too, if clusters have to know that kind.
    `host_files` are the files by name with which its Pods find each other.
    """

    document: Document
    field: Field
    api_version: str
    kind: str
    name: str | None
    pod_sets: tuple[PodSet, ...]
    is_run: bool
    time_limit_s: int | None = None
    priority_class: str | None = None
    device_classes: frozenset[str] = frozenset()
    kinds_of_others: frozenset[str] = frozenset()
    group: str | None = None
    origin: Origin | None = None
    host_files: Mapping[str, str] = field_of(default_factory=dict)

    @property
    def holders(self) -> tuple[PodSet, ...]:
        """The Pod sets whose Pods hold GPUs."""
        return tuple(one for one in self.pod_sets if one.needs.gpus is not None and one.count)

    @property
    def gpus(self) -> Gpus | None:
        """The GPUs of each Pod that has some; None without such a Pod."""
        holders = self.holders
        return holders[0].needs.gpus if holders else None

    @property
    def nodes(self) -> int:
        """How many Pods hold GPUs at once. Each counts as a node of the job."""
        return sum(one.count for one in self.holders)

    @property
    def nodes_min(self) -> int:
        """How many of them it needs to start."""
        return sum(one.count if one.count_min is None else one.count_min for one in self.holders)

    @property
    def ranks(self) -> int:
        """How many Pods run until it ends, each with a log of its own."""
        return sum(one.total for one in self.pod_sets)

    @property
    def label(self) -> str:
        """The kind and the name, as people write them."""
        if self.group is not None:
            return f"Pods of group {self.group}"
        kind = self.kind if self.origin is None else self.origin.kind
        return f"{kind} {self.name}" if self.name else kind

"""What Kubernetes' and Kueue's objects are in the words of the protocol. Pure: dicts in, values out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class KubeState:
    """One complete look at a cluster: its objects as the API server sends them.

    `objects` are those that Kueue makes Workloads of, of every kind in use and of everybody (Jobs,
    JobSets, ...), each with its own `apiVersion` and `kind`, which lists leave out of their items.
    `pods` are those with our label or a request for GPUs. `gone_pods` are the last known states of
    Pods of ours that were deleted while their object is still there, as far as anybody remembers
    them: how they ended is known from nowhere else. `observed_at` is the API server's clock.
    """

    objects: tuple[Mapping[str, Any], ...]
    workloads: tuple[Mapping[str, Any], ...]
    pods: tuple[Mapping[str, Any], ...]
    nodes: tuple[Mapping[str, Any], ...]
    observed_at: int
    gone_pods: tuple[Mapping[str, Any], ...] = ()

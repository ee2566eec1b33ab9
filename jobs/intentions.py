"""Outbox intentions for clusters, in shards that keep starts from delaying stops."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jobs.models import Attempt
from outbox.recording import Intention


def start_shard(cluster_id: UUID) -> str:
    """Return the shard for the starts of a cluster; thousands may wait in it."""
    return str(cluster_id)


def stop_shard(cluster_id: UUID) -> str:
    """Return the shard for notices and stops of a cluster, which have deadlines."""
    return f"{cluster_id}/stop"


class Granted(Protocol):
    """The part of an attempt that its start needs."""

    @property
    def id(self) -> UUID: ...
    @property
    def cluster_id(self) -> UUID: ...


def start_intention(attempt: Granted) -> Intention:
    """Return the intention to submit the attempt to its cluster."""
    return Intention("start_attempt", attempt.id, start_shard(attempt.cluster_id))


def hold_intention(submission_id: UUID, cluster_id: UUID) -> Intention:
    """Return the intention to submit the next attempt of a claim's job.

    The submission is held until the arbiter starts the job.
    """
    return Intention("submit_held", submission_id, start_shard(cluster_id))


def extend_intention(extension_id: UUID, attempt: Attempt) -> Intention:
    """Return the intention to tell the attempt's cluster a longer time limit."""
    return Intention("extend_attempt", extension_id, stop_shard(attempt.cluster_id))


def stop_intention(kind: str, attempt: Attempt) -> Intention:
    """Return the intention to notify, stop or forget the attempt, by `kind`."""
    return Intention(kind, attempt.id, stop_shard(attempt.cluster_id))

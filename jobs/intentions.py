"""What is intended for clusters, and the shards that keep starts from holding up stops."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from jobs.models import Attempt
from outbox.recording import Intention


def start_shard(cluster_id: UUID) -> str:
    """Where the starts of a cluster queue; there may be thousands at once."""
    return str(cluster_id)


def stop_shard(cluster_id: UUID) -> str:
    """Where notices and stops of a cluster queue: they have deadlines."""
    return f"{cluster_id}/stop"


class Granted(Protocol):
    """An attempt, as far as its start is concerned."""

    @property
    def id(self) -> UUID: ...
    @property
    def cluster_id(self) -> UUID: ...


def start_intention(attempt: Granted) -> Intention:
    """To submit the attempt to its cluster."""
    return Intention("start_attempt", attempt.id, start_shard(attempt.cluster_id))


def hold_intention(submission_id: UUID, cluster_id: UUID) -> Intention:
    """To submit the next attempt of a claim's job, held until the arbiter starts it."""
    return Intention("submit_held", submission_id, start_shard(cluster_id))


def stop_intention(kind: str, attempt: Attempt) -> Intention:
    """To notify, stop or forget the attempt on its cluster, by `kind`."""
    return Intention(kind, attempt.id, stop_shard(attempt.cluster_id))

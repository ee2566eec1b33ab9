"""Two nodes of which one is lent, and the team that wants it back."""

from __future__ import annotations

from arbiter.api.snapshot import RunningJob, Slot, Snapshot
from builders.arbiter_builders import NOW, a_queued, a_running, a_snapshot, devices, slots

TWO = {"o": 16, "o/mine": 8, "o/other": 8}


def borrowers(*jobs: RunningJob, gpus: int = 8, **quotas: int) -> Snapshot:
    """`mine` wants a node; o/other holds what it is guaranteed, and `jobs` borrow."""
    return a_snapshot(
        quotas={**TWO, **{name.replace("_", "/"): gpus for name, gpus in quotas.items()}},
        devices=devices(2),
        running=[a_running("kept", "o/other", slots(0, 1), started_at=NOW - 9_000), *jobs],
        queued=[a_queued("j", "o/mine", gpus=gpus)],
    )


def on(gpus: int) -> tuple[Slot, ...]:
    """So many GPUs of the node that is lent."""
    return slots(1, 1, gpus=gpus)

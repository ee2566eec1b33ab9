"""Both sides of a reclaim, as far as a reader may see them.

One side is the job that gets GPUs, the other the jobs that are preempted for it.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from jobs.access import may_see
from jobs.queue.reason_documents import iso
from jobs.reading.queries import AttemptRow, VictimRow
from primitives.units import DeviceKind
from tenants.access import Actor
from tenants.roles import Permission

#: The notice signal by default.
_PLAIN_SIGNAL = "TERM"


class NoticeHandling(StrEnum):
    """The reason to expect that a job saves its work at its notice."""

    REPORTS_CHECKPOINTS = "reports_checkpoints"
    HAS_CHECKPOINT_PATH = "has_checkpoint_path"
    ASKS_FOR_SIGNAL = "asks_for_signal"


def beneficiary_of(attempt: AttemptRow, actor: Actor) -> dict[str, Any] | None:
    """Return the job for which an attempt is or was preempted.

    Members that the actor may not see are None. None for an attempt that was not preempted for
    another job.
    """
    user_id, path = attempt.reclaim__job__user_id, attempt.reclaim__job__team__path
    per_node, nodes = attempt.reclaim__job__mgpu_per_node, attempt.reclaim__job__node_count
    if attempt.reclaim__job_id is None:
        return None
    if user_id is None or path is None or per_node is None or nodes is None:
        # Row-level security hides jobs of other organizations.
        return {"job": None, "name": None, "team": None, "mgpu": None}
    is_seen = may_see(actor, user_id=user_id, team_path=path)
    is_team_seen = is_seen or actor.holds(Permission.VIEW_TREE, path)
    return {
        "job": attempt.reclaim__job_id if is_seen else None,
        "name": attempt.reclaim__job__name if is_seen else None,
        "team": path.rstrip("/") if is_team_seen else None,
        "mgpu": per_node * nodes if is_team_seen else None,
    }


def beneficiary_text(attempt: AttemptRow, actor: Actor, device: DeviceKind) -> str:
    """Return for whom an attempt is stopped: " for a job of a/b that needs 8 GPUs", or ""."""
    found = beneficiary_of(attempt, actor)
    if found is None:
        return ""
    if found["team"] is None:
        return " for a job of another team"
    return f" for a job of {found['team']} that needs {device.text(found['mgpu'])}"


def shown_victim(victim: VictimRow, actor: Actor, now: datetime) -> dict[str, Any]:
    """Return what the actor may see of a victim and of its work at risk."""
    path = victim.job__team__path
    is_seen = may_see(actor, user_id=victim.job__user_id, team_path=path)
    is_team_seen = actor.holds(Permission.VIEW_TREE, path)
    is_known = is_seen or is_team_seen
    return {
        "job": str(victim.job_id) if is_seen else None,
        "name": victim.job__name if is_seen else None,
        "team": path.rstrip("/") if is_team_seen else None,
        "mgpu": victim.mgpu,
        "notice_at": None if victim.notice_at is None else iso(victim.notice_at),
        "grace_until": None if victim.grace_until is None else iso(victim.grace_until),
        "at_risk_mgpu_s": _at_risk_mgpu_s(victim, now) if is_known else None,
        "notice_handling": notice_handling(
            checkpoint_at=victim.checkpoint_at,
            checkpoint_path=victim.job__checkpoint_path,
            signal=victim.job__notice_signal,
        )
        if is_known
        else None,
    }


def _at_risk_mgpu_s(victim: VictimRow, now: datetime) -> int:
    """Return its milli-GPU-seconds since its last checkpoint, or since its start."""
    since = victim.checkpoint_at or victim.started_at
    return 0 if since is None else victim.mgpu * max(0, int((now - since).total_seconds()))


def notice_handling(
    *, checkpoint_at: datetime | None, checkpoint_path: str | None, signal: str
) -> NoticeHandling | None:
    """Return why a job is expected to save its work at its notice; None: nothing is known."""
    if checkpoint_at is not None:
        return NoticeHandling.REPORTS_CHECKPOINTS
    if checkpoint_path is not None:
        return NoticeHandling.HAS_CHECKPOINT_PATH
    return None if signal == _PLAIN_SIGNAL else NoticeHandling.ASKS_FOR_SIGNAL

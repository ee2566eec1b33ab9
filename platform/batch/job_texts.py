"""Jobs of the portal in the words of Slurm's programs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

#: The state of a job of the portal: Slurm's word and short form.
STATES = {
    "held": ("PENDING", "PD"),
    "queued": ("PENDING", "PD"),
    "starting": ("CONFIGURING", "CF"),
    "running": ("RUNNING", "R"),
    "preempting": ("RUNNING", "R"),
    "succeeded": ("COMPLETED", "CD"),
    "failed": ("FAILED", "F"),
    "cancelled": ("CANCELLED", "CA"),
    "timed_out": ("TIMEOUT", "TO"),
}
_DAY_S = 86_400


def duration_text(seconds: int | None) -> str:
    """Return a duration as Slurm writes it: 1-02:03:04, or UNLIMITED for None."""
    if seconds is None:
        return "UNLIMITED"
    days, rest = divmod(max(0, seconds), _DAY_S)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text


def run_time_s(job: Mapping[str, Any]) -> int:
    """Return the seconds that the job's current attempt has run, 0 before its start."""
    if job["started_at"] is None:
        return 0
    end = _moment(job["ended_at"]) if job["ended_at"] else datetime.now().astimezone()
    return max(0, int((end - _moment(job["started_at"])).total_seconds()))


def time_left_s(job: Mapping[str, Any]) -> int | None:
    """Return the seconds until the time limit of the current attempt; None without a limit."""
    limit_s = job["time_limit_s"]
    return None if limit_s is None else max(0, limit_s - run_time_s(job))


def end_time(job: Mapping[str, Any]) -> str | None:
    """Return when the job ended or reaches its time limit; None where nobody knows."""
    if job["ended_at"] or not job["started_at"] or job["time_limit_s"] is None:
        return job["ended_at"] or None
    end = _moment(job["started_at"]) + timedelta(seconds=job["time_limit_s"])
    return end.isoformat()


def time_text(moment: str | None) -> str:
    """Return a time as Slurm writes it, in UTC."""
    return "Unknown" if moment is None else _moment(moment).strftime("%Y-%m-%dT%H:%M:%S")


def reason(job: Mapping[str, Any]) -> str:
    """Return why the job waits, as one word; None for one that does not wait."""
    if job["state"] == "held":
        return "JobHeldUser"
    explanation = job.get("explanation") or {}
    return str(explanation.get("code") or "None") if job["state"] == "queued" else "None"


def nodes_of(job: Mapping[str, Any]) -> list[str]:
    """Return the nodes of the job's current attempt."""
    attempt = job.get("current_attempt") or {}
    return [slot["node"] for slot in attempt.get("slots", ())]


def _moment(text: str) -> datetime:
    # Python 3.10 reads no Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))

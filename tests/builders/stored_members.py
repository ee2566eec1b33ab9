"""The members of a job request that a job keeps and shows, as they are if nobody gave them."""

from __future__ import annotations

from typing import Any

STORED: dict[str, Any] = {
    "launch": "per_node",
    "begin_at": None,
    "is_singleton": False,
    "time_limit_s": None,
    "is_preemptible": False,
    "is_requeueable": True,
    "checkpoint_path": None,
    "features": [],
    "image": None,
    "required_topology": None,
    "preferred_topology": None,
    "cpus_per_node": None,
    "memory_mib_per_node": None,
    "notice_signal": "TERM",
}
#: Shown on the page of a job and in plans, not in lists.
STORED_ON_PAGES: dict[str, Any] = {
    "requeue_on": [],
    "requeue_max": 10,
    "cost_cap_nano": None,
    "arguments": [],
    "folder": None,
    "output_file": None,
    "error_file": None,
    "appends_output": False,
    "ntasks": None,
    "ntasks_per_node": None,
    "cpus_per_task": None,
    "gpus_per_task": None,
    "signal_ahead_s": None,
    "signals_shell_only": False,
}

"""Pauses and failures of the commands that follow a job."""

from __future__ import annotations

#: Pause between two polls, in seconds.
POLL_S = 1.0
#: Number of failures in a row after which following ends.
FAILURES_MAX = 5

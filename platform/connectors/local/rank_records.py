"""The records of each rank of an attempt, and the state of the attempt that follows from them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Container, Sequence

from connectors.local.attempt_files import (
    AttemptFiles,
    CorruptRecord,
    integer,
    integer_or_none,
    is_locked,
    read_json,
)

#: The outcome for every cause of ending an attempt.
OUTCOME_BY_CAUSE = {
    "stopped": "stopped",
    "timed_out": "timed_out",
    "limit_noticed": "timed_out",
    "start_failed": "start_failed",
    "lost": "node_failed",
    "rank_failed": "failed",
}
_MESSAGE_BY_CAUSE = {
    "stopped": "it was stopped as asked",
    "timed_out": "it reached its time limit",
    "limit_noticed": "it ended after the notice of its time limit",
}


class Rank:
    """One rank. `_at` are epoch seconds; `_ms` are milliseconds of this boot's monotonic clock."""

    def __init__(self, files: AttemptFiles, index: int) -> None:
        self.files = files
        self.index = index
        self.forks = 0
        self.own_keeper: int | None = None
        self.keeper: int | None = None
        self.pid: int | None = None
        self.started_at: int | None = None
        self.started_ms: int | None = None
        self.ended_at: int | None = None
        self.ended_ms: int | None = None
        self.gone_at: int | None = None
        self.code: int | None = None
        self.error = ""
        self.is_lost = False
        self.is_noticed = False
        self.is_termed = False

    @property
    def is_over(self) -> bool:
        """Return whether its first process has ended, as far as anyone will ever know."""
        return self.ended_ms is not None or self.is_lost

    @property
    def is_gone(self) -> bool:
        """Return whether its last descendant has ended, or this can no longer be known."""
        return self.gone_at is not None or self.is_lost

    @property
    def is_kept(self) -> bool:
        """Return whether its keeper is alive."""
        return is_locked(self.files.rank(self.index, "lock"))

    def read(self, names: Container[str], *, is_looking_for_keeper: bool) -> None:
        """Read the records that have appeared; `names` are the existing files.

        With `is_looking_for_keeper`, a rank whose keeper was killed becomes lost.
        """
        if self.started_ms is None and f"{self.index}.started" in names:
            self._read_start()
        if self.pid is None and f"{self.index}.pid" in names:
            with contextlib.suppress(CorruptRecord):
                self.pid = integer(read_json(self.files.rank(self.index, "pid")), "pid")
        if f"{self.index}.exit" in names:
            self._read_end()
        if self.started_ms is not None and is_looking_for_keeper and not self.is_kept:
            # The keeper may have written its last records since they were read above.
            self._read_end()
            self.is_lost = self.gone_at is None or self.ended_ms is None

    def _read_start(self) -> None:
        path = self.files.rank(self.index, "started")
        try:
            record = read_json(path)
            self.keeper = integer(record, "keeper")
            self.started_at = integer(record, "at")
            self.started_ms = integer(record, "mono_ms")
        except CorruptRecord:
            # The rank was certainly started, so it must not be started again.
            self.started_at = int(os.stat(path).st_mtime)
            self.started_ms = time.monotonic_ns() // 1_000_000

    def _read_end(self) -> None:
        with contextlib.suppress(FileNotFoundError, CorruptRecord):
            record = read_json(self.files.rank(self.index, "exit"))
            code = integer_or_none(record, "code")
            self.ended_at, self.ended_ms = integer(record, "at"), integer(record, "mono_ms")
            self.code, self.error = code, str(record.get("error", ""))
        with contextlib.suppress(FileNotFoundError, CorruptRecord):
            self.gone_at = integer(read_json(self.files.rank(self.index, "gone")), "at")


def recorded_indices(files: AttemptFiles) -> list[int]:
    """Return the ranks that have any record, for an attempt whose rank count is unreadable."""
    heads = {name.partition(".")[0] for name in os.listdir(files.ranks)}
    return sorted(int(head) for head in heads if head.isdigit())


def cause_in(ranks: Sequence[Rank]) -> str:
    """Return the reason in the ranks to end the attempt; "" if there is none."""
    if any(rank.is_lost for rank in ranks):
        return "lost"
    if any(rank.error for rank in ranks):
        return "start_failed"
    if any(rank.code for rank in ranks):
        return "rank_failed"
    return ""


def _message(ranks: Sequence[Rank], cause: str) -> str:
    if cause in _MESSAGE_BY_CAUSE:
        return _MESSAGE_BY_CAUSE[cause]
    for rank in ranks:
        if rank.is_lost:
            return f"rank {rank.index}: its keeper was killed, so its exit code is unknown"
        if rank.error:
            return f"rank {rank.index}: {rank.error}"
        if rank.code is not None and rank.code < 0:
            told = f"rank {rank.index} was killed by signal {-rank.code}"
            return f"{told} after its notice of a time limit or a stop" if rank.is_noticed else told
        if rank.code:
            return f"rank {rank.index} exited with code {rank.code}"
    return ""


def describe(ranks: Sequence[Rank], cause: str, *, is_waiting: bool) -> dict[str, object]:
    """Return the attempt's state in the terms of `connectors.protocol`, for its state record.

    `is_waiting` says that it has no devices yet.
    """
    started = [rank.started_at for rank in ranks if rank.started_at is not None]
    summary: dict[str, object] = {
        "started_at": min(started, default=None),
        "ended_at": None,
        "outcome": None,
        "exit_codes": {str(rank.index): rank.code for rank in ranks if rank.code is not None},
        "message": _message(ranks, cause),
    }
    if all(rank.is_over for rank in ranks):
        ended = [rank.ended_at for rank in ranks if rank.ended_at is not None]
        cause = cause or cause_in(ranks)
        summary["phase"] = summary["native_state"] = "ended"
        summary["ended_at"] = max([*ended, *started], default=None)
        summary["outcome"] = OUTCOME_BY_CAUSE[cause] if cause else "succeeded"
    elif cause:
        summary["phase"], summary["native_state"] = "stopping", f"ending: {cause}"
    elif all(rank.pid is not None or rank.is_over for rank in ranks):
        summary["phase"] = summary["native_state"] = "running"
    else:
        summary["phase"] = "starting"
        summary["native_state"] = (
            "waiting_for_devices" if is_waiting and not started else "starting"
        )
    return summary

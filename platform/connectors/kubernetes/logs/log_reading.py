"""Reads the outputs of a job's ranks from the files that store them."""

from __future__ import annotations

import os

from connectors.errors import ClusterUnavailable, LogUnavailable
from connectors.kubernetes.logs.log_files import (
    RANKS_MAX,
    READ,
    opened_directory,
    opened_file,
    read_state,
    read_times,
)
from connectors.kubernetes.options.options import KubernetesOptions
from connectors.protocol import LogChunk

LOG_CHUNK_BYTES_MAX = 1 << 20
STREAMS = ("stdout", "stderr")


class KubernetesLogs:
    """Implements `connectors.protocol.LogReader`."""

    def __init__(self, options: KubernetesOptions) -> None:
        self._root = options.log_root

    def read_log(
        self,
        key: str,
        *,
        rank: int,
        stream: str,
        offset: int,
        limit: int,
        cluster_user: str | None = None,
    ) -> LogChunk:
        """See `ClusterConnector.read_log`. All output of a Pod is its stdout."""
        return read_log(self._root, key, rank=rank, stream=stream, offset=offset, limit=limit)


def read_log(
    root: str | None, key: str, *, rank: int, stream: str, offset: int, limit: int
) -> LogChunk:
    """Return at most `limit` bytes, and 1 MiB, of a rank's output, from `offset`.

    Raises LogUnavailable when there is none, and ClusterUnavailable when it cannot be read.
    """
    if root is None:
        raise LogUnavailable("this cluster keeps no outputs: its option log_root is not set")
    if stream not in STREAMS:
        raise LogUnavailable(f"there is no stream {stream[:40]!r}; use stdout")
    if stream != "stdout":
        raise LogUnavailable("Kubernetes writes both streams into one: read stdout")
    if not 0 <= rank < RANKS_MAX:
        raise LogUnavailable(f"there is no rank {rank}")
    try:
        with opened_directory(root, key) as directory:
            # Read before the size: an output that is complete now cannot grow until then.
            state = read_state(directory, rank)
            with opened_file(directory, f"{rank}.log", READ) as file:
                size = os.fstat(file).st_size
                start = max(0, size + offset) if offset < 0 else min(offset, size)
                data = os.pread(file, max(0, min(limit, LOG_CHUNK_BYTES_MAX, size - start)), start)
            end = start + len(data)
            times = read_times(directory, rank, start, end)
    except (FileNotFoundError, NotADirectoryError):
        raise LogUnavailable(f"{key[:80]} has no output of rank {rank}, or not yet") from None
    except PermissionError as error:
        raise LogUnavailable(f"the portal may not read the output of {key[:80]}: {error}") from None
    except OSError as error:
        raise ClusterUnavailable(f"cannot read the log of {key[:80]}: {error}") from error
    is_final = state.is_complete and end == size
    return LogChunk(data, start, end, is_final, state.is_truncated, times)

"""The owner of a root folder.

A folder that is gone, not mounted, or another cluster's looks like a cluster on which nothing runs.
Every running attempt would count as lost and run again. Therefore the root contains the name of its
cluster in the file `cluster`, written once before its first use. Without it, the connector reads
and writes nothing.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

from connectors.errors import ClusterUnavailable
from connectors.local.attempt_files import sync_directory, write_bytes

NAME = "cluster"
_LENGTH_MAX = 200


def give_root(root: Path, cluster_id: str) -> None:
    """Write once that `root` is the folder of `cluster_id`. The first writer wins.

    Raises OSError.
    """
    path = root / NAME
    if path.exists():
        return
    temporary = root / f"{NAME}.{uuid.uuid4().hex}.tmp"
    write_bytes(str(temporary), f"{cluster_id}\n".encode(), is_durable=True)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
    sync_directory(str(root))


def check_root(root: Path, cluster_id: str) -> None:
    """Raise ClusterUnavailable unless `root` is the folder of `cluster_id`, or OSError."""
    try:
        with open(root / NAME, "rb") as file:
            found = file.read(_LENGTH_MAX).decode("ascii", errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        if not root.is_dir():
            raise ClusterUnavailable(
                f"the folder of this cluster, {root}, is gone: bring it back, or mount it"
            ) from None
        raise ClusterUnavailable(
            f"{root} does not say whose folder it is: if it is this cluster's, write the line "
            f"{cluster_id} into {root / NAME}; if not, bring the right one back, or mount it"
        ) from None
    if found != cluster_id:
        raise ClusterUnavailable(
            f"{root} is the folder of another cluster, {found!r}, and not of this one, "
            f"{cluster_id}: give each cluster a root of its own"
        )

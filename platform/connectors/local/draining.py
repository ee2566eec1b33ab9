"""The drained nodes of a local cluster, in the file `drained.json` in its root.

The file is an object of node names and reasons. A plain list of names, which a person may write, is
also read. Each change replaces the file atomically, by one writer at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from connectors.errors import ClusterUnavailable
from connectors.local.attempt_files import try_lock, write_json

NAME = "drained.json"


def drained_nodes(root: Path) -> Mapping[str, str]:
    """Return the reasons by node name.

    Raises ClusterUnavailable for an invalid file: none of its nodes may count as usable.
    """
    path = root / NAME
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ClusterUnavailable(f"cannot read {path}: {error}") from error
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        return dict.fromkeys(found, "")
    if isinstance(found, dict) and all(isinstance(reason, str) for reason in found.values()):
        return found
    raise ClusterUnavailable(
        f"{path} must be a JSON object of node names and reasons, or a list of node names"
    )


def drain_node(root: Path, node: str, reason: str) -> None:
    """Add `node`, or change its reason. Raises ClusterUnavailable or OSError."""
    with _alone(root):
        known = drained_nodes(root)
        if known.get(node) != reason:
            write_json(str(root / NAME), {**known, node: reason}, is_durable=True)


def resume_node(root: Path, node: str) -> None:
    """Remove `node`. Raises ClusterUnavailable or OSError."""
    with _alone(root):
        known = drained_nodes(root)
        if node in known:
            rest = {name: reason for name, reason in known.items() if name != node}
            write_json(str(root / NAME), rest, is_durable=True)


@contextlib.contextmanager
def _alone(root: Path) -> Iterator[None]:
    descriptor = try_lock(str(root / "drained.lock"), is_waiting=True)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)

"""The kinds of cluster that Tidegate can talk to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from connectors.kinds import ClusterKind
from connectors.kubernetes.kind import KUBERNETES
from connectors.local.kind import LOCAL
from connectors.protocol import ClusterConnector
from connectors.slurm.kind import SLURM

#: By name.
KINDS: dict[str, ClusterKind] = {kind.name: kind for kind in (KUBERNETES, LOCAL, SLURM)}


def kind_named(name: str) -> ClusterKind:
    """The kind of that name. One that is not registered can do nothing, and raises KeyError where
    it is opened or checked."""
    return KINDS[name] if name in KINDS else _unregistered(name)


def kinds_where(holds: Callable[[ClusterKind], object]) -> list[str]:
    """The names of the kinds of which `holds` is true, to select clusters by."""
    return sorted(name for name, kind in KINDS.items() if holds(kind))


def open_connector(
    kind: str,
    options: Mapping[str, Any],
    cluster_id: str,
    known_as: Mapping[str, str] | None = None,
) -> ClusterConnector:
    """The connector of a cluster of `kind` with its stored `options`.

    `cluster_id` is ours and unique for ever: how a cluster knows whose it is. `known_as` is the
    identity that its first inventory told (see `protocol.Inventory`): how we know whether it is
    still the same. Raises KeyError for a kind that is not registered, and what its opener raises.
    """
    return kind_named(kind).open(options, cluster_id, known_as or {})


def _unregistered(name: str) -> ClusterKind:
    def refuse(*_: object) -> NoReturn:
        raise KeyError(name)

    return ClusterKind(
        name=name, label=name, open=refuse, check_options=refuse, check_trusted=refuse
    )

"""The kinds of cluster that Tidegate supports."""

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
    """Return the kind with that name.

    An unregistered name gives a kind without abilities. Opening or checking it raises KeyError.
    """
    return KINDS[name] if name in KINDS else _unregistered(name)


def kinds_where(holds: Callable[[ClusterKind], object]) -> list[str]:
    """Return the sorted names of the kinds for which `holds` is true, to filter clusters by."""
    return sorted(name for name, kind in KINDS.items() if holds(kind))


def kinds_by_label() -> list[ClusterKind]:
    """Return the kinds in the order of their names for people."""
    return sorted(KINDS.values(), key=lambda kind: kind.label)


def open_connector(
    kind: str,
    options: Mapping[str, Any],
    cluster_id: str,
    known_as: Mapping[str, str] | None = None,
) -> ClusterConnector:
    """Return the connector of a cluster of `kind` with its stored `options`.

    `cluster_id` is ours and unique for ever; the cluster stores it to know its owner. `known_as` is
    the identity from its first inventory (see `protocol.Inventory`); it shows whether the cluster
    is still the same. Raises KeyError for an unregistered kind, and the errors of the kind's
    opener.
    """
    return kind_named(kind).open(options, cluster_id, known_as or {})


def _unregistered(name: str) -> ClusterKind:
    def refuse(*_: object) -> NoReturn:
        raise KeyError(name)

    return ClusterKind(
        name=name,
        label=name,
        open=refuse,
        options_schema={},
        check_options=refuse,
        check_trusted=refuse,
    )

"""The limits that the operator of this installation sets for options of clusters.

Administrators of the portal write the rows of clusters, which name folders, addresses, sockets and
files with credentials. The operator decides in the settings which of these the portal may use. Each
kind of cluster names the settings that limit its options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from connectors.kinds import ClusterKind
from connectors.registry import KINDS, kind_named


def check_trusted(kind: str, options: Mapping[str, Any]) -> None:
    """Raise ValueError, saying what to do, for options that the operator has not listed.

    Raises KeyError for an unregistered kind. The connector checks whether the options are valid.
    """
    known = kind_named(kind)
    known.check_trusted(options, _given(known))


def operator_options(kind: str) -> Mapping[str, Any]:
    """Return the options that the operator adds to every cluster of `kind`."""
    known = kind_named(kind)
    paths = {str(path) for path in (settings.STATE_DIR, settings.ENV_FILE, settings.REPO / "var")}
    for each in KINDS.values():
        paths.update(each.secret_paths(_given(each)))
    return known.operator_options(_given(known), sorted(paths))


def _given(kind: ClusterKind) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in kind.operator_settings}

"""What the operator of this installation lets clusters use.

Rows of clusters name folders, addresses, sockets and files with credentials, and are written by
administrators of the portal. What the portal may use of that is the decision of whoever runs it, so
it stands in the settings. Each kind of cluster says which settings bound its options.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from connectors.kinds import ClusterKind
from connectors.registry import KINDS, kind_named


def check_trusted(kind: str, options: Mapping[str, Any]) -> None:
    """Raises ValueError, saying what to do, for options that use what the operator has not listed,
    and KeyError for a kind that is not registered. Whether the options are well formed is the
    connector's matter."""
    known = kind_named(kind)
    known.check_trusted(options, _given(known))


def operator_options(kind: str) -> Mapping[str, Any]:
    """What the operator adds to the options of every cluster of `kind`."""
    known = kind_named(kind)
    paths = {str(path) for path in (settings.STATE_DIR, settings.ENV_FILE, settings.REPO / "var")}
    for each in KINDS.values():
        paths.update(each.secret_paths(_given(each)))
    return known.operator_options(_given(known), sorted(paths))


def _given(kind: ClusterKind) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in kind.operator_settings}

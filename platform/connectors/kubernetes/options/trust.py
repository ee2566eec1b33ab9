"""The kubeconfigs that the portal may use, as listed by the operator.

A kubeconfig has an address and credentials, or a program to run for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.operator_lists import is_listed_path
from connectors.options import refusal

#: The setting that lists the kubeconfigs, and its entry for the service account of the portal's
#: Pod.
KUBECONFIGS = "KUBECONFIGS"
IN_CLUSTER = "in-cluster"


def check_trusted(options: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise OptionsRefused, saying what to do, for a kubeconfig that is not listed."""
    path = options.get("kubeconfig")
    if isinstance(path, str) and not is_listed_path(path, given[KUBECONFIGS]):
        raise refusal(
            ("kubeconfig",),
            f"option kubeconfig names {path[:200]}, which is none of the files that may be used; "
            "whoever runs this installation can add it to TIDEGATE_KUBECONFIGS and restart it",
        )
    if options.get("in_cluster") is True and IN_CLUSTER not in given[KUBECONFIGS]:
        raise refusal(
            ("in_cluster",),
            "option in_cluster uses the service account of the portal's own Pod, which is not "
            f"allowed here; whoever runs this installation can add {IN_CLUSTER} to "
            "TIDEGATE_KUBECONFIGS and restart it",
        )


def secret_paths(given: Mapping[str, Any]) -> list[str]:
    """Return the kubeconfigs, which contain credentials."""
    return [path for path in given[KUBECONFIGS] if path.startswith("/")]

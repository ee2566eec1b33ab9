"""The folders and UNIX users that a local cluster may use, as listed by the operator.

The portal writes to the cluster's folder, as root if it runs as root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connectors.operator_lists import is_listed_folder
from connectors.options import refusal

#: The operator's settings: the lists, and the range of user numbers that jobs run as.
ROOTS = "LOCAL_ROOTS"
FOLDERS = "LOCAL_FOLDERS"
RUN_AS = "LOCAL_RUN_AS"
UNISOLATED = "LOCAL_UNISOLATED"
UIDS = "LOCAL_UIDS"


def check_trusted(options: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise OptionsRefused, saying what to do, for options that are not listed."""
    if not given[ROOTS]:
        raise ValueError(
            "clusters of kind local are turned off here; whoever runs this installation can list "
            "the folders that they may keep in TIDEGATE_LOCAL_ROOTS and restart it"
        )
    root = options.get("root")
    if isinstance(root, str) and not is_listed_folder(root, given[ROOTS]):
        raise refusal(
            ("root",),
            f"option root names {root[:200]}, which is none of the folders that a local cluster "
            "may keep; whoever runs this installation can add it to TIDEGATE_LOCAL_ROOTS and "
            "restart it",
        )
    if options.get("isolation") == "off" and not given[UNISOLATED]:
        raise refusal(
            ("isolation",),
            "option isolation is off, so that jobs would run as the portal itself; whoever runs "
            "this installation can allow that with TIDEGATE_LOCAL_UNISOLATED=true",
        )
    for folder in _texts(options.get("folders")):
        if not is_listed_folder(folder, given[FOLDERS]):
            raise refusal(
                ("folders",),
                f"option folders names {folder[:200]}, which is none of the folders that jobs of "
                "local clusters may see; whoever runs this installation can add it to "
                "TIDEGATE_LOCAL_FOLDERS and restart it",
            )
    run_as = options.get("run_as")
    names = _texts(list(run_as.values()) if isinstance(run_as, Mapping) else None)
    if strangers := sorted(set(names) - given[RUN_AS]):
        raise refusal(
            ("run_as",),
            f"option run_as names the UNIX user {strangers[0][:40]}, who is none of those that "
            "jobs may run as; whoever runs this installation can add the name to "
            "TIDEGATE_LOCAL_RUN_AS and restart it",
        )
    if own := sorted({"hidden", "uids"} & options.keys()):
        raise refusal((own[0],), f"option {own[0]} is set by whoever runs this installation")


def operator_options(given: Mapping[str, Any], secret_paths: Sequence[str]) -> dict[str, Any]:
    """Return the paths that jobs must not see, and the user numbers that they run as."""
    return {"hidden": sorted(secret_paths), "uids": list(given[UIDS])}


def _texts(value: object) -> list[str]:
    """Return the texts in a list; the connector itself checks the other values."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []

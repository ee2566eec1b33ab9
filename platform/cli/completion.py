"""Completion of names from the server. It is quick, or offers nothing.

Every argument and option with one of these names completes, in every command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from cli.api import Api
from cli.errors import CliError

#: Longest time for names from the server, in seconds.
COMPLETION_S = 1.0
#: The most names that are offered.
OFFERED_MAX = 100


def names_for(
    parameter: str, incomplete: str, *, open_with: Callable[[], Api]
) -> list[tuple[str, str]]:
    """Return the names that begin with `incomplete`, each with a word of help.

    Nothing where the server refuses, fails or is slow, or nobody is logged in.
    """
    read = _READERS.get(parameter)
    if read is None:
        return []
    with suppress(CliError, KeyError, OSError):
        found = dict.fromkeys(read(open_with()))
        return [each for each in found if each[0].startswith(incomplete)][:OFFERED_MAX]
    return []


def _items(api: Api, path: str, **parameters: object) -> Iterable[Mapping[str, Any]]:
    found = api.get_once(path, timeout_s=COMPLETION_S, limit=500, **parameters)["items"]
    return found if isinstance(found, list) else []


def _jobs(api: Api) -> list[tuple[str, str]]:
    return [(job["id"], f"{job['name']}, {job['state']}") for job in _items(api, "jobs")]


def _paths(api: Api) -> list[tuple[str, str]]:
    return [(quota["node"], quota["node_name"]) for quota in _items(api, "quotas")]


def _pools(api: Api) -> list[tuple[str, str]]:
    return [(pool["name"], "") for pool in _items(api, "pools")]


def _clusters(api: Api) -> list[tuple[str, str]]:
    return [(cluster["name"], cluster["kind"]) for cluster in _items(api, "clusters")]


_READERS = {
    **dict.fromkeys(("job", "jobs"), _jobs),
    **dict.fromkeys(("team", "node", "path", "parent", "unit"), _paths),
    "pool": _pools,
    "cluster": _clusters,
}
#: The names of parameters that complete.
COMPLETED = frozenset(_READERS)

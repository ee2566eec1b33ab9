"""The slurmrestd addresses that may get tokens, and the minters that may be asked for them.

A token commands the whole cluster, so the operator lists the addresses and the sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connectors.operator_lists import is_listed_origin, is_listed_path
from connectors.options import refusal

#: The settings that list them.
ORIGINS = "SLURM_ORIGINS"
MINTERS = "SLURM_MINTERS"


def check_trusted(options: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise OptionsRefused, saying what to do, for an unlisted slurmrestd or minter."""
    url, socket = options.get("url"), options.get("token_socket")
    if isinstance(url, str) and not is_listed_origin(url, given[ORIGINS]):
        raise refusal(
            ("url",),
            f"option url leads to {url[:200]}, which is none of the slurmrestd that may be given "
            "tokens; whoever runs this installation can add its scheme, host and port to "
            "TIDEGATE_SLURM_ORIGINS and restart it",
        )
    if isinstance(socket, str) and not is_listed_path(socket, given[MINTERS]):
        raise refusal(
            ("token_socket",),
            f"option token_socket names {socket[:200]}, which is none of the minters that may be "
            "asked; whoever runs this installation can add it to TIDEGATE_SLURM_MINTERS and "
            "restart it",
        )


def secret_paths(given: Mapping[str, Any]) -> list[str]:
    """Return the sockets of the minters, which give tokens to any process that may open them."""
    return list(given[MINTERS])

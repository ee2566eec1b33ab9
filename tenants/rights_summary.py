"""Summarizes the rights of a user, so that pages show or hide buttons."""

from __future__ import annotations

from tenants.access import Actor
from tenants.roles import Permission


def permissions_by_path(actor: Actor) -> dict[str, list[str]]:
    """Return the actor's permissions by the path of each node with a role ("" is the platform).

    They hold for the node's subtree. The token's scopes are taken into account.
    """
    paths = sorted({path for _, path in actor.grants})
    return {
        path.rstrip("/"): sorted(p.value for p in Permission if actor.holds(p, path))
        for path in paths
    }

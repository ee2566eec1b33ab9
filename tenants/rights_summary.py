"""What somebody may do where, for pages that show or hide buttons by it."""

from __future__ import annotations

from tenants.access import Actor
from tenants.roles import Permission


def permissions_by_path(actor: Actor) -> dict[str, list[str]]:
    """The permissions held on the subtree of each node that the actor has a role on, by the
    path as people write it ("" is the whole platform), with the token's scopes counted."""
    paths = sorted({path for _, path in actor.grants})
    return {
        path.rstrip("/"): sorted(p.value for p in Permission if actor.holds(p, path))
        for path in paths
    }

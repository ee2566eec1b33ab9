"""Access control. Every id, filter and export goes through `visible`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

from primitives.errors import Forbidden, NotFound
from tenants.models import (
    GRANT_IN_FORCE,
    AccessToken,
    FormerPlace,
    Node,
    NodeKind,
    RoleGrant,
    User,
)
from tenants.roles import PERMISSIONS, SCOPE_PERMISSIONS, Permission, Role, Scope
from webapi.row_access import all_rows, limit_to
from webapi.statements import columns, prepared_cursor, taken

Row = TypeVar("Row", bound=Model)

_ROLES = frozenset(role.value for role in Role)
_SCOPES = frozenset(scope.value for scope in Scope)

#: The path prefix of a grant on the whole platform. Every path starts with it.
PLATFORM = ""

#: Conditions that Django simplifies. An empty Q() cannot stand for everything: it vanishes in `Q()
#: | other`, and a platform admin would see `other` only.
NOTHING = Q(pk__in=[])
EVERYTHING = ~NOTHING


@dataclass(frozen=True, slots=True)
class Actor:
    """A user who acts, with the current rights.

    `actor_of` creates one per request; it is never stored. `grants` are (role, path prefix).
    `scopes` is None for a browser session, which has no scopes to limit it. `token` is the access
    token in use, if any.
    """

    user: User
    grants: tuple[tuple[Role, str], ...]
    scopes: frozenset[Scope] | None = None
    organization_path: str | None = field(default=None)
    token: AccessToken | None = field(default=None, repr=False)
    #: Results of `prefixes`, which a page of jobs asks for a hundred times.
    _prefixes: dict[Permission, tuple[str, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def permits(self, permission: Permission) -> bool:
        """Return whether the token's scopes allow `permission` at all."""
        if self.scopes is None:
            return True
        return any(permission in SCOPE_PERMISSIONS[scope] for scope in self.scopes)

    def prefixes(self, permission: Permission) -> tuple[str, ...]:
        """Return the path prefixes below which the actor has `permission`, shortest first.

        Every member of an organization may see its whole tree (names, quotas, totals).
        """
        if permission not in self._prefixes:
            self._prefixes[permission] = self._find_prefixes(permission)
        return self._prefixes[permission]

    def _find_prefixes(self, permission: Permission) -> tuple[str, ...]:
        if not self.permits(permission):
            return ()
        held = {path for role, path in self.grants if permission in PERMISSIONS[role]}
        if permission is Permission.VIEW_TREE and self.organization_path is not None:
            held.add(self.organization_path)
        return _outermost(held)

    def granted(self, permission: Permission) -> tuple[str, ...]:
        """Return the path prefixes below which the actor's roles give `permission`.

        Token scopes are ignored. It is for reads that need a right to act. The caller checks the
        scope for reading.
        """
        return _outermost(path for role, path in self.grants if permission in PERMISSIONS[role])

    def holds(self, permission: Permission, path: str) -> bool:
        """Return whether the actor has `permission` on the node at `path` (with its slash)."""
        return path.startswith(self.prefixes(permission))

    def limit_rows(self) -> None:
        """Limit what the request reads and writes from here on to the actor's organization.

        Accounts of the installation have none, and are not limited. An account of an organization
        has roles inside of it only.
        """
        if self.user.organization_id is not None:
            limit_to([self.user.organization_id])

    @property
    def is_platform_admin(self) -> bool:
        """Return whether the actor administers the installation."""
        return any(role is Role.PLATFORM_ADMIN for role, _ in self.grants)


def _outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes that are not below another one, shortest first."""
    outer: list[str] = []
    for path in sorted(set(paths), key=lambda p: (len(p), p)):
        if not any(path.startswith(other) for other in outer):
            outer.append(path)
    return tuple(outer)


@all_rows()
def actor_of(
    user: User, scopes: Iterable[str] | None = None, *, token: AccessToken | None = None
) -> Actor:
    """Return the actor for `user` with its current rights. A `token` in use brings its scopes.

    This takes one query, and another one when the user's organization is not loaded. A deactivated
    user has no rights, and an expired grant gives none. A role or scope that this version does not
    know gives none.
    """
    if token is not None:
        scopes = token.scopes
    return actor_with(
        user,
        RoleGrant.objects.filter(GRANT_IN_FORCE, user=user).values_list("role", "node__path"),
        scopes,
        token=token,
    )


def actor_with(
    user: User,
    grants: Iterable[tuple[str, str | None]],
    scopes: Iterable[str] | None,
    *,
    token: AccessToken | None = None,
) -> Actor:
    """Return the actor with these grants of (role, path of the node, or None for the platform).

    It is for callers that read the grants in the same statement as the user.
    """
    organization = user.organization
    return Actor(
        user=user,
        grants=tuple(
            sorted(
                (Role(role), PLATFORM if path is None else path)
                for role, path in (grants if user.is_active else ())
                if role in _ROLES
            )
        ),
        scopes=None
        if scopes is None
        else frozenset(Scope(scope) for scope in scopes if scope in _SCOPES),
        organization_path=organization.path
        if organization is not None and user.is_active
        else None,
        token=token,
    )


def under(prefixes: Iterable[str], path_field: str) -> Q:
    """Return the condition that `path_field` is below one of `prefixes`.

    Without any it matches nothing. A prefix ends in a slash, and paths are compared byte by byte
    (collation "C"). So the range is exact and uses the index. LIKE would treat `_` as a wildcard.
    """
    condition = NOTHING
    for prefix in prefixes:
        if prefix == PLATFORM:
            return EVERYTHING
        low, high = _bounds(prefix)
        condition |= Q(**{f"{path_field}__gte": low, f"{path_field}__lt": high})
    return condition


def _bounds(prefix: str) -> tuple[str, str]:
    """Return the first path at or below `prefix`, and the first path after all of these."""
    return prefix, prefix[:-1] + chr(ord("/") + 1)


def ids_below(prefixes: Sequence[str], kind: NodeKind) -> list[UUID]:
    """Return the ids of the nodes of `kind` at or below these prefixes, with one statement at most.

    No prefix may be the platform's or be below another one (`Actor.prefixes`).
    """
    if not prefixes:
        return []
    bounds = [_bounds(prefix) for prefix in prefixes]
    with prepared_cursor() as cursor:
        cursor.execute(
            _BELOW, [[low for low, _ in bounds], [high for _, high in bounds], kind.value]
        )
        return [pk for (pk,) in cursor.fetchall()]


_BELOW = """
SELECT n.id FROM unnest(%s::text[], %s::text[]) AS wanted (low, high)
JOIN tenants_node n ON n.path >= wanted.low AND n.path < wanted.high
WHERE n.kind = %s::text
"""


def visible(
    actor: Actor,
    rows: QuerySet[Row],
    permission: Permission,
    *,
    path_field: str,
    own: Q | None = None,
) -> QuerySet[Row]:
    """Return those of `rows` that the actor may see by `permission` on the node at `path_field`.

    `own` adds the actor's own rows (jobs, tokens) for any role. It requires an active member, and a
    token whose scopes allow the permission.
    """
    condition = under(actor.prefixes(permission), path_field)
    if own is not None and actor.user.is_active and actor.permits(permission):
        condition |= own
    return rows.filter(condition)


def visible_node(actor: Actor, path: str, permission: Permission = Permission.VIEW_TREE) -> Node:
    """Return the node at `path`, or the only visible node whose path ends in `path` ("nlp").

    `path` may have the last slash ("ai-company/research"). If several paths end in it, the only one
    on which the actor has `permission` is chosen. Archived nodes come second, and are not
    suggested.

    Raises NotFound when no node or several match, or the actor may not see the tree there. The
    sentence then lists candidates. Raises Forbidden when the actor sees the node but lacks
    `permission` on it.
    """
    wanted = path.rstrip("/") + "/"
    node = _node_at(wanted) if actor.holds(Permission.VIEW_TREE, wanted) else None
    if node is None:
        node = _node_at(_path_ending_in(wanted, actor, permission))
        assert node is not None
    require(actor, permission, node)
    return node


def _path_ending_in(wanted: str, actor: Actor, permission: Permission) -> str:
    """Return the path of the visible node whose path ends in `wanted`. Raises NotFound."""
    name = wanted.rstrip("/")
    seen = Node.objects.filter(under(actor.prefixes(Permission.VIEW_TREE), "path"))
    namesakes = seen.filter(slug=name.rpartition("/")[2]).order_by("path")
    ending = [
        (path, archived_at)
        for path, archived_at in namesakes.values_list("path", "archived_at")[:_SEARCHED_MAX]
        if path.endswith(f"/{wanted}")
    ]
    in_use = [path for path, archived_at in ending if archived_at is None]
    found = in_use or [path for path, _ in ending]
    for only in (found, [path for path in found if actor.holds(permission, path)]):
        if len(only) == 1:
            return only[0]
    if found:
        some = ", ".join(path.rstrip("/") for path in found[:_NAMED_MAX])
        raise NotFound(f"{name!r} is the end of several paths. Give more of it: {some}.", path=name)
    former = FormerPlace.objects.filter(path=wanted).select_related("node").first()
    if former is not None and actor.holds(Permission.VIEW_TREE, former.node.path):
        raise NotFound(f"{name} was moved to {former.node.display_path}.", path=name)
    suggested = seen.filter(archived_at=None).values_list("path", flat=True)
    paths = [path.rstrip("/") for path in suggested[:_SEARCHED_MAX]]
    # A bare name is compared with the last part of each path.
    compared = {path if "/" in name else path.rpartition("/")[2]: path for path in paths}
    near = [compared[key] for key in get_close_matches(name, compared, n=_NAMED_MAX)]
    hint = f" Did you mean {', '.join(sorted(near))}?" if near else ""
    raise NotFound(f"There is no {name!r} that you can see.{hint}", path=name)


#: Number of nodes that are searched, and number of candidates in an error.
_SEARCHED_MAX = 1_000
_NAMED_MAX = 3


def _node_at(path: str) -> Node | None:
    """Return the node with its organization and parent loaded, or None."""
    with prepared_cursor() as cursor:
        cursor.execute(_NODE, [path])
        values = cursor.fetchone()
    if values is None:
        return None
    node, values = taken(Node, values)
    organization, values = taken(Node, values)
    parent, _ = taken(Node, values)
    node.organization = organization
    node.parent = parent if node.parent_id is not None else None
    return node


_NODE = f"""
SELECT {columns(Node, "n")}, {columns(Node, "o")}, {columns(Node, "p")}
FROM tenants_node n
JOIN tenants_node o ON o.id = n.organization_id
LEFT JOIN tenants_node p ON p.id = n.parent_id
WHERE n.path = %s::text
"""  # noqa: S608 - the columns are our model's


def require(actor: Actor, permission: Permission, node: Node) -> None:
    """Raise Forbidden unless the actor has `permission` on `node`."""
    if not actor.holds(permission, node.path):
        raise Forbidden(
            f"You need the right {permission.value} on {node.display_path}; ask an "
            "administrator of it.",
            permission=permission.value,
            node=node.display_path,
        )


def require_session_or_admin_scope(actor: Actor, act: str) -> None:
    """Raise Forbidden for a token without the scope admin. The sentence begins with `act`."""
    if actor.scopes is not None and Scope.ADMIN not in actor.scopes:
        raise Forbidden(f"{act} needs a session, or a token with the scope admin.")


def require_platform_admin(actor: Actor) -> None:
    """Raise Forbidden unless the actor administers the installation and the token allows it."""
    if not (actor.is_platform_admin and actor.permits(Permission.MANAGE_CLUSTERS)):
        raise Forbidden("Only a platform administrator may do this.")


def get_visible(
    actor: Actor,
    rows: QuerySet[Row],
    permission: Permission,
    *,
    path_field: str,
    pk: UUID | Any,
    own: Q | None = None,
) -> Row:
    """Return the visible row with `pk`. Raises NotFound for absent and invisible rows alike."""
    row = visible(actor, rows, permission, path_field=path_field, own=own).filter(pk=pk).first()
    if row is None:
        raise NotFound("It does not exist, or you may not see it.")
    return row

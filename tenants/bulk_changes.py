"""Creates many nodes, roles and invitations in few statements, by the rules for single ones.

Each function stores what it may, and returns the refusals by position in its input. The caller
locks the tree first, and rolls back where anything was refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ParamSpec
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.expressions import RawSQL

from audit.recording import record_all
from bulk.arrays import uuid_array
from bulk.inserting import columns_of, insert_rows
from live.publishing import publish, publish_rights
from primitives.errors import Conflict, NotFound, PortalError
from tenants import granting, invitations
from tenants.access import Actor, require
from tenants.audit_trail import act_of
from tenants.granting import OwnRoles, check_expiry, refuse_user, require_may_hand_out
from tenants.invitations import (
    Invited,
    counts_of,
    new_invitation,
    refuse_role,
    refuse_too_many,
    refuse_without_passwords,
    username_of,
)
from tenants.membership import visible_users
from tenants.models import Invitation, Node, NodeKind, RoleGrant, User, UserKind
from tenants.names import check_slug, check_username, clean_name
from tenants.roles import Permission, Role
from tenants.structure import refuse_below, run_new_team_acts, taken
from tenants.tokens import revoke_unmanaged

P = ParamSpec("P")
Refusals = dict[int, PortalError]

#: Tried usernames of an invited person: maria, maria-2 ... maria-100.
_NAMES_TRIED = 100


@dataclass(frozen=True, slots=True)
class NewNode:
    """A department or team to create at `path` (with its last slash)."""

    kind: NodeKind
    path: str
    name: str


@dataclass(frozen=True, slots=True)
class NewRole:
    """A role to grant on the node at `path` (with its last slash)."""

    login: str
    role: Role
    path: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewInvitation:
    """A person to invite to the node at `path` (with its last slash)."""

    path: str
    invited: Invited


def create_nodes(*, actor: Actor, wanted: Sequence[NewNode], now: datetime) -> Refusals:
    """Create nodes whose parents exist already, by the rules of `structure.create_below`."""
    parents = _nodes_at({_parent_path(each.path) for each in wanted})
    checked = _Checked()
    refusals: Refusals = {}
    made: dict[int, Node] = {}
    for index, each in enumerate(wanted):
        above = _parent_path(each.path)
        try:
            parent = _found(parents, above)
            checked.once(above, _refuse_parent, actor, parent)
            made[index] = Node(
                kind=each.kind.value,
                parent=parent,
                organization_id=parent.organization_id,
                slug=check_slug(each.path.removeprefix(above).rstrip("/")),
                name=clean_name(each.name),
                path=each.path,
                created_at=now,
            )
        except PortalError as error:
            refusals[index] = error
    conflicts = taken(actor, {node.path: node.pk for node in made.values()})
    for index, node in list(made.items()):
        if node.path in conflicts:
            refusals[index] = conflicts[node.path]
            del made[index]
    nodes = list(made.values())
    insert_rows(Node, [columns_of(node) for node in nodes], returns_keys=False)
    record_all(
        [
            act_of(
                actor=actor,
                action=f"{node.kind}_created",
                subject_kind=node.kind,
                subject_id=node.pk,
                node=node,
                now=now,
                detail={"slug": node.slug, "name": node.name},
            )
            for node in nodes
        ]
    )
    for node in nodes:
        if node.kind == NodeKind.TEAM:
            run_new_team_acts(node, actor, now)
    if nodes:
        publish("quotas", ids=[node.pk for node in nodes], organization_id=nodes[0].organization_id)
    return refusals


def grant_roles(
    *, actor: Actor, wanted: Sequence[NewRole], now: datetime, locks_users: bool = True
) -> Refusals:
    """Grant roles by the rules of `granting.grant_role`.

    A preview, which is rolled back, locks no users: their submissions would wait.
    """
    nodes = _nodes_at({each.path for each in wanted})
    logins = {each.login for each in wanted}
    seen = visible_users(actor).filter(_belongs(nodes.values())).values_list("login", "pk")
    ids = uuid_array(pk for login, pk in seen if login in logins)
    among = RawSQL("SELECT unnest(%s::uuid[])", [ids])
    rows = User.objects.filter(pk__in=among).order_by("pk").select_related("organization")
    if locks_users:
        rows = rows.select_for_update(of=("self",))
    users = {user.login: user for user in rows}
    had = RoleGrant.objects.filter(user__in=among)
    own = OwnRoles(actor)
    counts = Counter(had.values_list("user", flat=True))
    has = {(grant.user_id, grant.role, grant.node_id): grant for grant in had.filter(group="")}
    checked = _Checked()
    refusals: Refusals = {}
    granted: list[RoleGrant] = []
    expired: list[UUID] = []
    for index, each in enumerate(wanted):
        try:
            node = _found(nodes, each.path)
            user = users.get(each.login)
            if user is None:
                raise NotFound(f"There is no user {each.login!r} that you can see.")
            key = (each.role, each.path, each.expires_at)
            checked.once(key, _refuse_role, actor, own, each, node, now)
            refuse_user(user, node, has=counts[user.pk])
            old = has.get((user.pk, each.role.value, node.pk))
            if old is not None:
                if old.expires_at is None or old.expires_at > now:
                    raise Conflict(f"{user.login} has this role there already.")
                expired.append(old.pk)
        except PortalError as error:
            refusals[index] = error
            continue
        counts[user.pk] += 1
        granted.append(
            RoleGrant(
                user=user,
                role=each.role.value,
                node=node,
                granted_by=actor.user,
                created_at=now,
                expires_at=each.expires_at,
            )
        )
    RoleGrant.objects.filter(pk__in=expired).delete()
    insert_rows(RoleGrant, [columns_of(grant) for grant in granted], returns_keys=False)
    record_all(
        [
            act_of(
                actor=actor,
                action="role_granted",
                subject_kind="role_grant",
                subject_id=grant.pk,
                node=grant.node,
                now=now,
                detail=granting.detail_of(grant),
            )
            for grant in granted
        ]
    )
    changed = {grant.user_id: grant.user for grant in granted}
    publish_rights(*changed)
    for user in changed.values():
        if user.kind == UserKind.SERVICE:
            revoke_unmanaged(actor=actor, user=user, now=now)
    return refusals


def invite_people(*, actor: Actor, wanted: Sequence[NewInvitation], now: datetime) -> Refusals:
    """Invite people by the rules of `invitations.invite`. A timer mails the invitations.

    A username that is taken gets a number: `ana-2`.
    """
    nodes = _nodes_at({each.path for each in wanted})
    usernames, own = _usernames(nodes.values()), OwnRoles(actor)
    open_count, made_count = counts_of({node.organization_id for node in nodes.values()}, now)
    checked = _Checked()
    refusals: Refusals = {}
    made: list[Invitation] = []
    for index, each in enumerate(wanted):
        invited = each.invited
        try:
            node = _found(nodes, each.path)
            checked.once(None, refuse_without_passwords, node)
            key = (invited.role, each.path, invited.role_expires_at)
            role = NewRole("", invited.role, each.path, invited.role_expires_at)
            checked.once(key, _refuse_role, actor, own, role, node, now)
            refuse_role(invited.role)
            refuse_too_many(open_count + len(made) + 1, made_count + len(made) + 1)
            username = _free(invited.email, usernames)
            invitation, _ = new_invitation(actor, node, invited, username, now)
        except PortalError as error:
            refusals[index] = error
            continue
        usernames.add(username)
        invitation.mail_due_at = now
        made.append(invitation)
    try:
        with transaction.atomic():
            # The digest is bytes, which `insert_rows` cannot take.
            Invitation.objects.bulk_create(made, batch_size=1_000)
    except IntegrityError as error:
        raise Conflict(
            "Somebody invited one of these people at the same moment. Preview the file again."
        ) from error
    record_all(
        [
            act_of(
                actor=actor,
                action="invitation_made",
                subject_kind="invitation",
                subject_id=invitation.pk,
                node=invitation.node,
                now=now,
                detail=invitations.detail_of(invitation),
            )
            for invitation in made
        ]
    )
    return refusals


class _Checked:
    """Checks that many rows share: each is done once, and its refusal is repeated."""

    def __init__(self) -> None:
        self._found: dict[object, PortalError | None] = {}

    def once(self, key: object, check: Callable[P, None], *values: P.args, **_: P.kwargs) -> None:
        """Do `check` of these values, or repeat the refusal that it had for `key` before."""
        if key not in self._found:
            try:
                check(*values, **_)
            except PortalError as error:
                self._found[key] = error
            else:
                self._found[key] = None
        refusal = self._found[key]
        if refusal is not None:
            raise refusal


def _refuse_parent(actor: Actor, parent: Node) -> None:
    require(actor, Permission.MANAGE_STRUCTURE, parent)
    refuse_below(parent)


def _refuse_role(actor: Actor, own: OwnRoles, wanted: NewRole, node: Node, now: datetime) -> None:
    require(actor, Permission.MANAGE_MEMBERS, node)
    check_expiry(wanted.expires_at, now)
    require_may_hand_out(actor, wanted.role, node)
    own.refuse_outlasting(wanted.role, node, wanted.expires_at)


def _belongs(nodes: Iterable[Node]) -> Q:
    """Return the condition for users of the nodes' organizations, and of the platform."""
    organizations = {node.organization_id for node in nodes}
    return Q(organization__in=organizations) | Q(organization=None)


def _parent_path(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0] + "/"


def _nodes_at(paths: Iterable[str]) -> dict[str, Node]:
    found = Node.objects.filter(path__in=list(paths)).select_related("organization")
    return {node.path: node for node in found}


def _found(nodes: dict[str, Node], path: str) -> Node:
    if path not in nodes:
        raise NotFound(f"There is no {path.rstrip('/')!r} that you can see.")
    return nodes[path]


def _usernames(nodes: Iterable[Node]) -> set[str]:
    """Return the usernames of accounts and open invitations of the nodes' organizations."""
    organizations = {node.organization_id for node in nodes}
    taken_names = User.objects.filter(organization__in=organizations)
    opened = Invitation.objects.filter(
        node__organization__in=organizations, accepted_at=None, withdrawn_at=None
    )
    return {
        *taken_names.values_list("username", flat=True),
        *opened.values_list("username", flat=True),
    }


def _free(email: str, usernames: set[str]) -> str:
    """Return the username of an address, or its first numbered form that is free.

    Raises InvalidRequest for an address without a valid username, and Conflict if all are taken.
    """
    wanted = username_of(email)
    for number in range(1, _NAMES_TRIED + 1):
        username = check_username(wanted if number == 1 else f"{wanted}-{number}")
        if username not in usernames:
            return username
    raise Conflict(
        f"The usernames {wanted} to {wanted}-{_NAMES_TRIED} are taken. Invite {email} with "
        "`tidegate members invite --username`."
    )

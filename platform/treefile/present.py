"""Reads the present tree below a node, as the rows of a file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from clusters.models import Pool
from quotas.administration import QuotaEdit
from quotas.models import Quota
from tenants.access import Actor, get_visible, require, under
from tenants.membership import visible_users
from tenants.models import GRANT_IN_FORCE, Invitation, Node, RoleGrant
from tenants.roles import Permission
from treefile.rows import MemberRow, NodeRow, QuotaRow, TreeFile


@dataclass(frozen=True, slots=True)
class PresentGrant:
    """A role that a person granted on a node."""

    id: UUID
    version: int
    node: UUID
    login: str
    name: str
    role: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class PresentInvitation:
    """An open invitation to a node."""

    id: UUID
    node: UUID
    email: str
    name: str
    role: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class PresentQuota:
    """The quota of a node in a pool. `edit` has all of its settings."""

    id: UUID
    version: int
    node: UUID
    pool: str
    edit: QuotaEdit


@dataclass(frozen=True, slots=True)
class PresentTree:
    """The tree at and below `top`. Roles by groups are not part of it."""

    top: Node
    nodes: Sequence[Node]
    grants: Sequence[PresentGrant]
    invitations: Sequence[PresentInvitation]
    quotas: Sequence[PresentQuota] = ()
    #: The names of all pools.
    pools: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """An account that the `user` of a row names."""

    login: str
    name: str


def node_of_file(actor: Actor, node_id: UUID) -> Node:
    """Return the node whose tree the actor may export and import.

    Raises NotFound, and Forbidden without manage_members on it.
    """
    rows = Node.objects.select_related("organization")
    node = get_visible(actor, rows, Permission.VIEW_TREE, path_field="path", pk=node_id)
    require(actor, Permission.MANAGE_MEMBERS, node)
    return node


def present_tree(top: Node) -> PresentTree:
    """Return the present tree at and below a node, in the order of paths. Five queries."""
    grants = RoleGrant.objects.filter(GRANT_IN_FORCE, under([top.path], "node__path"), group="")
    opened = Invitation.objects.filter(
        under([top.path], "node__path"), accepted_at=None, withdrawn_at=None
    )
    return PresentTree(
        top=top,
        nodes=list(Node.objects.filter(under([top.path], "path")).order_by("path")),
        grants=[
            PresentGrant(*values)
            for values in grants.order_by("node__path", "user__login", "role").values_list(
                "pk", "version", "node", "user__login", "user__name", "role", "expires_at"
            )
        ],
        invitations=[
            PresentInvitation(*values)
            for values in opened.order_by("node__path", "email").values_list(
                "pk", "node", "email", "name", "role", "role_expires_at"
            )
        ],
        quotas=[
            PresentQuota(
                quota.pk, quota.version, quota.node_id, quota.pool.name, settings_of(quota)
            )
            for quota in Quota.objects.filter(under([top.path], "node__path"))
            .select_related("pool")
            .order_by("node__path", "pool__name")
        ],
        pools=set(Pool.objects.values_list("name", flat=True)),
    )


def as_file(tree: PresentTree) -> TreeFile:
    """Return the rows of the present tree, without archived nodes."""
    paths = {node.pk: node.display_path for node in tree.nodes if node.archived_at is None}
    members = [
        MemberRow(0, paths[each.node], each.login, each.role, each.expires_at, each.name)
        for each in tree.grants
        if each.node in paths
    ]
    members += [
        MemberRow(0, paths[each.node], each.email, each.role, each.expires_at, each.name)
        for each in tree.invitations
        if each.node in paths
    ]
    return TreeFile(
        nodes=[
            NodeRow(0, node.kind, paths[node.pk], node.name, node.pk)
            for node in tree.nodes
            if node.pk in paths
        ],
        members=members,
        quotas=[
            QuotaRow(0, paths[each.node], each.pool, each.edit)
            for each in tree.quotas
            if each.node in paths
        ],
    )


def settings_of(quota: Quota) -> QuotaEdit:
    """Return all settings of a quota. A guarantee is a number or a percentage."""
    edit = QuotaEdit(
        borrow_limit_mgpu=quota.borrow_limit_mgpu,
        lend_limit_mgpu=quota.lend_limit_mgpu,
        weight=quota.weight,
    )
    if quota.guaranteed_bp is None:
        return edit | {"guaranteed_mgpu": quota.guaranteed_mgpu}
    return edit | {"guaranteed_bp": quota.guaranteed_bp}


def accounts_named(
    actor: Actor, organization: Node, users: Collection[str]
) -> Mapping[str, Sequence[Account]]:
    """Return the accounts that each text names: by login, by username, or by mail address.

    One query for all accounts of the organization. Several accounts may have one address.
    """
    by_login: dict[str, Account] = {}
    by_address: defaultdict[str, list[Account]] = defaultdict(list)
    seen = visible_users(actor).filter(organization=organization).order_by("login")
    for login, name, address in seen.values_list("login", "name", "email"):
        account = Account(login, name)
        by_login[login] = by_login[login.partition("@")[0]] = account
        by_address[address.lower()].append(account)
    return {
        text: [by_login[text]] if text in by_login else by_address.get(text.lower(), [])
        for text in users
    }

"""Readers of planned changes, and the rights to them.

Readers of a draft are its author, and users who manage quotas at, above or below an edited node. An
applied change is history, which the whole organization may read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, cast
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from primitives.errors import Forbidden
from quotas.administration import QuotaEdit, may_make, parent_path
from quotas.models import PlannedChange, PlannedEdit, PlannedStatus, Quota
from tenants.access import Actor, get_visible, under, visible
from tenants.models import Node
from tenants.roles import Permission

#: Statuses of changes that took effect. They are history, which the whole organization may read.
IN_HISTORY = (PlannedStatus.APPLIED, PlannedStatus.REVERTED, PlannedStatus.KEPT)


def visible_planned(actor: Actor) -> QuerySet[PlannedChange]:
    """Return the planned changes that the actor may read, with nodes and people."""
    found = visible(actor, with_names(), Permission.VIEW_TREE, path_field="node__path")
    return found.filter(_is_readable(actor))


def planned_by_id(actor: Actor, planned_id: UUID) -> PlannedChange:
    """Return the planned change.

    Raises NotFound for absent, invisible and unreadable ones alike.
    """
    return get_visible(
        actor,
        with_names().filter(_is_readable(actor)),
        Permission.VIEW_TREE,
        path_field="node__path",
        pk=planned_id,
    )


def _is_readable(actor: Actor) -> Q:
    """Return the condition that the actor may read a planned change in a visible tree.

    Roles count, not the token's scopes. So a read-only token shows all that its owner may read.
    """
    managed = actor.granted(Permission.MANAGE_QUOTA)
    steps = [path.rstrip("/").split("/") for path in managed if path]
    above = {"/".join(names[:depth]) + "/" for names in steps for depth in range(1, len(names) + 1)}
    set_here = PlannedEdit.objects.filter(
        under(managed, "quota__node__path") | Q(quota__node__path__in=above),
        planned=OuterRef("pk"),
    )
    return Q(status__in=IN_HISTORY) | Q(created_by=actor.user) | Q(Exists(set_here))


def with_names() -> QuerySet[PlannedChange]:
    """Return all planned changes, with nodes and people."""
    return PlannedChange.objects.select_related(
        "node", "node__organization", "node__parent", "created_by", "decided_by"
    )


def edits_of(planned: PlannedChange) -> list[PlannedEdit]:
    """Return its edits with their quotas, in tree order."""
    return list(
        planned.edits.select_related("quota__node__parent", "quota__pool").order_by(
            "quota__node__path", "quota__pool__name"
        )
    )


def may_manage(actor: Actor, planned: PlannedChange) -> bool:
    """Return whether the actor may manage it: its author, or a user who manages quotas there."""
    return actor.permits(Permission.MANAGE_QUOTA) and (
        planned.created_by_id == actor.user.pk
        or actor.holds(Permission.MANAGE_QUOTA, planned.node.path)
    )


def may_cancel(actor: Actor, planned: PlannedChange, edits: Sequence[PlannedEdit]) -> bool:
    """Return whether the actor may cancel it, or keep it once it is applied."""
    return may_manage(actor, planned) and (
        planned.status != PlannedStatus.APPLIED
        or all(
            actor.holds(Permission.MANAGE_QUOTA, parent_path(node))
            for node in nodes_with_edits_of_the_parent(edits)
        )
    )


def nodes_with_edits_of_the_parent(edits: Iterable[PlannedEdit]) -> list[Node]:
    """Return the nodes whose edits are kept only with the right on their parent."""
    return [edit.quota.node for edit in edits if edit.values.keys() - {"lend_limit_mgpu"}]


def may_preview(actor: Actor, planned: PlannedChange, edits: Sequence[PlannedEdit]) -> bool:
    """Return whether the actor may preview it.

    These are users who may manage it, and users who manage quotas at, above or below an edited
    node. The latter could draft and preview the same change themselves.
    """
    managed = actor.prefixes(Permission.MANAGE_QUOTA)
    return may_manage(actor, planned) or any(
        path.startswith(managed) or any(one.startswith(path) for one in managed)
        for path in (edit.quota.node.path for edit in edits)
    )


def may_apply(actor: Actor, planned: PlannedChange, edits: Sequence[PlannedEdit]) -> bool:
    """Return whether it is a draft, and the actor has the rights to all edits."""
    return planned.status == PlannedStatus.DRAFT and all(
        may_make(actor, edit.quota, edit_of(edit.values)) for edit in edits
    )


def require_management(actor: Actor, planned: PlannedChange) -> None:
    """Raise Forbidden unless `may_manage`."""
    if not may_manage(actor, planned):
        raise Forbidden(
            f"Only {planned.created_by.login}, who drafted this change, and users who manage "
            f"quotas of {planned.node.display_path} may do this.",
            permission=Permission.MANAGE_QUOTA.value,
            node=planned.node.display_path,
        )


def require_preview(actor: Actor, planned: PlannedChange) -> None:
    """Raise Forbidden unless `may_preview`."""
    if not may_preview(actor, planned, edits_of(planned)):
        raise Forbidden(
            f"Only {planned.created_by.login}, who drafted this change, and users who manage its "
            "quotas, or quotas above or below those, may preview it.",
            permission=Permission.MANAGE_QUOTA.value,
            node=planned.node.display_path,
        )


def etag_of_planned(planned: PlannedChange) -> str:
    """Return an ETag of the change and of every quota of its organization in its pools.

    One query.
    """
    pools = planned.edits.values("quota__pool")
    quotas = Quota.objects.filter(
        node__organization=planned.node.organization_id, pool__in=pools
    ).order_by("pk")
    digest = hashlib.sha256(f"{planned.pk} {planned.version}".encode())
    for pk, version in quotas.values_list("pk", "version"):
        digest.update(f" {pk} {version}".encode())
    return f'"{digest.hexdigest()[:32]}"'


def edit_of(values: dict[str, Any]) -> QuotaEdit:
    """Return stored values as an edit."""
    return cast(QuotaEdit, values)

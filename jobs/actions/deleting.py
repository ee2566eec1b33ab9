"""Delete a node of the tree that was never used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import Q

from audit.models import AuditEvent
from billing.models import MeteredParty, RateCard
from billing.reconciliation_models import ReconciledAccount
from jobs.models import Job, JobArray
from live.publishing import publish
from live.waking import wake
from primitives.errors import Conflict
from quotas.guarding import Write, guarded
from quotas.models import PlannedChange, PlannedEdit
from quotas.policies import remove_from_rank
from quotas.removal import remove_quotas
from tenants.access import Actor, under
from tenants.audit_trail import record_act
from tenants.models import FormerPlace, Node, RoleGrant, User
from tenants.structure import locked_below, locked_node_to_archive, remove_node

_MEMBERS = ("role_granted", "role_revoked")


@transaction.atomic
def delete_node(node_id: UUID, *, actor: Actor, now: datetime) -> None:
    """Delete an organization, department or team that was never used, with its quotas.

    Raises NotFound and Forbidden. Raises Conflict, with its uses, for a node that was used or has
    nodes below it.
    """
    node = locked_node_to_archive(actor, node_id)
    if len(locked_below(node)) > 1:
        raise Conflict(f"Something lies below {node.display_path}. Delete that first.")
    used_by = list(_uses(node))
    if used_by:
        raise _used(node, used_by)
    record_act(
        actor=actor,
        action=f"{node.kind}_deleted",
        subject_kind=node.kind,
        subject_id=node.pk,
        node=node,
        now=now,
        detail={"slug": node.slug, "name": node.name},
    )
    try:
        write = Write("node.delete", {"node": str(node_id)})
        # An unused organization has nobody to ask, and a request about it would keep it.
        is_guarded = node.parent_id is not None
        guard = guarded(node.organization, write, actor=actor, now=now)
        with (
            transaction.atomic(),
            guard if is_guarded else nullcontext(),
            connection.cursor() as cursor,
        ):
            remove_node(node)
            remove_quotas(node)
            remove_from_rank(node, actor=actor, now=now)
            # Any other reference to the node is found here.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    except IntegrityError as error:
        raise _used(node, ["something that refers to it"]) from error
    publish("quotas", ids=[node.pk], organization_id=node.organization_id)
    wake("arbiter")


def _used(node: Node, used_by: list[str]) -> Conflict:
    return Conflict(
        f"{node.display_path} has {', '.join(used_by)}. Only what was never used can be deleted. "
        "Archive it instead: its history and bills stay readable.",
        used_by=used_by,
    )


def _uses(node: Node) -> Iterator[str]:
    """Yield each kind of use of the node, in a few words."""
    here = Q(team=node) | Q(organization=node)
    if Job.objects.filter(here).exists() or JobArray.objects.filter(here).exists():
        yield "jobs"
    if (
        MeteredParty.objects.filter(here).exists()
        or ReconciledAccount.objects.filter(team=node).exists()
    ):
        yield "bills"
    if RateCard.objects.filter(organization=node).exists():
        yield "prices"
    paths = [node.path, *FormerPlace.objects.filter(node=node).values_list("path", flat=True)]
    lay_below = FormerPlace.objects.filter(under(paths, "path")).exclude(node=node)
    if lay_below.exists():
        yield "bills of teams that lay below it"
    # Uses of an older node with this path do not count.
    roles = AuditEvent.objects.filter(
        action__in=_MEMBERS, node_path__in=paths, at__gte=node.created_at
    )
    if (
        RoleGrant.objects.filter(node=node).exists()
        or User.objects.filter(organization=node).exists()
        or roles.filter(organization_id=node.organization_id).exists()
    ):
        yield "members, or had some"
    if (
        PlannedChange.objects.filter(node=node).exists()
        or PlannedEdit.objects.filter(quota__node=node).exists()
    ):
        yield "planned changes of its quotas"

"""Exports the tree at and below a node as the rows of a file."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from tenants.access import Actor
from tenants.audit_trail import record_act
from tenants.models import Node
from treefile.present import as_file, node_of_file, present_tree
from treefile.rows import TreeFile


@transaction.atomic
def export_tree(node_id: UUID, *, actor: Actor, now: datetime) -> tuple[Node, TreeFile]:
    """Return a node and the rows of its file. The audit log has the export.

    Raises NotFound, and Forbidden without manage_members on the node.
    """
    node = node_of_file(actor, node_id)
    file = as_file(present_tree(node))
    record_act(
        actor=actor,
        action="tree_exported",
        subject_kind=node.kind,
        subject_id=node.pk,
        node=node,
        now=now,
        detail={"nodes": len(file.nodes), "members": len(file.members)},
    )
    return node, file

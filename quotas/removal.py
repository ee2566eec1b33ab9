"""Deletes the quotas of a node that is deleted unused."""

from __future__ import annotations

from django.db import connection

from tenants.models import Node
from webapi.row_access import all_rows


@all_rows()
def remove_quotas(node: Node) -> None:
    """Delete the quotas of a deleted node with their history, and an organization's rules.

    Without the models, which would look for more rows to delete. Must run in the transaction that
    deleted the node.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM quotas_quota WHERE node_id = %s RETURNING id",
            [node.pk],
        )
        gone = [pk for (pk,) in cursor.fetchall()]
        cursor.execute("DELETE FROM quotas_quotachange WHERE quota_id = ANY(%s)", [gone])
        cursor.execute(
            "DELETE FROM quotas_timelimit t WHERE t.node_id = %(node)s OR t.priority_class_id IN"
            " (SELECT id FROM quotas_priorityclass WHERE organization_id = %(node)s)",
            {"node": node.pk},
        )
        cursor.execute("DELETE FROM quotas_usercap WHERE team_id = %s", [node.pk])
        for table in (
            "quotas_organizationpolicy",
            "quotas_priorityclass",
            "quotas_secondpersonpolicy",
        ):
            cursor.execute(f"DELETE FROM {table} WHERE organization_id = %s", [node.pk])  # noqa: S608
        cursor.execute("DELETE FROM quotas_nodeuse WHERE node_id = %s", [node.pk])

"""Teams that cannot submit to a cluster until a push of the quotas creates their objects."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from django.db import connection

from clusters.models import ClusterNode
from connectors.registry import KINDS
from tenants.models import Node, NodeKind


def unprepared_clusters(team: UUID, pool: UUID, pinned: UUID | None) -> tuple[str, ...]:
    """Return the clusters of `pool` that `team` cannot use yet for that reason, by name.

    With `pinned`, only that cluster. At most three queries.
    """
    clusters = unprepared_teams().get(team)
    if not clusters:
        return ()
    having = ClusterNode.objects.filter(pool=pool, cluster__in=list(clusters))
    found = set(having.values_list("cluster_id", flat=True))
    return tuple(name for pk, name in clusters.items() if pk in found and pinned in (None, pk))


def unprepared_teams() -> Mapping[UUID, Mapping[UUID, str]]:
    """Return the clusters that each team cannot use yet, by the last comparison, with their names.

    A cluster that was never compared counts as prepared, because it reports problems itself. One
    query, and a second one if there are any.
    """
    subjects = {name: kind.team_subject for name, kind in KINDS.items() if kind.team_subject}
    with connection.cursor() as cursor:
        cursor.execute(_TO_BE_MADE, [list(subjects)])
        rows = cursor.fetchall()
    if not rows:
        return {}
    clusters = {cluster_id: (name, kind) for cluster_id, name, kind, _ in rows}
    missing = {(cluster_id, subject) for cluster_id, _, _, subject in rows}
    found: dict[UUID, dict[UUID, str]] = {}
    for team_id, path in Node.objects.filter(kind=NodeKind.TEAM).values_list("pk", "path"):
        for cluster_id, (name, kind) in clusters.items():
            if (cluster_id, subjects[kind](path.rstrip("/"))) in missing:
                found.setdefault(team_id, {})[cluster_id] = name
    return found


#: Objects to create by the newest comparison with a result, and accepted missing ones. A creation
#: without intended settings means that a foreign object exists already.
_TO_BE_MADE = """
SELECT c.id, c.name, c.kind, missing.subject
FROM clusters_cluster c
CROSS JOIN LATERAL (
    SELECT change ->> 'subject' AS subject
    FROM (
        SELECT p.changes FROM quotas_quotapush p
        WHERE p.cluster_id = c.id AND p.kind <> 'accept'
          AND (p.status = 'done' OR (p.status = 'failed' AND p.change_count > 0))
        ORDER BY p.id DESC LIMIT 1
    ) newest
    CROSS JOIN LATERAL jsonb_array_elements(newest.changes) change
    WHERE change ->> 'kind' = 'create' AND change ->> 'result' <> 'done'
      AND change -> 'after' <> '{}'::jsonb
    UNION
    SELECT a.subject FROM quotas_accepteddifference a
    WHERE a.cluster_id = c.id AND a.setting = '*'
      AND a.before = '{}'::jsonb AND a.after <> '{}'::jsonb
) missing
WHERE c.kind = ANY(%s)
ORDER BY c.name
"""

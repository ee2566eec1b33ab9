"""All data against which a team's submission is checked, read in one statement.

Submission is the most frequent write of the product. One statement instead of seven costs a third.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from arbiter.api.snapshot import Quota as ArbiterQuota
from arbiter.api.snapshot import TreeNode
from clusters.models import Pool
from clusters.observation import GONE
from clusters.pool_names import folded
from jobs.lifecycle import OPEN
from jobs.submission.fitting import Fleet
from quotas.models import PriorityClass
from quotas.time_limits import Bound
from quotas.user_caps import Cap, caps_of
from tenants.models import Node, User
from webapi.row_access import all_rows
from webapi.statements import prepared_cursor


@dataclass(frozen=True, slots=True)
class Offer:
    """The pools, classes and quotas of a team's organization, as far as they concern the team.

    Models are filled only as far as submission needs them. Tree nodes are named by their paths.
    """

    team_path: str
    pools: Mapping[str, Pool]
    archived_pools: Collection[str]
    pool_aliases: Mapping[str, str]
    priority_classes: Mapping[str, PriorityClass]
    fleets: Mapping[UUID, Fleet]
    quotas: Sequence[ArbiterQuota]
    open_jobs: int
    open_jobs_of_user: int
    time_limits: Sequence[tuple[UUID | None, Bound]]
    caps: Sequence[Cap]

    def bounds(self, priority_class: PriorityClass, pools: Collection[Pool]) -> list[Bound]:
        """Return the time limits for the team's jobs of a class, the nearest owner first."""
        owners = {None, priority_class.pk, *(pool.pk for pool in pools)}
        return [bound for owner, bound in self.time_limits if owner in owners]

    def pool_named(self, name: str) -> str:
        """Return the name of the pool with this name or alias; `name` itself where there is none.

        Case does not matter, and "_" is "-".
        """
        if name in self.pools or name in self.archived_pools:
            return name
        short = folded(name)
        if short in self.pools or short in self.archived_pools:
            return short
        return self.pool_aliases.get(short, name)

    def fleet(self, pool: Pool) -> Fleet:
        """Return the pool's nodes; empty when none is known."""
        return self.fleets.get(pool.pk, Fleet({}))

    def tree(self) -> tuple[TreeNode, ...]:
        """Return the team, the tree nodes with one of the quotas, and all their ancestors."""
        named = {self.team_path, *(quota.node for quota in self.quotas)}
        paths = {path for name in named for path in paths_to(name)}
        return tuple(TreeNode(path, _parent(path)) for path in sorted(paths))


@all_rows()
def offer_to(team: Node, user: User) -> Offer:
    """Return the offer of this moment. One statement.

    GPUs that other organizations never lend count, too.
    """
    with prepared_cursor() as cursor:
        cursor.execute(
            _STATEMENT,
            {
                "organization": team.organization_id,
                "user": user.pk,
                "team": team.pk,
                "paths": paths_to(team.path),
                "gone": GONE,
            },
        )
        pools, classes, sizes, quotas, jobs, limits, caps = (
            json.loads(text) if text is not None else [] for text in cursor.fetchone()
        )
    fleets: dict[UUID, dict[str, dict[int, int]]] = {}
    for pool_id, cluster_id, mgpu, count in sizes:
        fleets.setdefault(UUID(pool_id), {}).setdefault(cluster_id, {})[mgpu] = count
    return Offer(
        team_path=team.path,
        pools={
            name: Pool(id=UUID(pk), name=name, device=device)
            for pk, name, device, is_archived, _ in pools
            if not is_archived
        },
        archived_pools={name for _, name, _, is_archived, _ in pools if is_archived},
        pool_aliases={alias: name for _, name, _, _, aliases in pools for alias in aliases},
        priority_classes={row["name"]: _priority_class(row) for row in classes},
        fleets={pool_id: Fleet(by_cluster) for pool_id, by_cluster in fleets.items()},
        quotas=[ArbiterQuota(*row) for row in quotas],
        open_jobs=jobs[0],
        open_jobs_of_user=jobs[1],
        time_limits=[
            (_uuid(pk), Bound(owner, default_s, longest_s))
            for pk, owner, default_s, longest_s in limits
        ],
        caps=caps_of([(_uuid(of), _uuid(pool), cap_mgpu) for of, pool, cap_mgpu in caps], user.pk),
    )


def _uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)


def paths_to(path: str) -> list[str]:
    """Return the paths from the organization down to `path`, each with its final slash."""
    steps = path.rstrip("/").split("/")
    return ["/".join(steps[: depth + 1]) + "/" for depth in range(len(steps))]


def _parent(path: str) -> str | None:
    above = paths_to(path)[:-1]
    return above[-1] if above else None


def _priority_class(row: Mapping[str, Any]) -> PriorityClass:
    return PriorityClass(**{**row, "id": UUID(row["id"])})


# Time limits: the nearest owner first. Those of a node are for all, so they have no id.
# Quotas are those of the team's own path, and those that others never lend in full. Both limit the
# most that the team could ever get. Results are texts, so that the driver's JSON settings do not
# matter. The states are literals, because for a parameter the planner could not use the index of
# open jobs.
_LISTED = ", ".join(f"'{state}'" for state in sorted(state.value for state in OPEN))
_STATEMENT = f"""
SELECT
    (SELECT json_agg(json_build_array(p.id, p.name, p.device, p.archived_at IS NOT NULL,
                     ARRAY(SELECT a.folded FROM clusters_poolalias a WHERE a.pool_id = p.id))
                     ORDER BY p.name)::text
     FROM clusters_pool p
     JOIN quotas_quota q ON q.pool_id = p.id AND q.node_id = %(organization)s::uuid),
    (SELECT json_agg(json_build_object(
                'id', c.id, 'name', c.name, 'order', c."order",
                'team_cap_mgpu', c.team_cap_mgpu,
                'price_multiplier_ppm', c.price_multiplier_ppm)
            ORDER BY c."order" DESC, c.name)::text
     FROM quotas_priorityclass c
     WHERE c.organization_id = %(organization)s::uuid AND NOT c.is_retired),
    (SELECT json_agg(json_build_array(s.pool_id, s.cluster_id, s.mgpu, s.nodes))::text
     FROM (SELECT n.pool_id, n.cluster_id, count(*) AS nodes,
                  CASE WHEN n.is_schedulable THEN n.capacity_mgpu ELSE 0 END AS mgpu
           FROM clusters_clusternode n
           JOIN quotas_quota q ON q.pool_id = n.pool_id AND q.node_id = %(organization)s::uuid
           JOIN clusters_cluster c ON c.id = n.cluster_id AND c.archived_at IS NULL
           WHERE n.is_schedulable OR n.state <> %(gone)s::text
           GROUP BY n.pool_id, n.cluster_id, mgpu) s),
    (SELECT json_agg(json_build_array(
                n.path, q.pool_id, q.guaranteed_mgpu, q.lend_limit_mgpu, q.borrow_limit_mgpu))::text
     FROM quotas_quota q JOIN tenants_node n ON n.id = q.node_id
     WHERE n.path = ANY(%(paths)s::text[]) OR q.lend_limit_mgpu < q.guaranteed_mgpu),
    (SELECT json_build_array(count(*), count(*) FILTER (WHERE j.user_id = %(user)s::uuid))::text
     FROM jobs_job j
     WHERE j.organization_id = %(organization)s::uuid AND j.state IN ({_LISTED})),
    (SELECT json_agg(json_build_array(
                coalesce(t.pool_id, t.priority_class_id),
                coalesce('pool ' || p.name, 'class ' || c.name,
                         n.kind || ' ' || rtrim(n.path, '/')),
                t.default_s, t.longest_s)
            ORDER BY c.id IS NULL, n.id IS NULL, -length(n.path), t.default_s)::text
     FROM quotas_timelimit t
     LEFT JOIN clusters_pool p ON p.id = t.pool_id
     LEFT JOIN quotas_priorityclass c ON c.id = t.priority_class_id
     LEFT JOIN tenants_node n ON n.id = t.node_id
     WHERE p.id IS NOT NULL OR c.organization_id = %(organization)s::uuid
        OR n.path = ANY(%(paths)s::text[])),
    (SELECT json_agg(json_build_array(k.user_id, k.pool_id, k.cap_mgpu))::text
     FROM quotas_usercap k
     WHERE k.team_id = %(team)s::uuid AND (k.user_id IS NULL OR k.user_id = %(user)s::uuid))
"""  # noqa: S608 - the states are ours

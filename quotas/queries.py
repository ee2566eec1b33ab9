"""Quotas for the arbiter, the pages and the API, and the use that the arbiter stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet, Sum, TextField
from django.db.models.functions import Cast

from arbiter.api.plan import NodeUse as PlannedUse
from arbiter.api.policy import SpareOrder
from arbiter.api.snapshot import PriorityClass as ArbiterPriorityClass
from arbiter.api.snapshot import Quota as ArbiterQuota
from arbiter.api.snapshot import TreeNode
from quotas.administration import editable_fields
from quotas.installation import installation_policy
from quotas.models import NodeUse, OrganizationPolicy, PriorityClass, Quota
from tenants.access import Actor, visible
from tenants.models import Node
from tenants.roles import Permission

#: Rank of the first path in an organization's policy. The next one is lower by 1. It is the same
#: for every organization, so that a longer list raises no node above another organization.
RANK_FIRST = 1_000_000


@dataclass(frozen=True, slots=True)
class QuotaSnapshot:
    """The tree, the quotas and the classes at one time, in the arbiter's form."""

    nodes: tuple[TreeNode, ...]
    quotas: tuple[ArbiterQuota, ...]
    priority_classes: tuple[ArbiterPriorityClass, ...]


def graces_s(classes: Collection[UUID]) -> dict[UUID, int]:
    """Return the grace period of each of these priority classes. Two queries.

    It is at most its organization's, and that of the installation, as the arbiter gives it to
    victims.
    """
    longest_s = installation_policy().grace_period_s_max
    found = PriorityClass.objects.filter(pk__in=classes).values_list(
        "pk", "grace_period_s", "organization__organizationpolicy__grace_period_s"
    )
    return {
        pk: min(grace_s, longest_s if most_s is None else min(longest_s, most_s))
        for pk, grace_s, most_s in found
    }


def quota_snapshot(pools: Collection[UUID] | None = None) -> QuotaSnapshot:
    """Return the whole tree, the quotas of `pools` (None: of all) and every priority class.

    Ids are the texts of our UUIDs. A node's rank is that of its nearest ancestor (or itself) in its
    organization's policy; 0 without one. A class's grace period is at most its organization's. An
    organization has its policy's rules. Quotas of archived nodes are omitted. Takes four queries.
    Only a transaction with a snapshot makes them consistent.
    """
    quotas = Quota.objects.filter(node__archived_at=None)
    if pools is not None:
        quotas = quotas.filter(pool__in=pools)
    graces_s: dict[UUID, int] = {}
    ranked: dict[str, int] = {}
    rules: dict[str, OrganizationPolicy] = {}
    for policy in OrganizationPolicy.objects.all():
        graces_s[policy.organization_id] = policy.grace_period_s
        rules[str(policy.organization_id)] = policy
        for place, path in enumerate(policy.rank):
            ranked.setdefault(f"{path}/", RANK_FIRST - place)
    return QuotaSnapshot(
        nodes=tuple(_tree(ranked, rules)),
        quotas=tuple(
            ArbiterQuota(*row)
            for row in quotas.order_by("pk").values_list(
                Cast("node_id", TextField()),
                Cast("pool_id", TextField()),
                "guaranteed_mgpu",
                "lend_limit_mgpu",
                "borrow_limit_mgpu",
                "weight",
            )
        ),
        priority_classes=tuple(
            ArbiterPriorityClass(
                str(pk),
                order,
                preempts,
                min(grace_s, graces_s.get(organization, grace_s)),
                cap_mgpu,
                preempts_across,
                factor,
            )
            for pk, organization, order, preempts, grace_s, cap_mgpu, preempts_across, factor in (
                PriorityClass.objects.order_by("pk").values_list(
                    "pk",
                    "organization_id",
                    "order",
                    "preempts_within_team",
                    "grace_period_s",
                    "team_cap_mgpu",
                    "preempts_across_teams",
                    "use_factor_percent",
                )
            )
        ),
    )


def ranks_of(organization: Node) -> dict[UUID, int]:
    """Return the rank for spare GPUs of each node of the organization; 0 without one."""
    policy = OrganizationPolicy.objects.filter(organization=organization).first()
    paths = [] if policy is None else policy.rank
    ranked = {f"{path}/": RANK_FIRST - place for place, path in enumerate(paths)}
    ranks: dict[UUID | None, int] = {None: 0}
    nodes = Node.objects.filter(organization=organization).order_by("path")
    for pk, parent, path in nodes.values_list("pk", "parent_id", "path"):
        ranks[pk] = ranked.get(path) or ranks[parent]
    return {pk: rank for pk, rank in ranks.items() if pk is not None}


def _tree(ranked: dict[str, int], rules: dict[str, OrganizationPolicy]) -> Iterable[TreeNode]:
    """Yield nodes in the order of their paths, so that parents come first."""
    ranks: dict[str | None, int] = {None: 0}
    for pk, parent, path in Node.objects.order_by("path").values_list(
        Cast("id", TextField()), Cast("parent_id", TextField()), "path"
    ):
        ranks[pk] = ranked.get(path) or ranks[parent]
        policy = rules.get(pk)
        if policy is None:
            yield TreeNode(pk, parent, ranks[pk])
        else:
            yield TreeNode(
                pk,
                parent,
                ranks[pk],
                policy.fair_share_half_life_s,
                SpareOrder(policy.spare_order),
                policy.min_run_s,
                policy.preemptions_max,
                policy.skips_blocked_within_team,
            )


def record_use(uses: Sequence[PlannedUse], *, as_of: datetime) -> set[UUID]:
    """Store the use of the nodes after a cycle. Return the organizations with a changed row.

    One statement. Unchanged rows are not written, so `as_of` is the time of a row's last change.
    Use of nodes or pools that no longer exist is ignored.
    """
    if not uses:
        return set()
    with connection.cursor() as cursor:
        cursor.execute(
            """
            WITH written AS (
            INSERT INTO quotas_nodeuse (node_id, pool_id, in_use_mgpu, protected_mgpu,
                borrowed_mgpu, lent_mgpu, available_mgpu, waiting_mgpu, as_of)
            SELECT new.*, %s
            FROM unnest(%s::uuid[], %s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[],
                        %s::bigint[], %s::bigint[], %s::bigint[])
                AS new (node_id, pool_id, in_use, protected, borrowed, lent, available, waiting)
            JOIN tenants_node n ON n.id = new.node_id
            JOIN clusters_pool p ON p.id = new.pool_id
            LEFT JOIN quotas_nodeuse old ON old.node_id = new.node_id AND old.pool_id = new.pool_id
            WHERE (new.in_use, new.protected, new.borrowed, new.lent, new.available, new.waiting)
                IS DISTINCT FROM (old.in_use_mgpu, old.protected_mgpu, old.borrowed_mgpu,
                    old.lent_mgpu, old.available_mgpu, old.waiting_mgpu)
            ORDER BY new.node_id, new.pool_id
            ON CONFLICT (node_id, pool_id) DO UPDATE SET
                in_use_mgpu = excluded.in_use_mgpu,
                protected_mgpu = excluded.protected_mgpu,
                borrowed_mgpu = excluded.borrowed_mgpu,
                lent_mgpu = excluded.lent_mgpu,
                available_mgpu = excluded.available_mgpu,
                waiting_mgpu = excluded.waiting_mgpu,
                as_of = excluded.as_of
            RETURNING node_id
            )
            SELECT DISTINCT n.organization_id
            FROM written JOIN tenants_node n ON n.id = written.node_id
            """,
            [
                as_of,
                [use.node for use in uses],
                [use.pool for use in uses],
                [use.in_use_mgpu for use in uses],
                [use.protected_mgpu for use in uses],
                [use.borrowed_mgpu for use in uses],
                [use.lent_mgpu for use in uses],
                [use.available_mgpu for use in uses],
                [use.waiting_mgpu for use in uses],
            ],
        )
        return {organization_id for (organization_id,) in cursor.fetchall()}


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A quota for pages and the API.

    `reserve_mgpu` is the part of the guarantee without a child. `use` is that of the last cycle
    that changed it (None: no cycle yet). `can_edit` are the settings that the actor may change
    (`administration.editable_fields`).
    """

    quota: Quota
    reserve_mgpu: int
    use: NodeUse | None
    can_edit: tuple[str, ...]


def visible_quotas(actor: Actor) -> QuerySet[Quota]:
    """Return the visible quotas, with nodes and pools, sorted by path (parents first) and pool."""
    return visible(
        actor,
        Quota.objects.select_related("node", "pool").order_by("node__path", "pool__name"),
        Permission.VIEW_TREE,
        path_field="node__path",
    )


def quota_rows(actor: Actor, quotas: Sequence[Quota]) -> list[QuotaRow]:
    """Return `quotas` with their reserve and use. Two queries."""
    nodes = [quota.node_id for quota in quotas]
    pools = {quota.pool_id for quota in quotas}
    given = {
        (parent, pool): mgpu
        for parent, pool, mgpu in Quota.objects.filter(node__parent__in=nodes, pool__in=pools)
        .values_list("node__parent", "pool")
        .annotate(Sum("guaranteed_mgpu"))
    }
    uses = {
        (use.node_id, use.pool_id): use
        for use in NodeUse.objects.filter(node__in=nodes, pool__in=pools)
    }
    return [
        QuotaRow(
            quota=quota,
            reserve_mgpu=quota.guaranteed_mgpu - given.get((quota.node_id, quota.pool_id), 0),
            use=uses.get((quota.node_id, quota.pool_id)),
            can_edit=editable_fields(actor, quota.node),
        )
        for quota in quotas
    ]

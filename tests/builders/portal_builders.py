"""Rows for tests, with defaults: a test names only what matters to it.

The cast: Alice owns (organization admin), Bob is a researcher of hers, Charlie belongs to
another organization and should never see anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

from clusters.models import Cluster, ClusterNode, Pool
from quotas.models import OrganizationPolicy, PriorityClass, Quota
from tenants.access import Actor, actor_of
from tenants.models import Node, NodeKind, RoleGrant, User
from tenants.roles import Role

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
_numbers = count(1)


def an_organization(slug: str | None = None) -> Node:
    slug = slug or f"org-{next(_numbers)}"
    node = Node(kind=NodeKind.ORGANIZATION, slug=slug, name=slug, path=f"{slug}/", created_at=NOW)
    node.organization = node
    node.save(force_insert=True)
    return node


def _child(parent: Node, kind: NodeKind, slug: str | None) -> Node:
    slug = slug or f"{kind.value}-{next(_numbers)}"
    return Node.objects.create(
        kind=kind,
        parent=parent,
        organization_id=parent.organization_id,
        slug=slug,
        name=slug,
        path=f"{parent.path}{slug}/",
        created_at=NOW,
    )


def a_department(parent: Node, slug: str | None = None) -> Node:
    return _child(parent, NodeKind.DEPARTMENT, slug)


def a_team(parent: Node, slug: str | None = None) -> Node:
    return _child(parent, NodeKind.TEAM, slug)


def a_user(
    organization: Node | None, username: str | None = None, *, password: str | None = None
) -> User:
    username = username or f"user-{next(_numbers)}"
    user = User(
        organization=organization,
        username=username,
        login=f"{username}@{organization.slug}" if organization else username,
        name=username.title(),
        created_at=NOW,
    )
    if password is None:
        user.set_unusable_password()
    else:
        user.set_password(password)
    user.save(force_insert=True)
    return user


def a_grant(user: User, role: Role, node: Node | None) -> RoleGrant:
    return RoleGrant.objects.create(user=user, role=role, node=node, created_at=NOW)


def an_actor(node: Node | None, role: Role, username: str | None = None) -> Actor:
    """A new user with one role on `node` (None: the platform)."""
    user = a_user(node.organization if node is not None else None, username)
    a_grant(user, role, node)
    return actor_of(user)


def a_pool(name: str = "h100", *, weight: int = 1000, device: str = "gpu") -> Pool:
    pool, _ = Pool.objects.get_or_create(name=name, defaults={"weight": weight, "device": device})
    return pool


def a_cluster(
    name: str = "local", *, kind: str = "local", seen_at: datetime | None = NOW
) -> Cluster:
    cluster, _ = Cluster.objects.get_or_create(
        name=name, defaults={"kind": kind, "seen_at": seen_at}
    )
    return cluster


def a_cluster_node(
    cluster: Cluster,
    pool: Pool,
    name: str | None = None,
    *,
    capacity_mgpu: int = 8_000,
    is_schedulable: bool = True,
) -> ClusterNode:
    return ClusterNode.objects.create(
        cluster=cluster,
        pool=pool,
        name=name or f"node-{next(_numbers):03d}",
        capacity_mgpu=capacity_mgpu,
        is_schedulable=is_schedulable,
        state="idle",
        seen_at=NOW,
    )


def a_quota(
    node: Node,
    pool: Pool,
    gpus: int,
    *,
    lend_gpus: int | None = None,
    borrow_gpus: int | None = None,
) -> Quota:
    return Quota.objects.create(
        node=node,
        pool=pool,
        guaranteed_mgpu=gpus * 1000,
        lend_limit_mgpu=None if lend_gpus is None else lend_gpus * 1000,
        borrow_limit_mgpu=None if borrow_gpus is None else borrow_gpus * 1000,
    )


def a_priority_class(
    organization: Node,
    name: str = "normal",
    *,
    order: int = 10,
    grace_period_s: int = 300,
    preempts_within_team: bool = False,
    price_multiplier_ppm: int = 1_000_000,
) -> PriorityClass:
    found, _ = PriorityClass.objects.get_or_create(
        organization=organization,
        name=name,
        defaults={
            "order": order,
            "grace_period_s": grace_period_s,
            "preempts_within_team": preempts_within_team,
            "price_multiplier_ppm": price_multiplier_ppm,
        },
    )
    return found


@dataclass(frozen=True, slots=True)
class Company:
    """A small organization with one pool: research (nlp, vision) and production (inference)."""

    organization: Node
    research: Node
    nlp: Node
    vision: Node
    production: Node
    inference: Node
    pool: Pool
    cluster: Cluster


def a_company(slug: str = "ai-company", *, nodes: int = 4) -> Company:
    """Half research (nlp and vision a half each), half production, on `nodes` x 8 GPUs.

    With 4 nodes: organization 32, research 16 (nlp 8, vision 8), production 16 (inference 16).
    """
    organization = an_organization(slug)
    research = a_department(organization, "research")
    production = a_department(organization, "production")
    nlp, vision = a_team(research, "nlp"), a_team(research, "vision")
    inference = a_team(production, "inference")
    pool, cluster = a_pool(), a_cluster()
    gpus = nodes * 8
    a_quota(organization, pool, gpus)
    a_quota(research, pool, gpus // 2)
    a_quota(nlp, pool, gpus // 4)
    a_quota(vision, pool, gpus // 4)
    a_quota(production, pool, gpus // 2)
    a_quota(inference, pool, gpus // 2)
    a_priority_class(organization)
    OrganizationPolicy.objects.create(
        organization=organization, rank=[f"{slug}/production", f"{slug}/research"]
    )
    for index in range(nodes):
        ClusterNode.objects.get_or_create(
            cluster=cluster,
            pool=pool,
            name=f"{slug}-{index:03d}",
            defaults={
                "capacity_mgpu": 8_000,
                "is_schedulable": True,
                "state": "idle",
                "seen_at": NOW,
            },
        )
    return Company(organization, research, nlp, vision, production, inference, pool, cluster)

"""Members of a node: their roles there, their GPUs in use, and their GPU time of this month."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from uuid import UUID

from django.db.models import Max, Q, QuerySet, Sum

from chargeback.dimensions import Dimension
from chargeback.reports import Asked, GroupedReport, Narrowed, grouped_report
from clusters.models import Pool
from jobs.models import Attempt
from live.publishing import prefixes_of
from primitives.units import DeviceKind
from quotas.models import NodeUse, UserCap
from quotas.user_caps import caps_of
from tenants.access import Actor, get_visible, require, under
from tenants.managing import manages
from tenants.models import GRANT_IN_FORCE, AccessToken, Node, RoleGrant, User, UserKind
from tenants.roles import Permission


class Source(StrEnum):
    """The place of a member's roles, as seen from the node; the nearest counts."""

    HERE = "here"
    ABOVE = "above"
    BELOW = "below"
    #: No role: GPUs in use, or used this month.
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PoolUse:
    """GPUs of one pool that a member uses now, and the member's cap there (None: no cap)."""

    pool: str
    device: DeviceKind
    guaranteed_mgpu: int
    borrowed_mgpu: int
    cap_mgpu: int | None


@dataclass(frozen=True, slots=True)
class Member:
    """A person or service account of a node. `tokens` are a service account's live tokens."""

    user: User
    source: Source
    roles: Sequence[RoleGrant]
    uses: Sequence[PoolUse]
    month_mgpu_s: int
    last_active_at: datetime | None
    tokens: Sequence[AccessToken]


@dataclass(frozen=True, slots=True)
class PoolTotal:
    """Use of one pool by all members, and by the node after the arbiter's last cycle."""

    pool: str
    device: DeviceKind
    people_mgpu: int
    service_accounts_mgpu: int
    node_mgpu: int


@dataclass(frozen=True, slots=True)
class MemberTotals:
    """Sums over all members of a node, beside the use of the node."""

    month_start: datetime
    pools: Sequence[PoolTotal]
    people_month_mgpu_s: int
    service_accounts_month_mgpu_s: int
    node_month_mgpu_s: int

    @property
    def is_equal(self) -> bool:
        """Return whether the members' use is that of the node, in each pool and this month."""
        month = self.people_month_mgpu_s + self.service_accounts_month_mgpu_s
        return month == self.node_month_mgpu_s and all(
            total.people_mgpu + total.service_accounts_mgpu == total.node_mgpu
            for total in self.pools
        )


class NodeMembers:
    """The members of a node, for an actor who manages its members or reads its audit log."""

    def __init__(self, actor: Actor, node_id: UUID, now: datetime) -> None:
        """Raise NotFound for an invisible node, and Forbidden without either right."""
        node = get_visible(
            actor, Node.objects.all(), Permission.VIEW_TREE, path_field="path", pk=node_id
        )
        if not actor.holds(Permission.VIEW_AUDIT, node.path):
            require(actor, Permission.MANAGE_MEMBERS, node)
        self.node = node
        self._actor = actor
        self._now = now

    def users(self) -> QuerySet[User]:
        """Return all members, with their organizations."""
        return User.objects.select_related("organization").filter(
            Q(pk__in=self._grants().values("user"))
            | Q(pk__in=self._holding().values("job__user"))
            | Q(organization=self.node.organization_id, username__in=list(self._month))
        )

    def described(self, users: Sequence[User]) -> list[Member]:
        """Return the members in the order of `users`.

        Eight queries, and one for each service account.
        """
        roles: dict[UUID, list[RoleGrant]] = {}
        grants = self._grants().filter(user__in=users).select_related("node", "granted_by", "user")
        for grant in grants.order_by("node__path", "role"):
            roles.setdefault(grant.user_id, []).append(grant)
        used_at: dict[UUID, datetime | None] = dict(
            AccessToken.objects.filter(user__in=users)
            .values_list("user")
            .annotate(Max("last_used_at"))
        )
        uses = self._uses(users)
        tokens = self._tokens_of_services(users)
        return [
            Member(
                user=user,
                source=self._source(roles.get(user.pk, [])),
                roles=roles.get(user.pk, []),
                uses=uses.get(user.pk, []),
                month_mgpu_s=self._month_of(user),
                last_active_at=_latest([user.last_login, used_at.get(user.pk)]),
                tokens=tokens.get(user.pk, []),
            )
            for user in users
        ]

    def totals(self) -> MemberTotals:
        """Return the sums over all members, and the use of the node beside them."""
        held: dict[tuple[UUID, str], int] = {
            (pool, kind): mgpu
            for pool, kind, mgpu in self._holding()
            .values_list("job__pool", "job__user__kind")
            .annotate(Sum("mgpu"))
        }
        counted = dict(
            NodeUse.objects.filter(node=self.node, in_use_mgpu__gt=0).values_list(
                "pool", "in_use_mgpu"
            )
        )
        pools = Pool.objects.filter(pk__in={*counted, *(pool for pool, _ in held)})
        month = dict.fromkeys(UserKind, 0)
        kinds = User.objects.filter(organization=self.node.organization_id)
        kinds = kinds.filter(username__in=list(self._month))
        for username, kind in kinds.values_list("username", "kind"):
            month[UserKind(kind)] += self._month[username]
        devices = self._report.totals_by_device
        return MemberTotals(
            month_start=self._report.period.start,
            pools=[
                PoolTotal(
                    pool=pool.name,
                    device=pool.kind,
                    people_mgpu=held.get((pool.pk, UserKind.PERSON), 0),
                    service_accounts_mgpu=held.get((pool.pk, UserKind.SERVICE), 0),
                    node_mgpu=counted.get(pool.pk, 0),
                )
                for pool in pools.order_by("name")
            ],
            people_month_mgpu_s=month[UserKind.PERSON],
            service_accounts_month_mgpu_s=month[UserKind.SERVICE],
            node_month_mgpu_s=devices[DeviceKind.GPU].mgpu_s if DeviceKind.GPU in devices else 0,
        )

    def _grants(self) -> QuerySet[RoleGrant]:
        """Return the grants in force at, above and below the node."""
        above = Q(node__path__in=prefixes_of(self.node.path))
        return RoleGrant.objects.filter(
            GRANT_IN_FORCE, above | under([self.node.path], "node__path")
        )

    def _holding(self) -> QuerySet[Attempt]:
        """Return the attempts that hold GPUs at or below the node."""
        return Attempt.objects.filter(
            under([self.node.path], "job__team__path"), released_at=None
        ).order_by()

    def _source(self, grants: Iterable[RoleGrant]) -> Source:
        paths = {grant.node.path for grant in grants if grant.node is not None}
        if self.node.path in paths:
            return Source.HERE
        if any(self.node.path.startswith(path) for path in paths):
            return Source.ABOVE
        return Source.BELOW if paths else Source.NONE

    def _uses(self, users: Sequence[User]) -> dict[UUID, list[PoolUse]]:
        """Return the use of these users by pool, and their caps, those without use included."""
        held: dict[tuple[UUID, UUID], tuple[int, int]] = {
            (user, pool): (guaranteed, mgpu - guaranteed)
            for user, pool, mgpu, guaranteed in self._holding()
            .filter(job__user__in=users)
            .values_list("job__user", "job__pool")
            .annotate(Sum("mgpu"), Sum("guaranteed_mgpu"))
        }
        rows = list(
            UserCap.objects.filter(team=self.node).values_list("user_id", "pool_id", "cap_mgpu")
        )
        caps = {user.pk: {cap.pool: cap.mgpu for cap in caps_of(rows, user.pk)} for user in users}
        wanted = {pool for _, pool in held} | {pool for each in caps.values() for pool in each}
        pools = Pool.objects.filter(pk__in=[pool for pool in wanted if pool is not None])
        found: dict[UUID, list[PoolUse]] = {}
        for pool in pools.order_by("name"):
            for user in users:
                guaranteed, borrowed = held.get((user.pk, pool.pk), (0, 0))
                cap = caps[user.pk].get(pool.pk, caps[user.pk].get(None))
                if guaranteed or borrowed or pool.pk in caps[user.pk]:
                    use = PoolUse(pool.name, pool.kind, guaranteed, borrowed, cap)
                    found.setdefault(user.pk, []).append(use)
        return found

    def _tokens_of_services(self, users: Sequence[User]) -> dict[UUID, list[AccessToken]]:
        services = [
            user for user in users if user.kind == UserKind.SERVICE and manages(self._actor, user)
        ]
        live = AccessToken.objects.filter(
            user__in=services, revoked_at=None, expires_at__gt=self._now
        )
        found: dict[UUID, list[AccessToken]] = {}
        for token in live.select_related("user", "made_by").order_by("pk"):
            found.setdefault(token.user_id, []).append(token)
        return found

    @cached_property
    def _report(self) -> GroupedReport:
        return grouped_report(
            actor=self._actor,
            by=[Dimension.USER],
            asked=Asked(None, None),
            narrowed=Narrowed(node_path=self.node.display_path),
            now=self._now,
        )

    @cached_property
    def _month(self) -> Mapping[str, int]:
        """Return GPU time of this month by username."""
        used: dict[str, int] = {}
        for row in self._report.rows:
            if row.device is DeviceKind.GPU:
                used[row.keys[0]] = used.get(row.keys[0], 0) + row.amounts.mgpu_s
        return used

    def _month_of(self, user: User) -> int:
        is_own = user.organization_id == self.node.organization_id
        return self._month.get(user.username, 0) if is_own else 0


def _latest(times: Iterable[datetime | None]) -> datetime | None:
    return max((each for each in times if each is not None), default=None)

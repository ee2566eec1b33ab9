"""Readers of a request, and the siblings that could give GPUs for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from approvals.deciders import decidable, waits_for
from approvals.models import OF_QUOTAS, OPEN, ChangeRequest, RequestKind, RequestStatus
from primitives.errors import NotFound
from quotas.models import NodeUse, Quota
from tenants.access import Actor, under
from tenants.roles import Permission

#: The most siblings that are listed as sources.
_SOURCES_LISTED_MAX = 200


@dataclass(frozen=True, slots=True)
class Source:
    """A sibling that could give GPUs, with the sums of its open offers to lend."""

    node_id: UUID
    node: str
    guaranteed_mgpu: int
    in_use_mgpu: int
    offered_mgpu: int


@dataclass(frozen=True, slots=True)
class Supply:
    """The present guarantee of the node, its use, the parent's reserve, and the siblings."""

    guaranteed_mgpu: int
    borrow_limit_mgpu: int | None
    in_use_mgpu: int
    reserve_mgpu: int
    sources: tuple[Source, ...]


def visible_requests(actor: Actor) -> QuerySet[ChangeRequest]:
    """Return the requests that the actor may read, with nodes and people.

    Readers are the person who asked, people who may decide, and people who manage the quotas of
    the node or of a sibling. Roles count, not the token's scopes.
    """
    rows = ChangeRequest.objects.select_related(
        "organization", "node__parent", "node__organization", "pool", "lender", "asked_by",
        "decided_by", "planned", "write",
    ).defer("write__arguments")  # fmt: skip
    if not (actor.user.is_active and actor.permits(Permission.VIEW_TREE)):
        return rows.none()
    managed = actor.granted(Permission.MANAGE_QUOTA)
    parents = {path.rstrip("/").rpartition("/")[0] + "/" for path in managed if path.count("/") > 1}
    beside = Q(kind__in=OF_QUOTAS, node__parent__path__in=parents)
    below = ~Q(kind=RequestKind.ROLE) & under(managed, "node__path")
    return rows.filter(Q(asked_by=actor.user) | decidable(actor, by_roles=True) | beside | below)


def request_by_id(actor: Actor, request_id: UUID) -> ChangeRequest:
    """Return the request. Raises NotFound for absent and unreadable ones alike."""
    found = visible_requests(actor).filter(pk=request_id).first()
    if found is None:
        raise NotFound("It does not exist, or you may not see it.")
    return found


def locked_request(request_id: UUID, actor: Actor) -> ChangeRequest:
    """Lock a readable request, and return its present state. Raises NotFound."""
    seen = request_by_id(actor, request_id)
    ChangeRequest.objects.select_for_update().get(pk=seen.pk)
    return request_by_id(actor, request_id)


def listed(actor: Actor, view: str | None) -> QuerySet[ChangeRequest]:
    """Return the requests of a view: "to_decide", "mine", "decided", or all that are readable."""
    rows = visible_requests(actor)
    match view:
        case "to_decide":
            return rows.filter(waits_for(actor), status=RequestStatus.PENDING)
        case "mine":
            return rows.filter(asked_by=actor.user, status__in=OPEN)
        case "decided":
            return rows.exclude(status__in=OPEN)
        case _:
            return rows


def decided_between(
    requests: QuerySet[ChangeRequest], since: datetime | None, until: datetime | None
) -> QuerySet[ChangeRequest]:
    """Return those of the requests that were decided in [since, until). None is no bound."""
    if since is not None:
        requests = requests.filter(decided_at__gte=since)
    return requests if until is None else requests.filter(decided_at__lt=until)


def counts(actor: Actor) -> Mapping[str, int]:
    """Return the numbers of requests to decide, of the actor's open ones, and of decided ones.

    `to_answer` are counter-offers that wait for the actor.
    """
    is_open = Q(status__in=OPEN)
    return visible_requests(actor).aggregate(
        to_decide=Count("pk", filter=waits_for(actor) & Q(status=RequestStatus.PENDING)),
        to_answer=Count("pk", filter=Q(asked_by=actor.user, status=RequestStatus.COUNTERED)),
        mine=Count("pk", filter=is_open & Q(asked_by=actor.user)),
        decided=Count("pk", filter=~is_open),
    )


def supply_of(request: ChangeRequest) -> Supply | None:
    """Return where GPUs for a change of quotas could come from; None for other kinds.

    Siblings with open offers come first, then those with the most unused guarantee.
    """
    if request.pool_id is None:
        return None
    rows = Quota.objects.select_related("node").filter(pool=request.pool_id)
    own = rows.filter(node=request.node_id).first()
    parent, children = None, rows.none()
    if request.node.parent_id is not None:
        parent = rows.filter(node=request.node.parent_id).first()
        children = rows.filter(node__parent=request.node.parent_id, node__archived_at=None)
    given_mgpu = children.aggregate(sum=Sum("guaranteed_mgpu", default=0))["sum"]
    offers = _offers(request)
    siblings = _siblings(children.exclude(node=request.node_id), request)
    use = dict(
        NodeUse.objects.filter(
            pool=request.pool_id,
            node__in=[request.node_id, *(quota.node_id for quota in siblings)],
        ).values_list("node", "in_use_mgpu")
    )
    sources = [
        Source(
            quota.node_id,
            quota.node.display_path,
            quota.guaranteed_mgpu,
            use.get(quota.node_id, 0),
            offers.get(quota.node_id, 0),
        )
        for quota in siblings
    ]
    return Supply(
        guaranteed_mgpu=0 if own is None else own.guaranteed_mgpu,
        borrow_limit_mgpu=None if own is None else own.borrow_limit_mgpu,
        in_use_mgpu=use.get(request.node_id, 0),
        reserve_mgpu=0 if parent is None else max(0, parent.guaranteed_mgpu - given_mgpu),
        sources=tuple(
            sorted(
                sources,
                key=lambda each: (
                    -each.offered_mgpu,
                    each.in_use_mgpu - each.guaranteed_mgpu,
                    each.node,
                ),
            )
        ),
    )


def _siblings(quotas: QuerySet[Quota], request: ChangeRequest) -> list[Quota]:
    """Return the quotas to list: those with offers first, then those with the most unused."""
    use = NodeUse.objects.filter(pool=OuterRef("pool"), node=OuterRef("node"))
    unused = F("guaranteed_mgpu") - Coalesce(Subquery(use.values("in_use_mgpu")[:1]), 0)
    offers = open_loans(request, request.until)
    is_offered = Exists(offers.filter(lender=OuterRef("node")))
    ordered = quotas.order_by(is_offered.desc(), unused.desc(), "node__path")
    return list(ordered[:_SOURCES_LISTED_MAX])


def _offers(request: ChangeRequest) -> Mapping[UUID, int]:
    found: dict[UUID, int] = {}
    for lender, amount in open_loans(request, request.until).values_list("lender", "amount"):
        found[lender] = found.get(lender, 0) + (amount or 0)
    return found


def open_loans(request: ChangeRequest, until: datetime | None) -> QuerySet[ChangeRequest]:
    """Return the open offers to lend GPUs of the request's pool to its node, at least until then.

    None is for good, for which nobody lends. Offers that begin later than the request are left out.
    """
    in_time = Q(begin=None)
    if request.begin is not None:
        in_time |= Q(begin__lte=request.begin)
    loans = ChangeRequest.objects.filter(
        in_time,
        kind=RequestKind.LOAN,
        status=RequestStatus.PENDING,
        node=request.node_id,
        pool=request.pool_id,
    ).exclude(pk=request.pk)
    # Every offer to lend has an end.
    return loans.filter(until=None) if until is None else loans.filter(until__gte=until)

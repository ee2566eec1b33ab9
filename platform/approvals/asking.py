"""New requests, comments, and the end of requests by their authors and by time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from approvals.changes import edits_of_request, made_at, reverted_after_s, terms_as_asked
from approvals.deciders import permitted, require_permitted
from approvals.happenings import (
    note_asked,
    note_comment,
    note_decided,
    tell_of_expiry,
    without_reminder,
)
from approvals.models import (
    AMOUNT_MAX,
    OF_QUOTAS,
    OPEN,
    TEXT_LENGTH_MAX,
    ChangeRequest,
    RequestComment,
    RequestKind,
    RequestStatus,
)
from approvals.reading import request_by_id
from budgets.administration import visible_budget
from primitives.errors import Conflict, FieldError, Forbidden, InvalidRequest
from quotas.administration import named_pool
from quotas.policies import visible_class
from tenants.access import Actor, require, visible_node
from tenants.models import Node
from tenants.names import clean_name
from tenants.roles import Permission, Role

#: A request without a decision expires after this time, and people are told this long before.
EXPIRES_AFTER, TOLD_BEFORE = timedelta(days=7), timedelta(days=1)
#: The most open requests of one person, and comments on one request.
OPEN_MAX, COMMENTS_MAX = 100, 200
#: The most requests that one round of the timer handles.
ROUND_MAX = 500


@dataclass(frozen=True, slots=True)
class NewRequest:
    """The request of a person. Members that its kind does not need are None."""

    kind: RequestKind
    node: str | None
    reason: str
    pool: str | None = None
    lender: str | None = None
    target: UUID | None = None
    role: Role | None = None
    amount: int | None = None
    begin: datetime | None = None
    until: datetime | None = None


@transaction.atomic
def ask(new: NewRequest, *, actor: Actor, now: datetime) -> ChangeRequest:
    """Store a request, and tell the nearest people who may decide it. Nothing changes yet.

    Raises NotFound for an invisible node, budget or class. Raises Forbidden for people who neither
    submit jobs there nor manage its quotas, and for tokens without the scope. Raises InvalidRequest
    for members that are missing, and Conflict for a change that cannot be made.
    """
    _refuse_odd(new, now)
    if not permitted(actor, new.kind, new.role or ""):
        raise Forbidden(
            "The token may not ask for this. Use one with the scopes of the change: quotas, and "
            "reports for a budget, or admin for a role."
        )
    now = now.replace(microsecond=0)
    request = ChangeRequest(
        kind=new.kind,
        reason=clean_name(new.reason, field="reason", length_max=TEXT_LENGTH_MAX),
        amount=new.amount,
        begin=new.begin,
        until=new.until,
        asked_by=actor.user,
        asked_at=now,
    )
    _set_subject(request, new, actor)
    request.organization = request.node.organization
    ends = [moment for moment in (new.begin, new.until) if moment is not None]
    request.expires_at = min([now + EXPIRES_AFTER, *ends])
    if request.kind in OF_QUOTAS:
        terms = terms_as_asked(request, {})
        edits_of_request(request, terms)
        reverted_after_s(terms, made_at(request, now))
    mine = ChangeRequest.objects.filter(asked_by=actor.user, status__in=OPEN)
    if mine.count() >= OPEN_MAX:
        raise Conflict(f"You have {OPEN_MAX} open requests. Withdraw some of them first.")
    request.save(force_insert=True)
    note_asked(request, actor=actor, now=now)
    return request


#: The members that each kind needs, besides the reason.
_NEEDED = {
    RequestKind.GUARANTEE: {"node", "pool", "amount"},
    RequestKind.BORROW_LIMIT: {"node", "pool", "amount"},
    RequestKind.LOAN: {"node", "pool", "lender", "amount", "until"},
    RequestKind.BUDGET: {"target", "amount"},
    RequestKind.CLASS_CAP: {"node", "target", "amount"},
    RequestKind.ROLE: {"node", "role"},
}
#: The times that a kind may have.
_TIMES = {**{kind: {"begin", "until"} for kind in OF_QUOTAS}, RequestKind.ROLE: {"until"}}


def _refuse_odd(new: NewRequest, now: datetime) -> None:
    members = ("node", "pool", "lender", "target", "role", "amount", "begin", "until")
    given = {name for name in members if getattr(new, name) is not None}
    needed = _NEEDED[new.kind]
    allowed = needed | _TIMES.get(new.kind, set())
    wrong = sorted((needed - given) | (given - allowed))
    if wrong:
        raise InvalidRequest(
            f"A request for {new.kind.replace('_', ' ')} takes {', '.join(sorted(needed))}.",
            errors=[FieldError(f"/{name}", "is missing or does not belong here") for name in wrong],
        )
    for name, moment in (("begin", new.begin), ("until", new.until)):
        if moment is not None and moment <= now:
            raise InvalidRequest(
                "The times of a request are in the future.",
                errors=[FieldError(f"/{name}", "is in the past")],
            )
    if new.amount is not None and not 1 <= new.amount <= AMOUNT_MAX:
        raise InvalidRequest(
            "The amount is how much more you need, above 0.",
            errors=[FieldError("/amount", "is out of range")],
        )


def _set_subject(request: ChangeRequest, new: NewRequest, actor: Actor) -> None:
    """Set the node, and what the kind names on it."""
    request.unit = "" if new.kind == RequestKind.ROLE else "mgpu"
    if new.kind == RequestKind.BUDGET:
        assert new.target is not None
        budget = visible_budget(actor, new.target)
        request.node, request.unit = budget.node, budget.measure
        request.target_id, request.target = budget.pk, budget.name
        return
    assert new.node is not None
    request.node = visible_node(actor, new.node)
    if new.pool is not None:
        request.pool = named_pool(new.pool)
    match new.kind:
        case RequestKind.LOAN:
            assert new.lender is not None
            request.lender = visible_node(actor, new.lender)
            require(actor, Permission.MANAGE_QUOTA, request.lender)
        case RequestKind.CLASS_CAP:
            assert new.target is not None
            found = visible_class(actor, new.target)
            if found.organization_id != request.node.organization_id:
                raise InvalidRequest(
                    f"{request.node.organization_slug} has no such class.",
                    errors=[FieldError("/target", "is a class of another organization")],
                )
            if found.team_cap_mgpu is None:
                raise Conflict(f"The class {found.name} has no cap, so it needs no request.")
            request.target_id, request.target = found.pk, found.name
            _require_work(actor, request.node)
        case RequestKind.ROLE:
            request.role = _role_for(new.role, request.node, actor)
        case _:
            _require_work(actor, request.node)


def _require_work(actor: Actor, node: Node) -> None:
    """Raise Forbidden for people who neither submit jobs at the node nor manage its quotas."""
    works = {*actor.granted(Permission.SUBMIT_JOBS), *actor.granted(Permission.MANAGE_QUOTA)}
    if not node.path.startswith(tuple(works)):
        raise Forbidden(
            f"Only people who work in {node.display_path} ask for more of it. Ask for a role there "
            "first.",
            node=node.display_path,
        )


def _role_for(role: Role | None, node: Node, actor: Actor) -> str:
    if role in (None, Role.PLATFORM_ADMIN, Role.SERVICE_ACCOUNT):
        raise InvalidRequest(
            "Ask for a role of a person on a node of the tree.",
            errors=[FieldError("/role", "is no role of a person in an organization")],
        )
    assert role is not None
    if actor.user.organization_id != node.organization_id:
        raise InvalidRequest(
            f"You do not belong to {node.organization_slug}, so you cannot get a role there.",
            errors=[FieldError("/node", "is of another organization")],
        )
    if (role, node.path) in actor.grants:
        raise Conflict(f"You have the role {role.value} on {node.display_path} already.")
    return role.value


@transaction.atomic
def comment(request_id: UUID, text: str, *, actor: Actor, now: datetime) -> RequestComment:
    """Comment on a request that the actor may read, also after its end.

    Raises NotFound, Forbidden for a token without the scope, InvalidRequest for an empty text, and
    Conflict for too many comments.
    """
    request = request_by_id(actor, request_id)
    require_permitted(actor, request)
    text = clean_name(text, field="text", length_max=TEXT_LENGTH_MAX)
    ChangeRequest.objects.select_for_update().get(pk=request.pk)
    if request.comments.count() >= COMMENTS_MAX:
        raise Conflict(f"A request has at most {COMMENTS_MAX} comments.")
    made = RequestComment.objects.create(request=request, author=actor.user, at=now, text=text)
    note_comment(request, made, actor=actor, now=now)
    return made


def expire_requests(now: datetime) -> int:
    """Close requests that expired by `now`, and tell of those that expire within a day.

    Return how many were closed. Safe to run twice at once.
    """
    is_open = ChangeRequest.objects.filter(status__in=OPEN)
    due = is_open.filter(expires_at__lte=now).order_by("expires_at")
    closed = sum(_expire(pk, now) for pk in list(due.values_list("pk", flat=True)[:ROUND_MAX]))
    soon = without_reminder(is_open.filter(expires_at__gt=now, expires_at__lte=now + TOLD_BEFORE))
    related = ("node__parent", "node__organization", "organization", "pool", "lender", "asked_by")
    for request in soon.select_related(*related).order_by("expires_at")[:ROUND_MAX]:
        with transaction.atomic():
            tell_of_expiry(request, now=now)
    return closed


@transaction.atomic
def _expire(request_id: UUID, now: datetime) -> int:
    rows = ChangeRequest.objects.select_for_update(of=("self",), skip_locked=True)
    related = rows.select_related("node", "pool", "lender", "asked_by")
    request = related.filter(pk=request_id, status__in=OPEN).first()
    if request is None:
        return 0
    request.status, request.decided_at, request.open_offer = RequestStatus.EXPIRED, now, None
    request.version += 1
    request.save()
    note_decided(request, actor=None, now=now)
    return 1

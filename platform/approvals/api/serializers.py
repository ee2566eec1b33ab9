"""Representations of requests. Amounts are in milli-GPUs, or in the unit of a budget's measure."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from approvals.changes import SOURCES_MAX, Terms
from approvals.deciders import may_decide
from approvals.guarded_writes import may_override
from approvals.models import (
    AMOUNT_MAX,
    OPEN,
    TEXT_LENGTH_MAX,
    ChangeRequest,
    RequestKind,
    RequestStatus,
)
from approvals.reading import Supply, supply_of
from approvals.words import amount_text, title_of
from tenants.access import Actor, visible_node
from tenants.models import Node
from tenants.roles import Role
from webapi.serializers import (
    BoundedListField,
    StrictSerializer,
    TextField,
    UtcTimeField,
    WholeNumberField,
)

_AMOUNT_HELP = "How much more: milli-GPU, or the unit of the budget's measure"


class NewChangeRequestSerializer(StrictSerializer):
    """A request for a change that another person decides."""

    kind = serializers.ChoiceField(
        choices=[each for each in RequestKind.choices if each[0] != RequestKind.WRITE]
    )
    node = TextField(
        max_length=1_000,
        required=False,
        allow_null=True,
        help_text="Path of the node that needs more. Not for a budget",
    )
    pool = TextField(max_length=200, required=False, allow_null=True, help_text="Name of a pool")
    lender = TextField(
        max_length=1_000,
        required=False,
        allow_null=True,
        help_text="Path of the lending sibling",
    )
    target = serializers.UUIDField(
        required=False, allow_null=True, help_text="Id of the budget or priority class"
    )
    role = serializers.ChoiceField(
        choices=[role.value for role in Role], required=False, allow_null=True
    )
    amount = WholeNumberField(
        min_value=1, max_value=AMOUNT_MAX, required=False, allow_null=True, help_text=_AMOUNT_HELP
    )
    begin = UtcTimeField(
        required=False,
        allow_null=True,
        help_text="When a change of a quota is made. Default: at its approval",
    )
    until = UtcTimeField(
        required=False,
        allow_null=True,
        help_text="When a change of a quota is reverted, or a role ends",
    )
    reason = TextField(max_length=TEXT_LENGTH_MAX, help_text="Why, for the person who decides")


class SourceSerializer(StrictSerializer):
    """A sibling that gives GPUs."""

    node = TextField(max_length=1_000, help_text="Path of the sibling")
    amount_mgpu = WholeNumberField(min_value=1, max_value=AMOUNT_MAX)


class ApprovalSerializer(StrictSerializer):
    """An approval of a request as asked."""

    sources = BoundedListField(
        child=SourceSerializer(),
        max_length=SOURCES_MAX,
        required=False,
        help_text="Siblings that give GPUs. The parent's reserve gives the rest",
    )
    note = TextField(max_length=TEXT_LENGTH_MAX, allow_blank=True, default="")


class CounterTermsSerializer(ApprovalSerializer):
    """Other terms for a request."""

    amount = WholeNumberField(min_value=1, max_value=AMOUNT_MAX, help_text=_AMOUNT_HELP)
    until = UtcTimeField(required=False, allow_null=True)


class RejectionSerializer(StrictSerializer):
    """A rejection of a request."""

    note = TextField(max_length=TEXT_LENGTH_MAX, help_text="Why, for the person who asked")


class NewCommentSerializer(StrictSerializer):
    """A comment on a request."""

    text = TextField(max_length=TEXT_LENGTH_MAX)


class GivingSourceSerializer(serializers.Serializer[Any]):
    """A sibling that gives GPUs in a counter-offer."""

    node = serializers.CharField()
    amount_mgpu = serializers.IntegerField()


class StoppedJobsSerializer(serializers.Serializer[Any]):
    """The running jobs of a team in a pool that a write would stop."""

    team = serializers.CharField(help_text="Path of the team; empty for other organizations")
    pool = serializers.CharField()
    jobs = serializers.IntegerField()
    at_risk_mgpu_s = serializers.IntegerField(help_text="Work since their last checkpoints")


class WrittenQuotaSerializer(serializers.Serializer[Any]):
    """A quota that a write would change. A value of null is no quota."""

    node = serializers.CharField()
    pool = serializers.CharField()
    before = serializers.DictField(allow_null=True)
    after = serializers.DictField(allow_null=True)


class WrittenRuleSerializer(serializers.Serializer[Any]):
    """The settings of a policy or class that a write would change."""

    rule = serializers.CharField()
    before = serializers.DictField()
    after = serializers.DictField()


class GuardedWriteSerializer(serializers.Serializer[Any]):
    """A write that a second person decides, with its effects when they were previewed last."""

    operation = serializers.CharField(help_text="The kind of write, such as quota.change")
    measured_at = UtcTimeField()
    stopped_jobs = serializers.IntegerField(help_text="Running jobs that it would stop")
    moved_mgpu = serializers.IntegerField(help_text="Milli-GPUs that it would move")
    stopped = StoppedJobsSerializer(many=True)
    quotas = WrittenQuotaSerializer(many=True, help_text="At most 100")
    rules = WrittenRuleSerializer(many=True)
    may_override = serializers.BooleanField(
        help_text="Whether you may make it without a second person"
    )


class OverrideSerializer(StrictSerializer):
    """The reason of a platform administrator who makes a write without a second person."""

    reason = TextField(max_length=TEXT_LENGTH_MAX, help_text="Why it cannot wait")


class CounterOfferSerializer(serializers.Serializer[Any]):
    """A counter-offer, in the order of its number."""

    number = serializers.IntegerField()
    title = serializers.CharField()
    amount = serializers.IntegerField()
    until = UtcTimeField(allow_null=True)
    sources = GivingSourceSerializer(many=True)
    note = serializers.CharField()
    made_by = serializers.CharField()
    made_at = UtcTimeField()
    is_open = serializers.BooleanField(help_text="Whether it waits for the person who asked")


class RequestCommentSerializer(serializers.Serializer[Any]):
    """A comment on a request."""

    id = serializers.UUIDField()
    author = serializers.CharField(source="author.login")
    at = UtcTimeField()
    text = serializers.CharField()


class ChangeRequestSerializer(serializers.Serializer[Any]):
    """A request for a change that another person decides."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=RequestKind.choices)
    title = serializers.CharField(help_text="The request in a few words")
    node = serializers.CharField()
    pool = serializers.CharField(allow_null=True)
    lender = serializers.CharField(allow_null=True)
    target = serializers.UUIDField(allow_null=True, help_text="Budget or priority class")
    role = serializers.CharField()
    amount = serializers.IntegerField(allow_null=True, help_text=_AMOUNT_HELP)
    amount_text = serializers.CharField(help_text="The amount with its unit")
    unit = serializers.CharField(help_text="mgpu, or the measure of the budget")
    begin = UtcTimeField(allow_null=True, help_text="Null: at its approval")
    until = UtcTimeField(allow_null=True)
    reason = serializers.CharField()
    status = serializers.ChoiceField(choices=RequestStatus.choices)
    asked_by = serializers.CharField()
    asked_at = UtcTimeField()
    expires_at = UtcTimeField()
    decided_by = serializers.CharField(allow_null=True)
    decided_at = UtcTimeField(allow_null=True)
    note = serializers.CharField(help_text="What the person who decided says")
    planned = serializers.UUIDField(
        allow_null=True, help_text="The planned change that the approval applied or scheduled"
    )
    planned_status = serializers.CharField(
        allow_null=True,
        help_text="Its status: scheduled, applied, reverted, kept, cancelled or failed",
    )
    can_decide = serializers.BooleanField(help_text="Whether you may decide it, and it is open")
    is_yours = serializers.BooleanField(help_text="Whether you asked for it")
    is_emergency = serializers.BooleanField(
        help_text="Whether a platform administrator made it without a second person"
    )
    version = serializers.IntegerField()


class SupplySourceSerializer(serializers.Serializer[Any]):
    """A sibling that could give GPUs."""

    node = serializers.CharField()
    guaranteed_mgpu = serializers.IntegerField()
    in_use_mgpu = serializers.IntegerField()
    offered_mgpu = serializers.IntegerField(help_text="In open offers to lend to this node")


class SupplySerializer(serializers.Serializer[Any]):
    """Where the GPUs of a change of quotas could come from."""

    guaranteed_mgpu = serializers.IntegerField(help_text="Of the node now")
    borrow_limit_mgpu = serializers.IntegerField(allow_null=True)
    in_use_mgpu = serializers.IntegerField()
    reserve_mgpu = serializers.IntegerField(help_text="Of the parent, given to nobody")
    sources = SupplySourceSerializer(many=True)


class ChangeRequestDetailSerializer(ChangeRequestSerializer):
    """A request with its counter-offers, comments and possible sources."""

    offers = CounterOfferSerializer(many=True)
    comments = RequestCommentSerializer(many=True)
    supply = SupplySerializer(allow_null=True)
    write = GuardedWriteSerializer(allow_null=True)


class RequestCountsSerializer(serializers.Serializer[Any]):
    """Numbers of requests."""

    to_decide = serializers.IntegerField()
    to_answer = serializers.IntegerField(help_text="Counter-offers that wait for you")
    mine = serializers.IntegerField(help_text="Your open requests")
    decided = serializers.IntegerField()


def terms_in(given: dict[str, Any], actor: Actor) -> Terms:
    """Return the terms of a body, with siblings by id. Raises NotFound for an invisible one."""
    sources = {
        visible_node(actor, each["node"]).pk: int(each["amount_mgpu"])
        for each in given.get("sources", [])
    }
    return Terms(int(given.get("amount", 0)), given.get("until"), sources)


def shown_request(request: ChangeRequest, *, actor: Actor) -> dict[str, Any]:
    """Return a request as `actor` may read it."""
    return dict(ChangeRequestSerializer(_values(request, actor)).data)


def shown_detail(request: ChangeRequest, *, actor: Actor) -> dict[str, Any]:
    """Return a request with its counter-offers, comments and sources. Five queries."""
    offers = list(request.offers.select_related("made_by").order_by("number"))
    ids = {each["node"] for offer in offers for each in offer.sources}
    paths = {str(node.pk): node.display_path for node in Node.objects.filter(pk__in=ids)}
    return dict(
        ChangeRequestDetailSerializer(
            {
                **_values(request, actor),
                "offers": [
                    {
                        "number": offer.number,
                        "title": title_of(request, amount=offer.amount, until=offer.until),
                        "amount": offer.amount,
                        "until": offer.until,
                        "sources": [
                            {
                                "node": paths.get(each["node"], "(deleted)"),
                                "amount_mgpu": each["amount_mgpu"],
                            }
                            for each in offer.sources
                        ],
                        "note": offer.note,
                        "made_by": offer.made_by.login,
                        "made_at": offer.made_at,
                        "is_open": request.open_offer == offer.number,
                    }
                    for offer in offers
                ],
                "comments": request.comments.select_related("author").order_by("pk"),
                "supply": _supply(request),
                "write": _write(request, actor),
            }
        ).data
    )


def _supply(request: ChangeRequest) -> Supply | None:
    return supply_of(request) if request.status in OPEN else None


def _write(request: ChangeRequest, actor: Actor) -> dict[str, Any] | None:
    if request.kind != RequestKind.WRITE:
        return None
    return {
        **request.write.effects,
        "operation": request.write.operation,
        "measured_at": request.write.measured_at,
        "may_override": may_override(actor, request),
    }


def _values(request: ChangeRequest, actor: Actor) -> dict[str, Any]:
    names = ("id", "kind", "role", "amount", "unit", "begin", "until", "reason", "status")
    more = ("asked_at", "expires_at", "decided_at", "note", "version", "is_emergency")
    return {
        **{name: getattr(request, name) for name in (*names, *more)},
        "title": title_of(request),
        "node": request.node.display_path,
        "pool": None if request.pool is None else request.pool.name,
        "lender": None if request.lender is None else request.lender.display_path,
        "target": request.target_id,
        "amount_text": "" if request.amount is None else amount_text(request, request.amount),
        "asked_by": request.asked_by.login,
        "decided_by": None if request.decided_by is None else request.decided_by.login,
        "planned": request.planned_id,
        "planned_status": None if request.planned is None else request.planned.status,
        "can_decide": request.status in OPEN and may_decide(actor, request),
        "is_yours": request.asked_by_id == actor.user.pk,
    }

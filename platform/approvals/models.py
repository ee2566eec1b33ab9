"""Requests for changes, counter-offers, and comments.

The database refuses a second decision, and a decision by the person who asked.
"""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from clusters.models import Pool
from quotas.models import PlannedChange
from tenants.models import Node, User

#: The longest reason, note and comment, in characters.
TEXT_LENGTH_MAX = 500
#: The largest amount of a request: that of a budget.
AMOUNT_MAX = 10**18
#: The longest title of a write, in characters.
TITLE_LENGTH_MAX = 200


class RequestKind(models.TextChoices):
    """The kind of change that a person asks for."""

    #: More guaranteed GPUs of a node in a pool.
    GUARANTEE = "guarantee"
    #: A higher borrow limit of a node in a pool.
    BORROW_LIMIT = "borrow_limit"
    #: An offer to lend guaranteed GPUs to a sibling for a time.
    LOAN = "loan"
    #: A higher limit of a budget.
    BUDGET = "budget"
    #: A higher cap of GPUs for each team in a priority class.
    CLASS_CAP = "class_cap"
    #: A role for the person who asks.
    ROLE = "role"
    #: A write of quotas or rules that needs a second person.
    WRITE = "write"


class RequestStatus(models.TextChoices):
    """The status of a request. All but pending and countered are final."""

    PENDING = "pending"
    #: A counter-offer waits for the person who asked.
    COUNTERED = "countered"
    APPROVED = "approved"
    REJECTED = "rejected"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


OPEN = (RequestStatus.PENDING, RequestStatus.COUNTERED)
#: Kinds that become a planned change of quotas.
OF_QUOTAS = (RequestKind.GUARANTEE, RequestKind.BORROW_LIMIT, RequestKind.LOAN)

_POOLED = Q(pool__isnull=False, target_id=None, target="", unit="mgpu")
_TARGETED = Q(pool=None, begin=None, until=None, lender=None, target_id__isnull=False) & ~Q(
    target=""
)


class ChangeRequest(models.Model):
    """A change of `node` that a person asks for, until others decide.

    `amount` is the increase: in milli-GPUs, or for a budget in the unit of its measure. `unit` is
    "mgpu" or that measure. `lender` is the sibling of a loan. `target_id` is the budget or the
    priority class, and `target` its name. The change is made at `begin` if that is later than the
    approval. It is reverted at `until`, if there is one; a role ends then.
    `open_offer` is the number of the counter-offer that waits. `planned` is the planned change
    that an approval made. A write that needs a second person has a `GuardedWrite`. That person
    manages quotas at `node`, or with `role` administers the platform. With `is_emergency` a
    platform administrator went on alone.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=12, choices=RequestKind.choices)
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+")
    node = models.ForeignKey(Node, models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, related_name="+")
    lender = models.ForeignKey(Node, models.PROTECT, null=True, related_name="+")
    target_id = models.UUIDField(null=True)
    target = models.CharField(max_length=100, blank=True)
    role = models.CharField(max_length=32, blank=True)
    amount = models.BigIntegerField(null=True)
    unit = models.CharField(max_length=9, blank=True)
    begin = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    reason = models.CharField(max_length=TEXT_LENGTH_MAX)
    status = models.CharField(
        max_length=9, choices=RequestStatus.choices, default=RequestStatus.PENDING.value
    )
    asked_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    open_offer = models.PositiveSmallIntegerField(null=True)
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=TEXT_LENGTH_MAX, blank=True)
    is_emergency = models.BooleanField(default=False)
    planned = models.ForeignKey(PlannedChange, models.PROTECT, null=True, related_name="+")
    version = models.IntegerField(default=1)

    class Meta:
        indexes = [
            models.Index(
                fields=["expires_at"],
                condition=Q(status__in=("pending", "countered")),
                name="request_by_expiry",
            ),
            models.Index(fields=["organization", "status"], name="request_by_status"),
            models.Index(fields=["asked_by"], name="request_by_person"),
        ]
        constraints = [
            models.CheckConstraint(condition=~Q(reason=""), name="request_has_a_reason"),
            models.CheckConstraint(
                condition=Q(status__in=RequestStatus.values), name="request_status_is_known"
            ),
            models.CheckConstraint(
                condition=(
                    Q(kind__in=("guarantee", "borrow_limit"), lender=None, role="") & _POOLED
                )
                | Q(kind="loan", lender__isnull=False, until__isnull=False, role="") & _POOLED
                | Q(kind="budget", role="", unit__in=("gpu_hours", "credits", "money")) & _TARGETED
                | Q(kind="class_cap", role="", unit="mgpu") & _TARGETED
                | Q(kind="role", pool=None, lender=None, target_id=None, amount=None, begin=None)
                & Q(target="", unit="")
                & ~Q(role="")
                | Q(kind="write", pool=None, lender=None, target_id=None, amount=None, begin=None)
                & Q(until=None, target="", unit="", role__in=("", "platform_admin")),
                name="request_names_what_its_kind_changes",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=("role", "write"))
                | Q(amount__isnull=False, amount__gte=1, amount__lte=AMOUNT_MAX),
                name="request_is_for_more",
            ),
            models.CheckConstraint(
                condition=Q(lender=None) | ~Q(lender=F("node")), name="loan_is_between_two_nodes"
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("asked_at"))
                & (Q(begin=None) | Q(begin__gt=F("asked_at")))
                & (Q(until=None) | Q(until__gt=F("asked_at")))
                & (Q(begin=None) | Q(until=None) | Q(until__gt=F("begin"))),
                name="request_ends_after_it_began",
            ),
            models.CheckConstraint(
                condition=Q(status="countered", open_offer__isnull=False)
                | ~Q(status="countered") & Q(open_offer=None),
                name="countered_request_has_an_offer",
            ),
            models.CheckConstraint(
                condition=Q(status__in=("pending", "countered"), decided_by=None, decided_at=None)
                | Q(status="expired", decided_by=None, decided_at__isnull=False)
                | Q(status__in=("approved", "rejected"), decided_at__isnull=False)
                & Q(decided_by__isnull=False)
                & ~Q(decided_by=F("asked_by"))
                | Q(status="approved", kind="write", is_emergency=True, decided_at__isnull=False)
                & Q(decided_by=F("asked_by"))
                & ~Q(note="")
                | Q(status="withdrawn", decided_at__isnull=False, decided_by__isnull=False)
                & Q(decided_by=F("asked_by")),
                name="request_is_decided_by_another_person",
            ),
            models.CheckConstraint(
                condition=Q(is_emergency=False) | Q(status="approved", kind="write"),
                name="emergency_is_an_approved_write",
            ),
            models.CheckConstraint(
                condition=~Q(status="rejected") | ~Q(note=""), name="rejected_request_has_a_note"
            ),
            models.CheckConstraint(
                condition=Q(status="approved", kind__in=OF_QUOTAS, planned__isnull=False)
                | ~(Q(status="approved") & Q(kind__in=OF_QUOTAS)) & Q(planned=None),
                name="approved_request_has_a_planned_change",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} request for {self.kind} of {self.node}"


class GuardedWrite(models.Model):
    """The write that a request of the kind `write` makes once a second person approves it.

    `operation` is the function that repeats it with `arguments`. `effects` is the preview at
    `measured_at`; it is made again when the state moved.
    """

    request = models.OneToOneField(
        ChangeRequest, models.PROTECT, primary_key=True, related_name="write"
    )
    operation = models.CharField(max_length=32)
    arguments = models.JSONField()
    title = models.CharField(max_length=TITLE_LENGTH_MAX)
    effects = models.JSONField()
    measured_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=~Q(operation="") & ~Q(title=""),
                name="guarded_write_has_an_operation_and_a_title",
            ),
        ]

    def __str__(self) -> str:
        return self.title


class CounterOffer(models.Model):
    """Other terms than those asked for, by a person who may decide the request.

    `sources` are the siblings that give, each with `node` and `amount_mgpu`; the parent's reserve
    gives the rest. `base` has the version of each row that the offer would change, by id. The
    person who asked accepts the offer only while these versions are current.
    """

    id = models.BigAutoField(primary_key=True)
    request = models.ForeignKey(ChangeRequest, models.PROTECT, related_name="offers")
    number = models.PositiveSmallIntegerField()
    amount = models.BigIntegerField()
    until = models.DateTimeField(null=True)
    sources = models.JSONField(default=list)
    base = models.JSONField()
    note = models.CharField(max_length=TEXT_LENGTH_MAX, blank=True)
    made_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    made_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["request", "number"], name="offer_number_is_unique"),
            models.CheckConstraint(
                condition=Q(amount__gte=1, amount__lte=AMOUNT_MAX), name="offer_is_for_more"
            ),
        ]

    def __str__(self) -> str:
        return f"counter-offer {self.number} of {self.request_id}"


class RequestComment(models.Model):
    """A comment on a request, by somebody who may read it. It never changes."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    request = models.ForeignKey(ChangeRequest, models.PROTECT, related_name="comments")
    author = models.ForeignKey(User, models.PROTECT, related_name="+")
    at = models.DateTimeField()
    text = models.CharField(max_length=TEXT_LENGTH_MAX)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(text=""), name="comment_has_a_text"),
        ]

    def __str__(self) -> str:
        return f"comment of {self.author} on {self.request_id}"

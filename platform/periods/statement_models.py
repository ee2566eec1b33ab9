"""Statements of closed months. The database numbers them, and refuses any change of them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from adjustments.models import Adjustment
from periods.code_models import CODE_LENGTH_MAX
from tenants.models import Node

STATEMENT_REASON_LENGTH_MAX = 500
TERMS_LENGTH_MAX = 500
PROVIDER_LENGTH_MAX = 500


class StatementKind(models.TextChoices):
    """A statement charges a unit for a month, and a credit note takes all of one back."""

    STATEMENT = "statement"
    CREDIT_NOTE = "credit_note"


class StatementCounter(models.Model):
    """The last number of an organization's statements in a year. Only a trigger counts it up.

    The row stays locked until the transaction ends. So numbers have no gaps, also after a rollback.
    """

    pk = models.CompositePrimaryKey("organization_id", "year")
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    year = models.IntegerField()
    last = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.last} statements of {self.organization_id} in {self.year}"


class Statement(models.Model):
    """The amount that a unit owes for a closed month, or gets back by a credit note.

    The unit is a department or a team, by its path at the time of use. Names are those of the
    issuing: no later one changes a document. `year` is that of issuing in
    the organization's time zone, and the database sets `sequence`. `total_cents` are hundredths of
    the currency. A credit note names the statement that it `credits`, and has its lines with the
    opposite sign.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    period = models.ForeignKey("periods.BillingPeriod", models.PROTECT, related_name="statements")
    organization = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    kind = models.CharField(max_length=11, choices=StatementKind)
    year = models.IntegerField()
    sequence = models.IntegerField(default=0)
    unit_path = models.CharField(max_length=1024)
    unit_name = models.CharField(max_length=200)
    organization_name = models.CharField(max_length=200)
    provider = models.CharField(max_length=PROVIDER_LENGTH_MAX)
    currency = models.CharField(max_length=3)
    total_cents = models.BigIntegerField()
    line_count = models.IntegerField()
    issued_at = models.DateTimeField()
    issued_by = models.CharField(max_length=200)
    due_on = models.DateField(null=True)
    terms = models.CharField(max_length=TERMS_LENGTH_MAX, blank=True)
    credits = models.OneToOneField(
        "self", models.PROTECT, null=True, related_name="credit_note", db_index=False
    )
    reason = models.CharField(max_length=STATEMENT_REASON_LENGTH_MAX, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "year", "sequence"], name="statement_number_is_unique"
            ),
            models.CheckConstraint(
                condition=Q(kind="statement", credits=None, reason="")
                | (Q(kind="credit_note", credits__isnull=False) & ~Q(reason="")),
                name="credit_note_says_what_and_why",
            ),
            models.CheckConstraint(
                condition=Q(currency__regex=r"\A[A-Z]{3}\Z"), name="statement_has_a_currency"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"

    @property
    def number(self) -> str:
        """Return its number, such as "2026-00012"."""
        return f"{self.year}-{self.sequence:05d}"

    @property
    def lines_in_order(self) -> models.QuerySet[StatementLine]:
        """Return its lines by their numbers."""
        return self.lines.select_related("adjustment").order_by("number")


class StatementLine(models.Model):
    """The use of a pool by a team in one class, or an adjustment.

    It is of the month that begins on `month`. A correction is of an earlier month. `amount_cents`
    are the cents of `cost_nano` by largest remainder over the whole closed month of the
    organization. The codes are those of the team in `month`, or empty. An `adjustment` has no use,
    its pool may be empty, and its `usage_class` is "adjustment" or "refund".
    """

    id = models.BigAutoField(primary_key=True)
    statement = models.ForeignKey(Statement, models.PROTECT, related_name="lines", db_index=False)
    number = models.IntegerField()
    month = models.DateField()
    is_correction = models.BooleanField()
    team = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    team_path = models.CharField(max_length=1024)
    pool = models.CharField(max_length=63, blank=True)
    device = models.CharField(max_length=8)
    usage_class = models.CharField(max_length=10)
    cost_centre = models.CharField(max_length=CODE_LENGTH_MAX, blank=True, default="")
    project_code = models.CharField(max_length=CODE_LENGTH_MAX, blank=True, default="")
    adjustment = models.ForeignKey(Adjustment, models.PROTECT, null=True, related_name="+")
    mgpu_s = models.BigIntegerField()
    cost_nano = models.BigIntegerField()
    amount_cents = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(adjustment=None) & ~Q(usage_class__in=("adjustment", "refund"))
                | Q(adjustment__isnull=False, usage_class__in=("adjustment", "refund"), mgpu_s=0),
                name="adjustments_have_lines_of_their_own",
            ),
            models.UniqueConstraint(
                fields=["statement", "adjustment"], name="statement_has_an_adjustment_once"
            ),
            models.UniqueConstraint(
                fields=["statement", "number"], name="statement_line_has_a_number"
            ),
        ]

    def __str__(self) -> str:
        return f"line {self.number} of {self.statement_id}"

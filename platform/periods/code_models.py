"""Accounting codes of nodes. The database keeps those of closed months."""

from __future__ import annotations

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeBoundary, RangeOperators
from django.db import models
from django.db.models import F, Func, Q
from uuid_utils.compat import uuid7

from tenants.models import Node

CODE_LENGTH_MAX = 64


class CodeKind(models.TextChoices):
    """The kind of an accounting code."""

    COST_CENTRE = "cost_centre"
    PROJECT_CODE = "project_code"


class AccountingCode(models.Model):
    """A code of a node for the months from `start` until `end`, which is excluded.

    Both are first days of months; without `end` there is no end yet. Nodes below without a code of
    their own of this kind have it, too. The database refuses changes of closed months, and any
    other change than of the end (trigger `accounting_code_keeps_closed_months`).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    node = models.ForeignKey(Node, models.PROTECT, related_name="accounting_codes")
    kind = models.CharField(max_length=12, choices=CodeKind)
    code = models.CharField(max_length=CODE_LENGTH_MAX)
    start = models.DateField()
    end = models.DateField(null=True)
    set_at = models.DateTimeField()
    set_by = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["cost_centre", "project_code"]),
                name="accounting_code_kind_is_known",
            ),
            models.CheckConstraint(
                condition=Q(code__regex=r"\A[A-Za-z0-9][A-Za-z0-9 ._/-]*\Z"),
                name="accounting_code_is_plain",
            ),
            models.CheckConstraint(
                condition=Q(start__day=1) & (Q(end=None) | Q(end__day=1, end__gt=F("start"))),
                name="accounting_code_has_whole_months",
            ),
            ExclusionConstraint(
                name="node_has_one_accounting_code_at_a_time",
                expressions=[
                    ("node", RangeOperators.EQUAL),
                    ("kind", RangeOperators.EQUAL),
                    (
                        Func("start", "end", RangeBoundary(), function="DATERANGE"),
                        RangeOperators.OVERLAPS,
                    ),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.code} of {self.node} from {self.start:%Y-%m}"

"""Stored integrals of past days, and notes of what changed since. See `history.stored_days`."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from clusters.models import Pool
from tenants.models import Node


class StoredDay(models.Model):
    """A past day of an organization's tree in a pool, `[start, end)`.

    `capacity_mgpu_s` is that of the pool in each hour. `nodes` are numbered by `StoredNode.pairs`.
    """

    id = models.BigAutoField(primary_key=True)
    organization = models.ForeignKey(Node, models.CASCADE, related_name="+", db_index=False)
    pool = models.ForeignKey(Pool, models.CASCADE, related_name="+")
    start = models.DateTimeField()
    end = models.DateTimeField()
    capacity_mgpu_s = ArrayField(models.BigIntegerField())
    nodes = ArrayField(models.UUIDField())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(end__gt=F("start")), name="stored_history_has_a_length"
            ),
            models.UniqueConstraint(
                fields=["organization", "pool", "start", "end"], name="history_is_stored_once"
            ),
        ]

    def __str__(self) -> str:
        return f"history of {self.organization_id} from {self.start:%Y-%m-%dT%H:%M:%SZ}"


class StoredNode(models.Model):
    """The integrals of a tree node on a stored day. A node without a row had none.

    `levels` are the levels with an integral (`history.integrals.Level`), and `mgpu_s` their
    integrals hour by hour, level after level. `pairs` are what children borrowed from each other:
    the numbers of borrower and lender, and the milli-GPU-seconds, one after the other.
    """

    id = models.BigAutoField(primary_key=True)
    day = models.ForeignKey(StoredDay, models.CASCADE, related_name="rows", db_index=False)
    node_id = models.UUIDField()
    levels = ArrayField(models.SmallIntegerField())
    mgpu_s = ArrayField(models.BigIntegerField())
    pairs = ArrayField(models.BigIntegerField())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["day", "node_id"], name="node_is_stored_once_a_day")
        ]

    def __str__(self) -> str:
        return f"history of {self.node_id} on stored day {self.day_id}"


class ChangedHistory(models.Model):
    """A note that use from `start` on is other than it was; a trigger writes it.

    It follows `billing.stored_charge_models.ChangedCharges`, whose notes are of use older than 48
    hours. It names no organization, because the use of one decides how much the others lend.
    """

    id = models.BigAutoField(primary_key=True)
    start = models.DateTimeField()

    def __str__(self) -> str:
        return f"changed history from {self.start:%Y-%m-%dT%H:%M:%SZ}"

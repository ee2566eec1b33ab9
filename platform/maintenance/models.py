"""Maintenance windows of clusters and of pools on them."""

from __future__ import annotations

from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from clusters.models import Cluster, Pool
from notices.announcement_models import Announcement
from tenants.models import User

REASON_LENGTH_MAX = 200
#: The most nodes that a window names. A larger one is of a cluster or a pool.
NODES_MAX = 1_000


class WindowState(models.TextChoices):
    """The state of a window: it follows from its times, and from whether it was cancelled."""

    PLANNED = "planned"
    OPEN = "open"
    ENDED = "ended"
    CANCELLED = "cancelled"


class MaintenanceWindow(models.Model):
    """No job starts on a cluster that could still run there in [start, end).

    With a `pool` this holds for the nodes of that pool alone, and with `nodes` for those of these
    names. `nodes` None are all nodes, also ones that come later. A window that was cancelled stays
    as a record. `announcement` is the banner that tells people of it; None once it was removed.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, models.PROTECT, null=True, related_name="+")
    nodes = ArrayField(models.CharField(max_length=253), null=True)
    start = models.DateTimeField()
    end = models.DateTimeField()
    reason = models.CharField(max_length=REASON_LENGTH_MAX)
    announcement = models.OneToOneField(Announcement, models.SET_NULL, null=True, related_name="+")
    made_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    made_at = models.DateTimeField()
    cancelled_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        indexes = [
            models.Index(
                fields=["end"], condition=Q(cancelled_at=None), name="maintenance_in_force"
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(end__gt=F("start")), name="maintenance_ends_after_it_starts"
            ),
            models.CheckConstraint(
                condition=Q(nodes=None) | Q(nodes__len__range=(1, NODES_MAX)),
                name="maintenance_has_some_nodes_or_all",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="maintenance_has_a_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.cluster} from {self.start:%Y-%m-%dT%H:%M:%SZ}"

    def state_at(self, now: datetime) -> WindowState:
        """Return the state of the window at `now`."""
        if self.cancelled_at is not None:
            return WindowState.CANCELLED
        if now >= self.end:
            return WindowState.ENDED
        return WindowState.OPEN if now >= self.start else WindowState.PLANNED

"""Announcements: banners on the pages of the portal, of a node or of a cluster."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from clusters.models import Cluster
from tenants.models import Node, User

TEXT_LENGTH_MAX = 500


class AnnouncementLevel(models.TextChoices):
    """The weight of an announcement. A page shows the heaviest first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Announcement(models.Model):
    """A text on top of each page in [start, end): for a node, a cluster, or with neither for all.

    Without an end it stays until it is removed.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    node = models.ForeignKey(Node, models.CASCADE, null=True, related_name="+")
    cluster = models.ForeignKey(Cluster, models.CASCADE, null=True, related_name="+")
    level = models.CharField(max_length=8, choices=AnnouncementLevel.choices)
    text = models.CharField(max_length=TEXT_LENGTH_MAX)
    start = models.DateTimeField()
    end = models.DateTimeField(null=True)
    made_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    made_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)

    class Meta:
        indexes = [models.Index(fields=["start", "end"], name="announcement_by_time")]
        constraints = [
            models.CheckConstraint(
                condition=Q(node=None) | Q(cluster=None), name="announcement_has_one_place"
            ),
            models.CheckConstraint(
                condition=Q(level__in=AnnouncementLevel.values), name="announcement_level_is_known"
            ),
            models.CheckConstraint(condition=~Q(text=""), name="announcement_has_a_text"),
            models.CheckConstraint(
                condition=Q(end=None) | Q(end__gt=F("start")), name="announcement_ends_later"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.level}: {self.text}"

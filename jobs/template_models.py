"""Templates of teams, from which people submit jobs."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from tenants.models import Node

NAME_LENGTH_MAX = 100
DESCRIPTION_LENGTH_MAX = 500


class JobTemplate(models.Model):
    """A request for jobs of `team`, without its team, that people complete.

    `locked` names members of `request` that a submission may not change.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.ForeignKey(Node, models.PROTECT, related_name="+", db_index=False)
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    description = models.CharField(max_length=DESCRIPTION_LENGTH_MAX, default="")
    request = models.JSONField()
    locked = ArrayField(models.CharField(max_length=64), default=list)
    version = models.IntegerField(default=1)
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="template_name_is_unique"),
            models.CheckConstraint(condition=~Q(name=""), name="template_has_a_name"),
            models.CheckConstraint(condition=Q(version__gte=1), name="template_version_counts"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

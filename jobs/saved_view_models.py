"""Views of the list of jobs that people save under a name."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from tenants.models import Node, User

NAME_LENGTH_MAX = 100


class SavedView(models.Model):
    """Filters, order and columns of the list of jobs, saved by `user`.

    It is shared with the team `node`, or personal if that is None. `parameters` are those of
    `GET /jobs`, and `columns`.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.PROTECT, related_name="+", db_index=False)
    node = models.ForeignKey(Node, models.PROTECT, null=True, related_name="+", db_index=False)
    name = models.CharField(max_length=NAME_LENGTH_MAX)
    parameters = models.JSONField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "name"], condition=Q(node=None), name="personal_view_is_unique"
            ),
            models.UniqueConstraint(fields=["node", "name"], name="shared_view_is_unique"),
            models.CheckConstraint(condition=~Q(name=""), name="view_has_a_name"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

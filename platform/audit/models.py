"""The audit log: acts with their actor, subject and time. The database keeps rows immutable."""

from __future__ import annotations

from django.db import models
from uuid_utils.compat import uuid7


class AuditEvent(models.Model):
    """One act of a person, a service or the system.

    References are stored as id and text, so that an event outlives the objects that it names.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    at = models.DateTimeField()
    actor_id = models.UUIDField(null=True)
    actor = models.CharField(max_length=127)
    action = models.CharField(max_length=64)
    organization_id = models.UUIDField(null=True)
    node_path = models.TextField(blank=True, db_collation="C")
    subject_kind = models.CharField(max_length=32)
    subject_id = models.CharField(max_length=64)
    detail = models.JSONField(default=dict)
    request_id = models.CharField(max_length=64, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["organization_id", "-id"], name="audit_by_organization"),
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
            models.Index(fields=["subject_kind", "subject_id", "-id"], name="audit_by_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.subject_kind} {self.subject_id}"

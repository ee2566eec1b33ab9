"""Messages, stored in the transaction of the change that caused them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Message(models.Model):
    """Something to do outside the database, at least once, until `done_at`.

    There is at most one message per (kind, subject), so the same intention is never stored twice.
    `sends` counts the attempts; it is committed before each call. `shard` names a group that is
    delivered on its own, for example the starts of one cluster. So no shard delays another.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=32)
    subject = models.UUIDField()
    shard = models.CharField(max_length=64, blank=True)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    sends = models.IntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"], name="intention_stored_once_per_subject"
            ),
        ]
        indexes = [
            models.Index(
                fields=["shard", "due_at"], name="message_to_send", condition=Q(done_at=None)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"


class Quarantine(models.Model):
    """A period in which no job is started. The id is that of the database's incarnation.

    At most one quarantine is open. From `since` on, clusters may have done things that are missing
    in this database. `answers` maps the id of each cluster that was asked to what was found:
    `adopted` counts attempts, and `strangers` are workloads that belong to no job here.
    """

    id = models.BigAutoField(primary_key=True)
    reason = models.TextField()
    since = models.DateTimeField()
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    answers = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["ended_at"], name="one_quarantine_goes_on", nulls_distinct=False
            ),
        ]

    def __str__(self) -> str:
        return f"quarantine {self.id} since {self.began_at:%Y-%m-%dT%H:%M:%SZ}"

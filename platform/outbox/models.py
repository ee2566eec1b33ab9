"""Intentions stored in the transaction of the change that caused them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Message(models.Model):
    """Something to do outside the database, at least once, until `done_at`.

    One per (kind, subject): the same intention is never stored twice. `sends` counts the
    attempts that were committed before the call went out. `shard` names what is served
    separately (the starts or the stops of one cluster), so that none holds up the others.
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
    """A time in which nothing is started; the id is that of the database's incarnation.

    `since` is from when on clusters may have done what is not known here. `answers` has, by the
    id of each cluster that has been asked, what of that was found: `adopted` attempts, and
    `strangers`, which belong to no job here. At most one goes on.
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

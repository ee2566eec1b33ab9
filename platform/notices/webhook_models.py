"""Webhooks: targets of nodes and people, and deliveries to them."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from uuid_utils.compat import uuid7

from tenants.models import Node, User
from webapi.outgoing import URL_LENGTH_MAX

SECRET_BYTES = 32
EXCERPT_LENGTH_MAX = 500


class WebhookKind(models.TextChoices):
    """The format of the messages."""

    #: An incoming webhook of Slack, or of a chat with the same format.
    SLACK = "slack"
    #: A workflow of Microsoft Teams that takes an Adaptive Card.
    TEAMS = "teams"
    #: JSON, signed as the specification Standard Webhooks says.
    SIGNED = "signed"


class WebhookTarget(models.Model):
    """An address to which events are posted: of a node and all below it, or of a person.

    `url` is a secret of its owner, as whoever knows it may post there. `secret` signs the messages
    of the kind `signed`; until `old_secret_until` so does the one before. `failing_since` is the
    first failure after the last success. A disabled target gets nothing.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    node = models.ForeignKey(Node, models.CASCADE, null=True, related_name="+")
    user = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    name = models.CharField(max_length=100)
    kind = models.CharField(max_length=6, choices=WebhookKind.choices)
    url = models.CharField(max_length=URL_LENGTH_MAX)
    events = ArrayField(models.CharField(max_length=20))
    secret = models.BinaryField(max_length=SECRET_BYTES)
    old_secret = models.BinaryField(max_length=SECRET_BYTES, null=True)
    old_secret_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    failing_since = models.DateTimeField(null=True)
    disabled_at = models.DateTimeField(null=True)
    disabled_reason = models.CharField(max_length=200, blank=True, default="")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(node__isnull=False, user=None) | Q(node=None, user__isnull=False),
                name="webhook_has_one_owner",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=[kind.value for kind in WebhookKind]),
                name="webhook_kind_is_known",
            ),
            models.CheckConstraint(
                condition=Q(old_secret=None, old_secret_until=None)
                | Q(old_secret__isnull=False, old_secret_until__isnull=False),
                name="webhook_old_secret_has_an_end",
            ),
            models.CheckConstraint(
                condition=Q(disabled_at=None, disabled_reason="")
                | Q(disabled_at__isnull=False) & ~Q(disabled_reason=""),
                name="webhook_says_why_it_is_disabled",
            ),
            models.CheckConstraint(
                condition=~Q(name="") & ~Q(events=[]), name="webhook_has_a_name_and_events"
            ),
        ]

    def __str__(self) -> str:
        return f"webhook {self.name}"


class WebhookState(models.TextChoices):
    """The state of a delivery."""

    #: The message is sent at `next_at`.
    PENDING = "pending"
    #: A worker waits for the answer. After `next_at` the outcome is unknown.
    SENDING = "sending"
    #: The server answered with a status of 2xx.
    SENT = "sent"
    #: The server refused it, or did not answer, too often or for too long.
    FAILED = "failed"


class WebhookDelivery(models.Model):
    """An event that is posted to a target, at least once.

    The id is that of the message, the same at each try and at each replay. `data` is the event.
    Status, excerpt, duration and error are those of the last try.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    target = models.ForeignKey(
        WebhookTarget, models.CASCADE, related_name="deliveries", db_index=False
    )
    event = models.CharField(max_length=20)
    #: Names the event, which a target gets once.
    key = models.CharField(max_length=200)
    data = models.JSONField()
    state = models.CharField(
        max_length=7, choices=WebhookState.choices, default=WebhookState.PENDING
    )
    created_at = models.DateTimeField()
    next_at = models.DateTimeField()
    #: The delivery is given up then.
    expires_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    status_code = models.PositiveIntegerField(null=True)
    response_excerpt = models.CharField(max_length=EXCERPT_LENGTH_MAX, blank=True, default="")
    duration_ms = models.PositiveIntegerField(null=True)
    error = models.CharField(max_length=EXCERPT_LENGTH_MAX, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["target", "key"], name="webhook_event_is_sent_once"),
            models.CheckConstraint(
                condition=Q(state__in=["pending", "sending"], ended_at=None)
                | Q(state="sent", ended_at__isnull=False, error="")
                | Q(state="failed", ended_at__isnull=False) & ~Q(error=""),
                name="webhook_delivery_says_how_it_ended",
            ),
        ]
        indexes = [
            models.Index(fields=["target", "-id"], name="webhook_delivery_by_target"),
            models.Index(
                fields=["next_at"],
                condition=Q(state__in=["pending", "sending"]),
                name="webhook_delivery_to_make",
            ),
            models.Index(fields=["created_at"], name="webhook_delivery_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.target_id}: {self.state}"

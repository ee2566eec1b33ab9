"""Notices to people: what happened, where to look, and whether the person has read it."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from tenants.models import User

SENTENCE_LENGTH_MAX = 500
LINK_LENGTH_MAX = 1_200
KEY_LENGTH_MAX = 200


class NoticeEvent(models.TextChoices):
    """The kind of event that a notice is about."""

    JOB_STARTED = "job_started"
    #: The job succeeded.
    JOB_ENDED = "job_ended"
    #: The job failed, reached its time limit, or was cancelled by another person.
    JOB_FAILED = "job_failed"
    #: The job runs until the deadline at most.
    JOB_PREEMPTING = "job_preempting"
    JOB_REQUEUED = "job_requeued"
    #: The portal holds the job until a person releases it.
    JOB_HELD = "job_held"
    TIME_LIMIT_NEAR = "time_limit_near"
    #: Running jobs of a team are preempted.
    TEAM_PREEMPTED = "team_preempted"
    BUDGET_ALERT = "budget_alert"
    CREDITS_EXPIRING = "credits_expiring"
    STATEMENT_READY = "statement_ready"
    #: A request waits for a second person.
    DECISION_WAITING = "decision_waiting"
    #: A request was decided, or expired.
    REQUEST_DECIDED = "request_decided"
    QUOTA_CHANGED = "quota_changed"
    TOKEN_EXPIRING = "token_expiring"  # noqa: S105 - the name of an event
    CLUSTER_STALE = "cluster_stale"


class Notice(models.Model):
    """A notice of one event for one person. Nobody else ever reads it.

    `key` names the event for the person, who gets each key once. `link` is a path of the portal.
    `deadline` is the time by which the person must act, if there is one.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="+", db_index=False)
    event = models.CharField(max_length=20, choices=NoticeEvent.choices)
    key = models.CharField(max_length=KEY_LENGTH_MAX)
    subject_kind = models.CharField(max_length=32)
    subject_id = models.CharField(max_length=64)
    sentence = models.CharField(max_length=SENTENCE_LENGTH_MAX)
    link = models.CharField(max_length=LINK_LENGTH_MAX)
    at = models.DateTimeField()
    deadline = models.DateTimeField(null=True)
    read_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "key"], name="notice_is_given_once"),
            models.CheckConstraint(
                condition=Q(event__in=[event.value for event in NoticeEvent]),
                name="notice_event_is_known",
            ),
            # A link leads to a page of the portal, never to another site.
            models.CheckConstraint(
                condition=Q(link__regex=r"\A/([^/\\].*)?\Z"), name="notice_link_is_local"
            ),
            models.CheckConstraint(condition=~Q(sentence=""), name="notice_has_a_sentence"),
            models.CheckConstraint(
                condition=Q(deadline=None) | Q(deadline__gte=F("at")),
                name="notice_deadline_is_later",
            ),
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="notice_by_user"),
            models.Index(fields=["user"], name="notice_unread", condition=Q(read_at__isnull=True)),
            models.Index(fields=["subject_kind", "subject_id"], name="notice_by_subject"),
            models.Index(fields=["at"], name="notice_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.event} for {self.user_id}: {self.sentence}"

"""Notices to people: what happened, where to look, and whether the person has read it."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

# Django finds these models by these imports.
from notices import announcement_models as announcement_models
from notices import mail_models as mail_models
from notices import webhook_models as webhook_models
from notices.mail_models import Mail
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
    #: A queued job is expected to start much later than its owner was told.
    START_SLIPPED = "start_slipped"
    #: Running jobs of a team are preempted.
    TEAM_PREEMPTED = "team_preempted"
    BUDGET_ALERT = "budget_alert"
    CREDITS_EXPIRING = "credits_expiring"
    STATEMENT_READY = "statement_ready"
    #: A request waits for a second person.
    DECISION_WAITING = "decision_waiting"
    #: A request was decided, or expired.
    REQUEST_DECIDED = "request_decided"
    #: Somebody commented on a request.
    REQUEST_COMMENTED = "request_commented"
    #: A request expires without a decision within a day.
    REQUEST_EXPIRING = "request_expiring"
    QUOTA_CHANGED = "quota_changed"
    TOKEN_EXPIRING = "token_expiring"  # noqa: S105 - the name of an event
    ROLE_EXPIRING = "role_expiring"
    CLUSTER_STALE = "cluster_stale"
    #: The figures of a node in the last week, for its leads.
    WEEK_SUMMARY = "week_summary"
    #: Deliveries to a webhook failed for a day.
    WEBHOOK_DISABLED = "webhook_disabled"


class Notice(models.Model):
    """A notice of one event for one person. Nobody else ever reads it.

    `key` names the event for the person, who gets each key once. `link` is a path of the portal.
    `deadline` is the time by which the person must act, if there is one. `figures` are those of
    `giving.Figure`.
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
    figures = models.JSONField(default=list, db_default=[])
    read_at = models.DateTimeField(null=True)
    #: False: the person chose not to see this event in the portal.
    is_shown = models.BooleanField(default=True)

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
            models.Index(
                fields=["user"],
                name="notice_unread",
                condition=Q(read_at__isnull=True, is_shown=True),
            ),
            models.Index(fields=["subject_kind", "subject_id"], name="notice_by_subject"),
            models.Index(fields=["at"], name="notice_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.event} for {self.user_id}: {self.sentence}"


class MailItem(models.Model):
    """A notice that is mailed to its person at `due_at` or later, as a part of `mail`."""

    notice = models.OneToOneField(Notice, models.CASCADE, primary_key=True, related_name="+")
    user = models.ForeignKey(User, models.CASCADE, related_name="+", db_index=False)
    due_at = models.DateTimeField()
    #: None until the mail is composed.
    mail = models.ForeignKey(Mail, models.CASCADE, null=True, related_name="items")

    class Meta:
        indexes = [
            models.Index(
                fields=["due_at"], condition=Q(mail__isnull=True), name="mail_item_to_compose"
            ),
            models.Index(fields=["user"], condition=Q(mail__isnull=True), name="mail_item_by_user"),
        ]

    def __str__(self) -> str:
        return f"{self.notice_id} in {self.mail_id}"

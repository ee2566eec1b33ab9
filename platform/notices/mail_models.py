"""Channels of notices: the choices of people, and mails with their delivery."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from uuid_utils.compat import uuid7

from tenants.models import User

#: A time of the day is a number of minutes below this.
DAY_MINUTES = 24 * 60
SUBJECT_LENGTH_MAX = 200
ERROR_LENGTH_MAX = 500


class Channel(models.TextChoices):
    """A way by which a notice reaches its person."""

    #: The bell and the list of notices.
    PORTAL = "portal"
    MAIL = "mail"


class ChannelChoice(models.Model):
    """A person's choice for an event and a channel that differs from the default.

    `event` is a `NoticeEvent`.
    """

    id = models.BigAutoField(primary_key=True)
    user = models.ForeignKey(User, models.CASCADE, related_name="+", db_index=False)
    event = models.CharField(max_length=20)
    channel = models.CharField(max_length=6, choices=Channel.choices)
    is_on = models.BooleanField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "event", "channel"], name="channel_is_chosen_once"
            ),
            models.CheckConstraint(
                condition=Q(channel__in=[channel.value for channel in Channel]),
                name="notice_channel_is_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} by {self.channel} for {self.user_id}: {self.is_on}"


class Digest(models.TextChoices):
    """The time at which mails with notices are sent."""

    #: At once, at most one mail a minute.
    NONE = "none"
    #: At each full hour.
    HOURLY = "hourly"
    #: At 08:00 of the person's time zone.
    DAILY = "daily"


class MailSettings(models.Model):
    """The time zone, the digest and the quiet hours of a person. Without a row: the defaults.

    Quiet hours are minutes of the day: from `quiet_from` until before `quiet_until`, over midnight
    where that is smaller. `version` also counts changes of the person's `ChannelChoice`s.
    """

    user = models.OneToOneField(User, models.CASCADE, primary_key=True, related_name="+")
    time_zone = models.CharField(max_length=64, default="UTC")
    digest = models.CharField(max_length=6, choices=Digest.choices, default=Digest.NONE)
    quiet_from = models.PositiveIntegerField(null=True)
    quiet_until = models.PositiveIntegerField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(digest__in=[digest.value for digest in Digest]),
                name="mail_digest_is_known",
            ),
            models.CheckConstraint(
                condition=Q(quiet_from=None, quiet_until=None)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False)
                & Q(quiet_from__lt=DAY_MINUTES, quiet_until__lt=DAY_MINUTES)
                & ~Q(quiet_from=F("quiet_until")),
                name="quiet_hours_are_part_of_a_day",
            ),
        ]

    def __str__(self) -> str:
        return f"mail settings of {self.user_id}"


class MailState(models.TextChoices):
    """The state of a mail."""

    #: The mail is sent at `next_at`.
    PENDING = "pending"
    #: A worker talks to the mail server. After `next_at` the outcome is unknown.
    SENDING = "sending"
    #: The mail server accepted the mail.
    SENT = "sent"
    #: The mail server refused it for good, or too often.
    FAILED = "failed"


class Mail(models.Model):
    """A mail with notices to a person.

    `attempts` is committed before each try, so that a crash is known. A mail whose worker died
    while it talked to the server is sent again: at least once, with the same Message-ID.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="+", db_index=False)
    subject = models.CharField(max_length=SUBJECT_LENGTH_MAX)
    notice_count = models.PositiveIntegerField()
    #: The address of the last try; empty before the first.
    address = models.EmailField(max_length=254, blank=True, default="")
    state = models.CharField(max_length=7, choices=MailState.choices, default=MailState.PENDING)
    created_at = models.DateTimeField()
    next_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=0)
    ended_at = models.DateTimeField(null=True)
    #: The answer of the mail server to the last try that failed.
    error = models.CharField(max_length=ERROR_LENGTH_MAX, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["pending", "sending"], ended_at=None)
                | Q(state="sent", ended_at__isnull=False, error="", attempts__gte=1)
                | Q(state="failed", ended_at__isnull=False) & ~Q(error=""),
                name="mail_says_how_it_ended",
            ),
            models.CheckConstraint(condition=~Q(subject=""), name="mail_has_a_subject"),
        ]
        indexes = [
            models.Index(fields=["user", "-id"], name="mail_by_user"),
            models.Index(
                fields=["next_at"],
                condition=Q(state__in=["pending", "sending"]),
                name="mail_to_send",
            ),
            models.Index(fields=["created_at"], name="mail_by_age"),
        ]

    def __str__(self) -> str:
        return f"mail {self.id} to {self.user_id}: {self.state}"

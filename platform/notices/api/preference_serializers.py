"""Representations of the choices of a person, and of mails."""

from __future__ import annotations

from typing import Any

from django.conf import settings as django_settings
from rest_framework import serializers

from notices.mail_models import Channel, Digest, Mail, MailSettings, MailState
from notices.models import NoticeEvent
from notices.preferences import EventChoice, choices_of, is_chosen, is_on_by_default
from primitives.errors import FieldError, InvalidRequest
from tenants.models import User
from tenants.names import TIME_ZONE_LENGTH_MAX, check_time_zone
from webapi.serializers import (
    BoundedListField,
    StrictSerializer,
    TextField,
    UtcTimeField,
    YesOrNoField,
)

_TIME = r"\A([01][0-9]|2[0-3]):[0-5][0-9]\Z"


class QuietHoursSerializer(StrictSerializer):
    """Hours of the day without mail, over midnight where the end is smaller."""

    start = serializers.RegexField(_TIME, help_text='Local time, such as "22:00"')
    end = serializers.RegexField(_TIME, help_text='Local time, such as "07:00"')


class EventChoiceSerializer(serializers.Serializer[dict[str, Any]]):
    """The channels of an event."""

    event = serializers.ChoiceField(choices=NoticeEvent.choices)
    portal = serializers.BooleanField(help_text="Whether the bell and the list show it")
    mail = serializers.BooleanField(help_text="Whether it is mailed")
    portal_default = serializers.BooleanField()
    mail_default = serializers.BooleanField()


class PreferencesSerializer(serializers.Serializer[dict[str, Any]]):
    """The choices of the caller."""

    version = serializers.IntegerField()
    email = serializers.CharField(help_text="Address of mails; empty: no mail")
    is_mail_configured = serializers.BooleanField(
        help_text="Whether the operator named a mail server"
    )
    time_zone = serializers.CharField(help_text="IANA name")
    digest = serializers.ChoiceField(choices=Digest.choices)
    quiet_hours = QuietHoursSerializer(allow_null=True)
    events = EventChoiceSerializer(many=True)


class EventChoiceUpdateSerializer(StrictSerializer):
    """A change of the channels of an event. A missing channel stays as it is."""

    event = serializers.ChoiceField(choices=NoticeEvent.choices)
    portal = YesOrNoField(required=False)
    mail = YesOrNoField(required=False)


class PreferencesUpdateSerializer(StrictSerializer):
    """Changes of the caller's choices. Missing fields stay as they are."""

    time_zone = TextField(
        required=False,
        max_length=TIME_ZONE_LENGTH_MAX,
        help_text="IANA name such as Europe/Berlin",
    )
    digest = serializers.ChoiceField(
        choices=Digest.choices,
        required=False,
        help_text="none: at once; hourly: at each full hour; daily: at 08:00",
    )
    quiet_hours = QuietHoursSerializer(required=False, allow_null=True)
    events = BoundedListField(
        child=EventChoiceUpdateSerializer(), max_length=len(NoticeEvent), required=False
    )


class MailSerializer(serializers.ModelSerializer[Mail]):
    """A mail to the caller."""

    state = serializers.ChoiceField(choices=MailState.choices)
    created_at = UtcTimeField()
    next_at = UtcTimeField(allow_null=True, help_text="When it is tried; null once it has ended")
    ended_at = UtcTimeField(allow_null=True, help_text="When it was sent, or given up")

    class Meta:
        model = Mail
        fields = [
            *("id", "subject", "notice_count", "address", "state", "attempts", "error"),
            *("created_at", "next_at", "ended_at"),
        ]
        extra_kwargs = {
            "notice_count": {"help_text": "Number of notices in it"},
            "address": {"help_text": "Address of the last try"},
            "error": {"help_text": "Answer of the mail server to the last try that failed"},
        }

    def to_representation(self, instance: Mail) -> dict[str, Any]:
        """Return the members. A mail that has ended is not tried again."""
        shown = dict(super().to_representation(instance))
        if instance.ended_at is not None:
            shown["next_at"] = None
        return shown


def shown_preferences(user: User, settings: MailSettings) -> dict[str, Any]:
    """Return the body of the person's choices, with all events in the order of `NoticeEvent`."""
    choices = choices_of([user.pk])
    quiet = None
    if settings.quiet_from is not None and settings.quiet_until is not None:
        quiet = {"start": _clock(settings.quiet_from), "end": _clock(settings.quiet_until)}
    return {
        "version": settings.version,
        "email": user.email,
        "is_mail_configured": django_settings.IS_MAIL_CONFIGURED,
        "time_zone": settings.time_zone,
        "digest": settings.digest,
        "quiet_hours": quiet,
        "events": [
            {
                "event": event.value,
                "portal": is_chosen(choices, user.pk, event, Channel.PORTAL),
                "mail": is_chosen(choices, user.pk, event, Channel.MAIL),
                "portal_default": is_on_by_default(event, Channel.PORTAL),
                "mail_default": is_on_by_default(event, Channel.MAIL),
            }
            for event in NoticeEvent
        ],
    }


def asked_changes(body: dict[str, Any]) -> tuple[dict[str, Any], list[EventChoice]]:
    """Return the fields of `MailSettings` and the choices of a validated body.

    Raises InvalidRequest for an unknown time zone, and for quiet hours without a length.
    """
    fields: dict[str, Any] = {}
    if "time_zone" in body:
        fields["time_zone"] = check_time_zone(body["time_zone"])
    if "digest" in body:
        fields["digest"] = body["digest"]
    if "quiet_hours" in body:
        quiet = body["quiet_hours"]
        fields["quiet_from"] = None if quiet is None else _minutes(quiet["start"])
        fields["quiet_until"] = None if quiet is None else _minutes(quiet["end"])
        if quiet is not None and quiet["start"] == quiet["end"]:
            raise InvalidRequest(
                "Quiet hours must end at another time than they start.",
                errors=[FieldError("/quiet_hours/end", "is the start")],
            )
    choices = [
        EventChoice(NoticeEvent(each["event"]), each.get("portal"), each.get("mail"))
        for each in body.get("events", [])
    ]
    return fields, choices


def _minutes(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"

"""The choices of people: which events reach them, by which channel, and when mail comes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from audit.recording import record
from notices.inbox import require_writing
from notices.mail_models import Channel, ChannelChoice, MailSettings
from notices.models import NoticeEvent
from tenants.access import Actor
from webapi.middleware import current_request_id
from webapi.preconditions import refuse_stale

#: Events that are mailed unless the person chooses otherwise: those that ask the person to act, and
#: the week of a lead.
MAILED_BY_DEFAULT = frozenset(
    {
        NoticeEvent.JOB_FAILED,
        NoticeEvent.JOB_PREEMPTING,
        NoticeEvent.JOB_HELD,
        NoticeEvent.TIME_LIMIT_NEAR,
        NoticeEvent.BUDGET_ALERT,
        NoticeEvent.CREDITS_EXPIRING,
        NoticeEvent.STATEMENT_READY,
        NoticeEvent.DECISION_WAITING,
        NoticeEvent.REQUEST_DECIDED,
        NoticeEvent.REQUEST_COMMENTED,
        NoticeEvent.REQUEST_EXPIRING,
        NoticeEvent.TOKEN_EXPIRING,
        NoticeEvent.ROLE_EXPIRING,
        NoticeEvent.CLUSTER_STALE,
        NoticeEvent.WEEK_SUMMARY,
        NoticeEvent.WEBHOOK_DISABLED,
    }
)

#: Choices by user, event and channel.
Choices = Mapping[tuple[UUID, str, str], bool]


@dataclass(frozen=True, slots=True)
class EventChoice:
    """A change of one event. None leaves a channel as it is."""

    event: NoticeEvent
    portal: bool | None = None
    mail: bool | None = None


def is_on_by_default(event: str, channel: Channel) -> bool:
    """Return whether an event comes by a channel for people who chose nothing."""
    return channel is Channel.PORTAL or event in MAILED_BY_DEFAULT


def choices_of(user_ids: Collection[UUID]) -> Choices:
    """Return all stored choices of these people."""
    rows = ChannelChoice.objects.filter(user__in=user_ids)
    return {
        (user_id, event, channel): is_on
        for user_id, event, channel, is_on in rows.values_list("user", "event", "channel", "is_on")
    }


def is_chosen(choices: Choices, user_id: UUID, event: str, channel: Channel) -> bool:
    """Return whether the person gets the event by the channel."""
    return choices.get((user_id, event, channel.value), is_on_by_default(event, channel))


def settings_of(user_id: UUID) -> MailSettings:
    """Return the person's settings of mail, or the defaults."""
    found = MailSettings.objects.filter(pk=user_id).first()
    return found or MailSettings(user_id=user_id)


@transaction.atomic
def change_preferences(
    changes: Mapping[str, Any],
    events: Sequence[EventChoice],
    *,
    actor: Actor,
    if_version: int,
    now: datetime,
) -> MailSettings:
    """Change the actor's own settings and choices, based on the version that the actor has seen.

    `changes` are fields of `MailSettings`. A choice that equals the default has no row. Mails that
    are planned already keep their time. Raises Forbidden and PreconditionFailed.
    """
    require_writing(actor)
    user_id = actor.user.pk
    MailSettings.objects.get_or_create(user_id=user_id)
    settings = MailSettings.objects.select_for_update().get(pk=user_id)
    refuse_stale(if_version, settings.version, body=None)
    for name, value in changes.items():
        setattr(settings, name, value)
    settings.version += 1
    settings.save()
    for choice in events:
        for channel, is_on in ((Channel.PORTAL, choice.portal), (Channel.MAIL, choice.mail)):
            if is_on is not None:
                _choose(user_id, choice.event, channel, is_on)
    record(
        action="notice_preferences.changed",
        subject_kind="user",
        subject_id=user_id,
        now=now,
        actor_id=user_id,
        actor=actor.user.login,
        organization_id=actor.user.organization_id,
        node_path=actor.organization_path or "",
        detail={
            **changes,
            "events": {
                choice.event.value: {"portal": choice.portal, "mail": choice.mail}
                for choice in events
            },
        },
        request_id=current_request_id(),
    )
    return settings


def _choose(user_id: UUID, event: NoticeEvent, channel: Channel, is_on: bool) -> None:
    chosen: dict[str, Any] = {"user_id": user_id, "event": event.value, "channel": channel.value}
    if is_on == is_on_by_default(event, channel):
        ChannelChoice.objects.filter(**chosen).delete()
    else:
        ChannelChoice.objects.update_or_create(**chosen, defaults={"is_on": is_on})

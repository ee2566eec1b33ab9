"""Notices for tests, and what people were told."""

from __future__ import annotations

from builders.portal_builders import NOW, a_user
from notices.announcement_models import Announcement
from notices.giving import NewNotice
from notices.models import Notice, NoticeEvent
from notices.webhook_models import WebhookTarget
from tenants.models import User


def a_new_notice(user: User | None, key: str = "job:1:failed", **changes: object) -> NewNotice:
    """A notice of a failed job that is not stored yet."""
    values: dict[str, object] = {
        "user_id": None if user is None else user.pk,
        "event": NoticeEvent.JOB_FAILED,
        "key": key,
        "subject_kind": "job",
        "subject_id": "1",
        "sentence": "bert failed.",
        "link": "/jobs/1",
        "at": NOW,
        **changes,
    }
    return NewNotice(**values)  # type: ignore[arg-type]


def a_notice(user: User, key: str = "job:1:failed", **changes: object) -> Notice:
    """A stored, unread notice of a failed job."""
    values: dict[str, object] = {
        "event": "job_failed",
        "subject_kind": "job",
        "subject_id": "1",
        "sentence": "bert failed.",
        "link": "/jobs/1",
        "at": NOW,
        **changes,
    }
    return Notice.objects.create(user=user, key=key, **values)


def a_webhook(**changes: object) -> WebhookTarget:
    """A signed webhook for failed jobs, of the node or user in `changes`."""
    values: dict[str, object] = {
        "name": "hook",
        "kind": "signed",
        "url": "https://hooks.example.org/x",
        "events": ["job_failed"],
        "secret": b"s" * 32,
        "created_at": NOW,
        **changes,
    }
    return WebhookTarget.objects.create(**values)


def an_announcement(**changes: object) -> Announcement:
    """An announcement to everybody, or of the node or cluster in `changes`."""
    values: dict[str, object] = {
        "level": "info",
        "text": "The portal is updated on Sunday.",
        "start": NOW,
        "made_by": a_user(None),
        "made_at": NOW,
        **changes,
    }
    return Announcement.objects.create(**values)


def told(user: User) -> list[tuple[str, str]]:
    """Event and sentence of the user's notices, oldest first."""
    rows = Notice.objects.filter(user=user).order_by("pk")
    return list(rows.values_list("event", "sentence"))


def told_about(event: NoticeEvent) -> dict[str, str]:
    """The sentences of an event, by the username that was told."""
    rows = Notice.objects.filter(event=event).order_by("user__username")
    return dict(rows.values_list("user__username", "sentence"))

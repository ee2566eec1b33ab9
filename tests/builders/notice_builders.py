"""Notices for tests, and what people were told."""

from __future__ import annotations

from builders.portal_builders import NOW
from notices.giving import NewNotice
from notices.models import Notice, NoticeEvent
from tenants.models import User


def a_new_notice(user: User, key: str = "job:1:failed", **changes: object) -> NewNotice:
    """A notice of a failed job that is not stored yet."""
    values: dict[str, object] = {
        "user_id": user.pk,
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


def told(user: User) -> list[tuple[str, str]]:
    """Event and sentence of the user's notices, oldest first."""
    rows = Notice.objects.filter(user=user).order_by("pk")
    return list(rows.values_list("event", "sentence"))


def told_about(event: NoticeEvent) -> dict[str, str]:
    """The sentences of an event, by the username that was told."""
    rows = Notice.objects.filter(event=event).order_by("user__username")
    return dict(rows.values_list("user__username", "sentence"))

"""Plans mails of new notices, and folds those that are due into one mail for each person."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings as django_settings
from django.db import transaction
from uuid_utils.compat import uuid7

from bulk.inserting import insert_rows
from notices.mail_models import SUBJECT_LENGTH_MAX, Channel, Mail, MailSettings
from notices.mail_times import mail_due_at
from notices.models import MailItem
from notices.preferences import Choices, is_chosen
from tenants.models import User, UserKind

#: The least time between two mails to a person. Notices of that time are folded into the second.
PAUSE = timedelta(seconds=60)
#: The most people of one call, and the most notices of one mail.
PEOPLE_MAX = 200
NOTICES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """A notice that was stored for a person just now."""

    id: UUID
    user_id: UUID
    event: str
    at: datetime


def plan_mails(stored: Iterable[StoredNotice], choices: Choices) -> None:
    """Plan the mails of new notices, by the choices of their persons.

    Must run in the transaction of the notices. People without an address get none.
    """
    if not django_settings.IS_MAIL_CONFIGURED:
        return
    mailed = [
        notice
        for notice in stored
        if is_chosen(choices, notice.user_id, notice.event, Channel.MAIL)
    ]
    if not mailed:
        return
    people = User.objects.filter(
        pk__in={notice.user_id for notice in mailed}, is_active=True, kind=UserKind.PERSON
    )
    addressed = set(people.exclude(email="").values_list("pk", flat=True))
    settings = MailSettings.objects.in_bulk(addressed)
    insert_rows(
        MailItem,
        [
            {
                "notice_id": notice.id,
                "user_id": notice.user_id,
                "due_at": mail_due_at(
                    notice.event,
                    settings.get(notice.user_id) or MailSettings(user_id=notice.user_id),
                    notice.at,
                ),
            }
            for notice in mailed
            if notice.user_id in addressed
        ],
        returns_keys=False,
    )


def compose_due_mails(now: datetime) -> int:
    """Fold the notices that are due into a mail for each person; return the number of mails.

    A person who got a mail in the last minute waits. Notices that the person has read meanwhile are
    left out.
    """
    recent = Mail.objects.filter(created_at__gt=now - PAUSE).values("user")
    due = MailItem.objects.filter(mail=None, due_at__lte=now).exclude(user__in=recent)
    users = due.order_by("user").values_list("user", flat=True).distinct()[:PEOPLE_MAX]
    return sum(_compose(user_id, now) for user_id in users)


@transaction.atomic
def _compose(user_id: UUID, now: datetime) -> bool:
    """Make one mail of the person's due notices. Return whether there were unread ones."""
    # A second worker finds the rows locked, and then composed.
    items = list(
        MailItem.objects.select_for_update(skip_locked=True, of=("self",))
        .filter(user=user_id, mail=None, due_at__lte=now)
        .select_related("notice")
        .order_by("notice")[:NOTICES_MAX]
    )
    read = [item.pk for item in items if item.notice.read_at is not None]
    MailItem.objects.filter(pk__in=read).delete()
    unread = [item for item in items if item.notice.read_at is None]
    if not unread:
        return False
    first = " ".join(unread[0].notice.sentence.split())
    subject = first if len(unread) == 1 else f"{len(unread)} notices: {first}"
    mail = Mail.objects.create(
        id=uuid7(),
        user_id=user_id,
        subject=subject[:SUBJECT_LENGTH_MAX],
        notice_count=len(unread),
        created_at=now,
        next_at=now,
    )
    MailItem.objects.filter(pk__in=[item.pk for item in unread]).update(mail=mail)
    return True

"""Gives notices to people, in the transaction of their cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from bulk.inserting import insert_rows
from live.publishing import publish_to_people
from notices.models import LINK_LENGTH_MAX, SENTENCE_LENGTH_MAX, Notice, NoticeEvent

#: The most notices that one statement stores.
_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class NewNotice:
    """A notice for one person. `key` names the event; a person gets each key once."""

    user_id: UUID
    event: NoticeEvent
    key: str
    subject_kind: str
    subject_id: object
    sentence: str
    link: str
    at: datetime
    deadline: datetime | None = None


def give_notices(notices: Iterable[NewNotice]) -> int:
    """Store the notices that their persons do not have yet; return how many. Hints open pages.

    Must run in the transaction of the cause. A longer sentence than 500 characters is cut.
    """
    # In one order, so that two transactions never wait for each other's keys.
    wanted = sorted(notices, key=lambda notice: (str(notice.user_id), notice.key))
    given = 0
    for first in range(0, len(wanted), _BATCH):
        batch = {uuid7(): notice for notice in wanted[first : first + _BATCH]}
        rows = [_row(key, notice) for key, notice in batch.items()]
        stored = insert_rows(Notice, rows, ignore_conflicts=True)
        publish_to_people("notices", {batch[key].user_id for key in stored})
        given += len(stored)
    return given


def _row(key: UUID, notice: NewNotice) -> dict[str, object]:
    sentence = notice.sentence
    if len(sentence) > SENTENCE_LENGTH_MAX:
        sentence = f"{sentence[: SENTENCE_LENGTH_MAX - 1]}…"
    assert len(notice.link) <= LINK_LENGTH_MAX
    return {
        "id": key,
        "user_id": notice.user_id,
        "event": notice.event.value,
        "key": notice.key,
        "subject_kind": notice.subject_kind,
        "subject_id": str(notice.subject_id),
        "sentence": sentence,
        "link": notice.link,
        "at": notice.at,
        "deadline": notice.deadline,
    }

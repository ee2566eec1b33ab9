"""Gives notices to people, in the transaction of their cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from bulk.inserting import insert_rows
from live.publishing import publish_to_people
from notices.mail_models import Channel
from notices.mail_queue import StoredNotice, plan_mails
from notices.models import LINK_LENGTH_MAX, SENTENCE_LENGTH_MAX, Notice, NoticeEvent
from notices.preferences import choices_of, is_chosen
from notices.webhook_queue import WebhookEvent, plan_webhooks
from webapi.row_access import all_rows

#: The most notices that one statement stores.
_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a notice shows. `link` is the path of the page behind it."""

    title: str
    value: str
    link: str


@dataclass(frozen=True, slots=True)
class NewNotice:
    """A notice for one person. `key` names the event; a person gets each key once.

    Without a person, it is for the webhooks at and above the node at `node_path`.
    """

    user_id: UUID | None
    event: NoticeEvent
    key: str
    subject_kind: str
    subject_id: object
    sentence: str
    link: str
    at: datetime
    deadline: datetime | None = None
    node_path: str = ""
    figures: Sequence[Figure] = ()


def for_webhooks(notice: NewNotice, node_path: str) -> NewNotice:
    """Return the same notice for the webhooks of a node instead of a person."""
    return replace(notice, user_id=None, node_path=node_path)


@all_rows()
def give_notices(notices: Iterable[NewNotice]) -> int:
    """Store the notices that their persons do not have yet; return how many. Hints open pages.

    Persons may be of any organization or, as administrators of the platform, of none. Must run in
    the transaction of the cause. A longer sentence than 500 characters is cut. The
    choices of the persons decide whether a new notice is shown in the portal, and mailed.
    """
    # In one order, so that two transactions never wait for each other's keys.
    every = sorted(notices, key=lambda notice: (str(notice.user_id), notice.key))
    people = [(notice.user_id, notice) for notice in every if notice.user_id is not None]
    for_targets = [notice for notice in every if notice.user_id is None]
    given = 0
    for first in range(0, len(people), _BATCH):
        batch = {uuid7(): pair for pair in people[first : first + _BATCH]}
        choices = choices_of({user_id for user_id, _ in batch.values()})
        shown = {
            key
            for key, (user_id, notice) in batch.items()
            if is_chosen(choices, user_id, notice.event, Channel.PORTAL)
        }
        rows = [_row(key, notice, key in shown) for key, (_, notice) in batch.items()]
        stored = insert_rows(Notice, rows, ignore_conflicts=True)
        publish_to_people("notices", {batch[key][0] for key in stored if key in shown})
        new = [(key, *batch[key]) for key in stored]
        plan_mails([StoredNotice(key, user, one.event, one.at) for key, user, one in new], choices)
        for_targets += [notice for _, _, notice in new]
        given += len(stored)
    plan_webhooks([_event(notice) for notice in for_targets])
    return given


def for_node(notice: NewNotice, user_ids: Iterable[UUID]) -> Iterator[NewNotice]:
    """Yield a notice for the webhooks of its node, and the same for each of these people."""
    yield notice
    for user_id in user_ids:
        yield replace(notice, user_id=user_id, node_path="")


def _event(notice: NewNotice) -> WebhookEvent:
    return WebhookEvent(
        event=notice.event.value,
        key=notice.key,
        subject_kind=notice.subject_kind,
        subject_id=str(notice.subject_id),
        sentence=notice.sentence[:SENTENCE_LENGTH_MAX],
        link=notice.link,
        at=notice.at,
        deadline=notice.deadline,
        node_path=notice.node_path,
        user_id=notice.user_id,
    )


def _row(key: UUID, notice: NewNotice, is_shown: bool) -> dict[str, object]:
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
        "figures": [asdict(figure) for figure in notice.figures],
        "is_shown": is_shown,
    }

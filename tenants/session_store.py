"""Browser sessions as rows of our own, so that people can list and end them."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, cast
from uuid import UUID

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.http import HttpRequest
from uuid_utils.compat import uuid7

from primitives.clock import SystemClock
from tenants.models import Session

#: Each request of a session would write its row otherwise.
LAST_USED_PRECISION = timedelta(minutes=1)
_STARTED = "started"
_SIGNED_IN_WITH = "signed_in_with"
_ADDRESS_LENGTH_MAX = 64
_USER_AGENT_LENGTH_MAX = 300


class SignInWay(StrEnum):
    """The way in which a person signed in to a session."""

    PASSWORD = "password"  # noqa: S105 - a way, not a password
    SECOND_FACTOR = "second_factor"
    PROVIDER = "identity_provider"


class SessionStore(DatabaseStore):
    """Stores a session with its person, browser and last use.

    A row has a new id whenever the session gets a new key.
    """

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(session_key)
        self.row_id: UUID = uuid7()
        self._last_used_at: datetime | None = None
        self._address = ""

    @classmethod
    def get_model_class(cls) -> type[Session]:
        """Return the model of the rows."""
        return Session

    def create(self) -> None:
        """Store a new row, under a new id and key."""
        self.row_id = uuid7()
        super().create()

    @property
    def way(self) -> SignInWay:
        """Return the way of the sign-in. Sessions from before it was stored count as passwords."""
        return SignInWay(self.get(_SIGNED_IN_WITH, SignInWay.PASSWORD.value))

    @property
    def started_at(self) -> datetime | None:
        """Return when a person signed in; None: nobody did."""
        started = self.get(_STARTED)
        return None if started is None else datetime.fromisoformat(started["at"])

    def start(self, *, address: str, user_agent: str, way: SignInWay, now: datetime) -> None:
        """Note from where and how a person signs in. It is stored with the rest of the session."""
        self.note_way(way)
        self[_STARTED] = {
            "at": now.isoformat(),
            "user_agent": _printable(user_agent)[:_USER_AGENT_LENGTH_MAX],
        }
        self._last_used_at, self._address = now, address[:_ADDRESS_LENGTH_MAX]

    def note_way(self, way: SignInWay) -> None:
        """Note how the person of this session proved who they are."""
        self[_SIGNED_IN_WITH] = way.value

    def note_use(self, *, address: str, now: datetime) -> None:
        """Store that the session is in use, at most once a minute."""
        if self._last_used_at is not None and now - self._last_used_at < LAST_USED_PRECISION:
            return
        self._last_used_at, self._address = now, address[:_ADDRESS_LENGTH_MAX]
        Session.objects.filter(pk=self.row_id, last_used_at__lt=now).update(
            last_used_at=now, address=self._address
        )

    def create_model_instance(self, data: dict[str, Any]) -> Session:
        """Return the row of this session with these data."""
        row = cast(Session, super().create_model_instance(data))
        row.id = self.row_id
        if SESSION_KEY in data:
            now = SystemClock().now()
            started = data.get(_STARTED)
            row.user_id = UUID(data[SESSION_KEY])
            row.last_used_at = self._last_used_at or now
            row.started_at = (
                row.last_used_at if started is None else datetime.fromisoformat(started["at"])
            )
            row.user_agent = "" if started is None else started["user_agent"]
            row.address = self._address
        return row

    def _get_session_from_db(self) -> Session | None:
        # The stubs lack this method of Django.
        row: Session | None = super()._get_session_from_db()  # type: ignore[misc]
        if row is not None:
            self.row_id = row.pk
            self._last_used_at, self._address = row.last_used_at, row.address
        return row


def store_of(request: HttpRequest) -> SessionStore:
    """Return the session of the request."""
    return cast(SessionStore, request.session)


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())

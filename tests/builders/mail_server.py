"""A real SMTP server for tests, which answers as a test says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller

from embedded.ports import a_free_port

OK = "250 OK"


@dataclass
class MailServer:
    """Answers each recipient and each message; keeps the messages that it accepted."""

    port: int = 0
    recipient_answer: str = OK
    message_answer: str = OK
    accepted: list[EmailMessage] = field(default_factory=list)

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if self.recipient_answer == OK:
            envelope.rcpt_tos.append(address)
        return self.recipient_answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.message_answer == OK:
            message = message_from_bytes(envelope.content, policy=policy.default)
            assert isinstance(message, EmailMessage)
            self.accepted.append(message)
        return self.message_answer


@contextmanager
def a_mail_server(settings: Any) -> Iterator[MailServer]:
    """A mail server on a free port of this machine, and Django's settings for it."""
    server = MailServer()
    controller = Controller(server, hostname="127.0.0.1", port=a_free_port())
    controller.start()
    server.port = controller.port
    mail_through(settings, server.port)
    try:
        yield server
    finally:
        controller.stop()


def mail_through(settings: Any, port: int) -> None:
    """Make Django send mails to a port of this machine."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.IS_MAIL_CONFIGURED = True
    settings.PUBLIC_URL = "https://tidegate.example.org"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False


def body_of(message: EmailMessage) -> str:
    """The text of a mail, with plain ends of lines."""
    part = message.get_body(("plain",))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")


def html_body_of(message: EmailMessage) -> str:
    """The HTML of a mail."""
    part = message.get_body(("html",))
    assert part is not None
    return str(part.get_content()).replace("\r\n", "\n")

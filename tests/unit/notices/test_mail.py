"""Mails with notices: folded by person, sent through a real SMTP server, and never lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from builders.cast import Cast, a_cast
from builders.mail_server import MailServer, a_mail_server, body_of, mail_through
from builders.notice_builders import a_new_notice
from builders.portal_builders import NOW
from notices.giving import give_notices
from notices.mail_models import ChannelChoice, Mail, MailSettings
from notices.mail_queue import compose_due_mails
from notices.mailing import LEASE, PAUSES, send_next_mail
from notices.models import MailItem, Notice, NoticeEvent
from notices.retention import drop_old_mails, drop_old_notices
from tenants.models import User

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with a_mail_server(settings) as found:
        yield found


@pytest.fixture
def cast() -> Cast:
    cast = a_cast()
    for user in (cast.bob, cast.alice):
        user.email = f"{user.username}@example.org"
        user.save()
    return cast


def send(now: datetime = NOW) -> int:
    """Compose and send all that is due; return the number of tries."""
    compose_due_mails(now)
    tries = 0
    while send_next_mail(lambda: now):
        tries += 1
    return tries


def states() -> list[tuple[str, int, str]]:
    rows = Mail.objects.order_by("pk")
    return list(rows.values_list("state", "attempts", "error"))


def test_a_notice_is_mailed_with_its_link_and_deadline(cast: Cast, server: MailServer) -> None:
    """The deadline is in the person's zone. Against: a link without the portal's address."""
    MailSettings.objects.create(user=cast.bob, time_zone="Europe/Berlin")
    give_notices([a_new_notice(cast.bob, deadline=NOW + 5 * MINUTE)])
    assert send() == 1
    (message,) = server.accepted
    mail = Mail.objects.get()
    assert (message["To"], message["Subject"]) == ("bob@example.org", "bert failed.")
    assert message["Message-ID"] == f"<{mail.pk}@localhost>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert body_of(message) == (
        "Hello Bob,\n\n"
        "bert failed.\n"
        "Until 2026-11-21 13:05 CET\n"
        "https://tidegate.example.org/jobs/1\n\n"
        "-- \nChoose the events and the hours of mails: "
        "https://tidegate.example.org/notices/preferences\n"
    )
    assert (mail.state, mail.address, mail.ended_at) == ("sent", "bob@example.org", NOW)
    assert send(NOW + LEASE) == 0


def test_many_at_once_are_one_mail_a_person(cast: Cast, server: MailServer) -> None:
    """60 notices: 50 are shown, 10 are counted. Against: a mail for each notice."""
    give_notices([a_new_notice(cast.bob, str(i), sentence=f"job {i}.") for i in range(60)])
    give_notices([a_new_notice(cast.alice)])
    assert send() == 2
    mails = {message["To"]: message for message in server.accepted}
    assert mails["alice@example.org"]["Subject"] == "bert failed."
    body = body_of(mails["bob@example.org"])
    assert mails["bob@example.org"]["Subject"] == "60 notices: job 0."
    assert body.count("https://tidegate.example.org/jobs/1\n") == 50
    assert "And 10 more: https://tidegate.example.org/notices\n" in body


def test_a_person_gets_one_mail_a_minute(cast: Cast, server: MailServer) -> None:
    """Notices of the minute after a mail are folded into the second. Against: no pause."""
    give_notices([a_new_notice(cast.bob, "1")])
    assert send(NOW) == 1
    for key in ("2", "3"):
        give_notices([a_new_notice(cast.bob, key)])
        assert send(NOW + 59 * timedelta(seconds=1)) == 0
    assert send(NOW + MINUTE) == 1
    assert [message["Subject"] for message in server.accepted] == [
        "bert failed.",
        "2 notices: bert failed.",
    ]


def test_a_notice_that_was_read_meanwhile_is_not_mailed(cast: Cast, server: MailServer) -> None:
    """Against: all planned notices are mailed."""
    give_notices([a_new_notice(cast.bob, "1"), a_new_notice(cast.bob, "2")])
    Notice.objects.filter(key="1").update(read_at=NOW)
    assert send() == 1
    assert Mail.objects.get().notice_count == 1
    Notice.objects.update(read_at=NOW)
    give_notices([a_new_notice(cast.alice)])
    Notice.objects.update(read_at=NOW)
    assert send(NOW + MINUTE) == 0
    assert MailItem.objects.filter(mail=None).count() == 0


@pytest.mark.usefixtures("server")
def test_choices_decide_the_channel(cast: Cast) -> None:
    """Job ends are not mailed by default, failures are. Against: the default wins."""
    for event, channel, is_on in (
        ("job_ended", "mail", True),
        ("job_failed", "mail", False),
        ("job_failed", "portal", False),
    ):
        ChannelChoice.objects.create(user=cast.bob, event=event, channel=channel, is_on=is_on)
    for user in (cast.bob, cast.alice):
        give_notices(
            [
                a_new_notice(user, "ended", event=NoticeEvent.JOB_ENDED),
                a_new_notice(user, "failed"),
            ]
        )
    assert set(MailItem.objects.values_list("user__username", "notice__key")) == {
        ("bob", "ended"),
        ("alice", "failed"),
    }
    hidden = Notice.objects.filter(is_shown=False)
    assert list(hidden.values_list("user__username", "key")) == [("bob", "failed")]


def test_without_address_or_mail_server_nothing_is_planned(cast: Cast, settings: Any) -> None:
    """Against: mails pile up, and are sent years later."""
    give_notices([a_new_notice(cast.bob)])
    settings.IS_MAIL_CONFIGURED = True
    give_notices([a_new_notice(cast.dave)])
    User.objects.filter(pk=cast.alice.pk).update(is_active=False)
    give_notices([a_new_notice(cast.alice)])
    assert not MailItem.objects.exists()


@pytest.mark.usefixtures("server")
def test_a_person_who_left_gets_no_planned_mail(cast: Cast, server: MailServer) -> None:
    """Against: the address of the planning is used."""
    give_notices([a_new_notice(cast.bob)])
    User.objects.filter(pk=cast.bob.pk).update(email="")
    assert send() == 1
    assert states() == [("failed", 1, "The person has no email address, or is deactivated.")]
    assert server.accepted == []


@pytest.mark.parametrize("where", ["recipient", "message"])
def test_a_refusal_for_good_is_not_tried_again(cast: Cast, server: MailServer, where: str) -> None:
    """The answer of the server is in the log. Against: every error is tried again."""
    setattr(server, f"{where}_answer", "550 No such mailbox")
    give_notices([a_new_notice(cast.bob)])
    assert send() == 1
    assert states() == [("failed", 1, "The mail server answered 550: No such mailbox")]
    assert send(NOW + LEASE) == 0


def test_a_server_that_is_busy_is_tried_again_with_growing_pauses(
    cast: Cast, server: MailServer
) -> None:
    """Then the mail is sent. Against: the state stays sending; a pause that does not grow."""
    server.message_answer = "451 Try again later"
    give_notices([a_new_notice(cast.bob)])
    now = NOW
    for attempt, pause in enumerate(PAUSES[:2], 1):
        assert send(now) == 1
        busy = "The mail server answered 451: Try again later"
        assert states() == [("pending", attempt, busy)]
        assert send(now + pause - timedelta(seconds=1)) == 0
        now += pause
    server.message_answer = "250 OK"
    assert send(now) == 1
    assert states() == [("sent", 3, "")]
    assert len(server.accepted) == 1


def test_a_mail_is_given_up_after_the_last_pause(cast: Cast, settings: Any) -> None:
    """Nobody listens at the port. Against: a mail that is tried for ever."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        mail_through(settings, probe.getsockname()[1])
        give_notices([a_new_notice(cast.bob)])
        now = NOW
        for pause in PAUSES:
            assert send(now) == 1
            now += pause
        assert send(now) == 1
    reason = "The mail server does not answer: [Errno 111] Connection refused"
    assert states() == [("failed", 6, reason)]


def test_a_server_that_says_nothing_ends_with_the_time_out(cast: Cast, settings: Any) -> None:
    """Against: a worker that waits for ever."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        mail_through(settings, silent.getsockname()[1])
        settings.EMAIL_TIMEOUT = 0.2
        give_notices([a_new_notice(cast.bob)])
        assert send() == 1
    reason = "The mail server does not answer: Connection unexpectedly closed: timed out"
    assert states() == [("pending", 1, reason)]


def test_a_worker_that_dies_after_sending_sends_again_with_the_same_id(
    cast: Cast, server: MailServer
) -> None:
    """At least once: nobody knows the outcome, so the mail comes again, after the lease.

    Against: a mail that stays in the state sending.
    """
    give_notices([a_new_notice(cast.bob)])
    compose_due_mails(NOW)
    times = iter([NOW])
    with pytest.raises(StopIteration):
        send_next_mail(lambda: next(times))
    assert states() == [("sending", 1, "")]
    assert send(NOW + LEASE - timedelta(seconds=1)) == 0
    assert send(NOW + LEASE) == 1
    assert states() == [("sent", 2, "")]
    first, second = server.accepted
    assert first["Message-ID"] == second["Message-ID"]


def test_a_worker_that_is_too_late_changes_nothing(cast: Cast, server: MailServer) -> None:
    """Another worker took the mail meanwhile, and it was refused. Against: the slow one wins."""
    give_notices([a_new_notice(cast.bob)])
    compose_due_mails(NOW)

    def slow() -> datetime:
        if server.accepted:
            server.recipient_answer = "550 Gone"
            send_next_mail(lambda: NOW + LEASE)
        return NOW

    assert send_next_mail(slow)
    assert states() == [("failed", 2, "The mail server answered 550: Gone")]


@pytest.mark.usefixtures("server")
def test_a_worker_that_always_dies_ends_the_tries(cast: Cast) -> None:
    """Against: a mail that kills a worker each five minutes for ever."""
    give_notices([a_new_notice(cast.bob)])
    compose_due_mails(NOW)
    Mail.objects.update(state="sending", attempts=len(PAUSES) + 1)
    assert send() == 1
    assert states() == [("failed", len(PAUSES) + 2, "The worker died during each try.")]


@pytest.mark.parametrize(
    ("model", "values", "constraint"),
    [
        (ChannelChoice, {"event": "x", "channel": "fax", "is_on": True}, "notice_channel_is_known"),
        (MailSettings, {"digest": "weekly"}, "mail_digest_is_known"),
        (MailSettings, {"quiet_from": 60}, "quiet_hours_are_part_of_a_day"),
        (MailSettings, {"quiet_from": 60, "quiet_until": 60}, "quiet_hours_are_part_of_a_day"),
        (MailSettings, {"quiet_from": 60, "quiet_until": 1440}, "quiet_hours_are_part_of_a_day"),
    ],
)
def test_the_database_refuses_bad_choices(
    cast: Cast, model: Any, values: dict[str, Any], constraint: str
) -> None:
    with pytest.raises(IntegrityError, match=constraint):
        model.objects.create(user=cast.bob, **values)


def test_the_database_refuses_a_second_choice(cast: Cast) -> None:
    choice = {"user": cast.bob, "event": "job_failed", "channel": "mail", "is_on": False}
    ChannelChoice.objects.create(**choice)
    with pytest.raises(IntegrityError, match="channel_is_chosen_once"):
        ChannelChoice.objects.create(**choice)


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"state": "lost"}, "mail_says_how_it_ended"),
        ({"state": "sent", "attempts": 1}, "mail_says_how_it_ended"),
        ({"state": "sent", "ended_at": NOW, "attempts": 0}, "mail_says_how_it_ended"),
        ({"state": "failed", "ended_at": NOW}, "mail_says_how_it_ended"),
        ({"ended_at": NOW}, "mail_says_how_it_ended"),
        ({"subject": ""}, "mail_has_a_subject"),
    ],
)
def test_the_database_refuses_a_bad_mail(
    cast: Cast, changes: dict[str, Any], constraint: str
) -> None:
    values = {"subject": "x", "notice_count": 1, "created_at": NOW, "next_at": NOW, **changes}
    with pytest.raises(IntegrityError, match=constraint):
        Mail.objects.create(user=cast.bob, **values)


@pytest.mark.usefixtures("server")
def test_old_notices_and_mails_go_with_their_places(cast: Cast) -> None:
    """Mails stay for 30 days, notices for 90. Against: a notice in a mail cannot be deleted."""
    give_notices([a_new_notice(cast.bob)])
    compose_due_mails(NOW)
    assert drop_old_mails(NOW + timedelta(days=30)) == 0
    assert drop_old_notices(NOW + timedelta(days=91)) == 1
    assert drop_old_mails(NOW + timedelta(days=31)) == 1
    assert not MailItem.objects.exists()

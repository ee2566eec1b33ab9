"""The lead's mail on Monday: each number opens the page behind it, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from approvals.deciding import reject
from builders.approval_builders import asked
from builders.billing_builders import a_metered_attempt, a_rate_card, at
from builders.browser_story import Story, a_story
from builders.job_builders import a_job
from builders.mail_server import MailServer, a_mail_server, html_body_of
from history.lead_notices import give_week_notices
from notices.mail_queue import compose_due_mails
from notices.mailing import send_next_mail
from tenants.access import actor_of

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    # WhiteNoise sends the pages' files so.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning"),
]
#: Monday at 08:00 after the week that begins with the billing builders' day 0.
MONDAY = datetime(2026, 11, 9, 8, tzinfo=UTC)
SITE = "https://tidegate.example.org"
HOUR_S, DAY_S = 3_600, 86_400


@pytest.fixture(scope="module", autouse=True)
def _beside_a_browser() -> Iterator[None]:
    """Playwright keeps an event loop in this thread, where Django would refuse its database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch, settings: Any, browser: Browser) -> Iterator[Story]:
    with a_story(monkeypatch, settings, browser, MONDAY) as found:
        yield found


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with a_mail_server(settings) as found:
        yield found


def _a_week_of_vision(story: Story) -> None:
    """Vision ran two jobs of 4 GPUs for 5 hours, and an administrator rejected a request."""
    company, mira = story.company, story.people["mira"]
    mira.email = "mira@example.org"
    mira.save()
    a_rate_card(company.organization, {"guaranteed": 2_000_000_000, "borrowed": 1_000_000_000})
    for wait_s, start in ((90, 2 * DAY_S), (1_200, 3 * DAY_S)):
        job = a_job(
            company,
            mira,
            team=company.vision,
            state="succeeded",
            submitted_at=at(start - wait_s),
            started_at=at(start),
            ended_at=at(start + 5 * HOUR_S),
        )
        a_metered_attempt(company.vision, start, start + 5 * HOUR_S, job_id=job.pk, mgpu=4_000)
    request = asked(actor_of(mira), node="ai-company/research/vision")
    decided = MONDAY - timedelta(days=2)
    reject(request.pk, note="No GPUs.", actor=actor_of(story.people["dora"]), now=decided)


def test_each_number_of_the_mail_on_monday_opens_the_page_behind_it(
    story: Story, server: MailServer
) -> None:
    """The mail comes over a real SMTP server.

    Against: a link to another week, or to a page that its reader may not see.
    """
    _a_week_of_vision(story)
    assert give_week_notices(lambda: MONDAY) == 2
    compose_due_mails(MONDAY)
    while send_next_mail(lambda: MONDAY):
        pass
    (message,) = server.accepted
    found = re.findall(
        r'">([^<]+)</th><td[^>]*><a href="([^"]+)">([^<]+)</a>', html_body_of(message)
    )
    pages = [(title, number, unescape(link).removeprefix(SITE)) for title, link, number in found]
    shown = {
        ("Used, h100", "40.000 GPU-hours"): "In use 40.00 + lent 0.00 + idle 1,304.00",
        ("Waited, h100, guaranteed (p50 of 2 jobs)", "1m30s"): "p50 1 min 30 s",
        ("Waited, h100, guaranteed (p95 of 2 jobs)", "20m"): "p95 20 min · 2 jobs",
        ("Idle guarantee, h100", "1,304.000 GPU-hours"): "0.00 GPU-h · 1,304.00 idle",
        ("Lost work, h100 (0 preemptions)", "0.000 GPU-hours"): "No job was preempted",
        ("Cost, h100", "80.00 EUR"): "80.00",
        ("Rejected requests", "1"): "vision +4 GPUs of h100",
    }
    assert [(title, number) for title, number, _ in pages] == list(shown)
    for title, number, path in pages:
        with story.seen_by("mira", path) as page:
            expect(page.get_by_role("main")).to_contain_text(shown[title, number])

"""A preemption warns its owner in the browser, and the team in its channel, with the time left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from builders.browser_story import Story, a_story
from builders.hook_server import HookServer, a_hook_server
from builders.job_builders import a_job
from builders.notice_builders import a_webhook
from jobs.timeline import Happening, record_events
from notices.webhook_delivery import deliver_next_webhook

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    # WhiteNoise sends the pages' files so.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning"),
]
MOMENT = datetime(2026, 11, 25, 10, tzinfo=UTC)
GRACE_S = 300
#: A page without a socket asks again after half a minute.
POLLED_MS = 60_000


@pytest.fixture(scope="module", autouse=True)
def _beside_a_browser() -> Iterator[None]:
    """Playwright keeps an event loop in this thread, where Django would refuse its database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch, settings: Any, browser: Browser) -> Iterator[Story]:
    with a_story(monkeypatch, settings, browser, MOMENT) as found:
        yield found


@pytest.fixture
def channel(settings: Any) -> Iterator[HookServer]:
    settings.WEBHOOK_NETWORKS = ["127.0.0.1/32"]
    settings.PUBLIC_URL = "https://tidegate.example.org"
    with a_hook_server() as found:
        yield found


def test_a_preemption_warns_in_the_browser_and_in_the_channel(
    story: Story, channel: HookServer
) -> None:
    """The toast counts down and leads to the job; the channel has the time left, too.

    Against: the channel of a sibling gets it; a message without the deadline.
    """
    nlp = story.company.nlp
    a_webhook(node=nlp, kind="slack", url=channel.url, events=["job_preempting"])
    a_webhook(node=story.company.vision, url=channel.url, events=["job_preempting"])
    job = a_job(story.company, story.people["bob"], state="running", started_at=MOMENT)
    with story.seen_by("bob", "/notices") as page:
        expect(page.get_by_text("No notices yet.")).to_be_visible()
        record_events([Happening(job.pk, MOMENT, "preempting", {"attempt": 1, "grace_s": GRACE_S})])
        toast = page.get_by_role("alert").filter(has_text="train is being preempted.")
        expect(toast).to_contain_text("▲ 5:00 left", timeout=POLLED_MS)
        toast.get_by_role("link").click()
        page.wait_for_url(f"**/jobs/{job.pk}")
    while deliver_next_webhook(lambda: MOMENT + timedelta(seconds=10)):
        pass
    (message,) = channel.received
    (block,) = json.loads(message.body)["blocks"]
    assert block["text"]["text"] == (
        "*train is being preempted. Save its work before it stops.*\n"
        "Deadline: in 4m50s, at 2026-11-25 10:05:00 UTC\n"
        f"<https://tidegate.example.org/jobs/{job.pk}|Open in Tidegate>"
    )

"""A request in the browser: a researcher asks, a sibling lends, an administrator approves.

The change is applied and reverted by the product's own timers, at moments of a moved clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from approvals.models import ChangeRequest
from builders.api_callers import by_session
from builders.browser_story import Story, a_story
from quotas.models import Quota
from quotas.tasks import carry_out_planned_changes
from tenants.models import Node

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    # WhiteNoise sends the pages' files so.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning"),
]
#: The moment of the story, a Wednesday, and the end of the loan on Friday.
WEDNESDAY = datetime(2026, 11, 25, 10, tzinfo=UTC)
FRIDAY = datetime(2026, 11, 27, 18, tzinfo=UTC)


@pytest.fixture(scope="module", autouse=True)
def _beside_a_browser() -> Iterator[None]:
    """Playwright keeps an event loop in this thread, where Django would refuse its database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch, settings: Any, browser: Browser) -> Iterator[Story]:
    with a_story(monkeypatch, settings, browser, WEDNESDAY) as found:
        yield found


def gpus(*nodes: Node) -> list[int]:
    found = dict(Quota.objects.values_list("node", "guaranteed_mgpu"))
    return [found[node.pk] // 1000 for node in nodes]


def test_a_researcher_gets_gpus_of_a_sibling_until_friday(story: Story) -> None:
    """Asked, offered, previewed, approved, applied and reverted by itself."""
    nlp, vision = story.company.nlp, story.company.vision
    asked = "/requests?ask=guarantee&node=ai-company/research/nlp&pool=h100&gpus=6"
    with story.seen_by("bob", asked) as page:
        dialog = page.get_by_role("dialog", name="New request")
        dialog.get_by_label("Until").fill("2026-11-27T18:00")
        dialog.get_by_label("Reason").fill("rlhf-3 waits for 14 GPUs.")
        dialog.get_by_role("button", name="Send request").click()
        expect(
            page.get_by_text("nlp +6 GPUs of h100 until 2026-11-27 18:00 UTC").first
        ).to_be_visible()
    offer = by_session(story.people["mira"]).post(
        "requests",
        {
            "kind": "loan",
            "lender": "ai-company/research/vision",
            "node": "ai-company/research/nlp",
            "pool": "h100",
            "amount": 6_000,
            "until": f"{FRIDAY:%Y-%m-%dT%H:%M:%SZ}",
            "reason": "seg-train is done.",
        },
    )
    assert offer.status_code == 201

    request = ChangeRequest.objects.get(kind="guarantee")
    with story.seen_by("dora", f"/requests?request={request.pk}") as page:
        expect(page.get_by_role("link", name=re.compile("^To decide 2$"))).to_be_visible()
        expect(page.get_by_label("GPUs from ai-company/research/vision")).to_have_value("6")
        expect(page.get_by_text("no job would be preempted")).to_be_visible()
        page.get_by_role("button", name="Approve +6 GPUs").click()
        expect(page.get_by_text("Approved. The change is made.")).to_be_visible()

    assert gpus(nlp, vision) == [14, 2]
    assert set(ChangeRequest.objects.values_list("kind", "status")) == {
        ("guarantee", "approved"),
        ("loan", "approved"),
    }
    story.clock.time = FRIDAY + timedelta(seconds=15)
    carry_out_planned_changes()
    assert gpus(nlp, vision) == [8, 8]
    with story.seen_by("bob", f"/requests?view=decided&request={request.pk}") as page:
        expect(page.get_by_text("is reverted.")).to_be_visible()

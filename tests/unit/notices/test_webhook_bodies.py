"""Messages of webhooks, as Slack, Teams and libraries of Standard Webhooks read them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from notices.webhook_bodies import body_of, secret_text, signature_headers

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DATA = {
    "event": "job_preempting",
    "sentence": "<bert> & co is being preempted.",
    "link": "/jobs/1",
    "node": "ai-company/research/nlp",
    "subject_kind": "job",
    "subject_id": "1",
    "at": "2026-11-21T12:00:00Z",
    "deadline": "2026-11-21T12:05:00Z",
}
URL = "https://tidegate.example.org"


def body(kind: str, now: datetime = NOW, **changes: object) -> Any:
    data = {**DATA, **changes}
    return json.loads(body_of(kind, "job_preempting", data, url=URL, now=now))


def test_slack_gets_the_sentence_the_countdown_and_the_link() -> None:
    """A name of a job mentions nobody. Planted: `<` is not escaped."""
    (block,) = body("slack")["blocks"]
    assert block == {
        "type": "section",
        "text": {
            "type": "mrkdwn",
            "text": "*&lt;bert&gt; &amp; co is being preempted.*\n"
            "Deadline: in 5m, at 2026-11-21 12:05:00 UTC\n"
            "<https://tidegate.example.org/jobs/1|Open in Tidegate>",
        },
    }
    assert body("slack")["text"] == "&lt;bert&gt; &amp; co is being preempted."


def test_a_deadline_that_has_passed_is_not_counted_down() -> None:
    """Planted: a negative time left."""
    (block,) = body("slack", NOW + timedelta(minutes=6))["blocks"]
    assert "Deadline: at 2026-11-21 12:05:00 UTC" in block["text"]["text"]
    (block,) = body("slack", deadline=None)["blocks"]
    assert "Deadline" not in block["text"]["text"]


def test_teams_gets_an_adaptive_card() -> None:
    message = body("teams")
    (attachment,) = message["attachments"]
    assert message["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert card["body"] == [
        {
            "type": "TextBlock",
            "text": "<bert> & co is being preempted.",
            "weight": "Bolder",
            "wrap": True,
        },
        {
            "type": "FactSet",
            "facts": [
                {"title": "Team", "value": "ai-company/research/nlp"},
                {"title": "Deadline", "value": "in 5m, at 2026-11-21 12:05:00 UTC"},
            ],
        },
    ]
    assert card["actions"] == [
        {"type": "Action.OpenUrl", "title": "Open in Tidegate", "url": f"{URL}/jobs/1"}
    ]


def test_a_signed_message_has_type_timestamp_and_data() -> None:
    assert body("signed") == {
        "type": "job_preempting",
        "timestamp": "2026-11-21T12:00:00Z",
        "data": {**DATA, "link": f"{URL}/jobs/1"},
    }


def test_signatures_are_those_of_standard_webhooks() -> None:
    """During a rotation both secrets verify. Planted: the id is unsigned."""
    new, old, other = b"n" * 32, b"o" * 32, b"x" * 32
    now = datetime.now(UTC)
    sent = body_of("signed", "job_failed", DATA, url=URL, now=now)
    headers = signature_headers("msg_1", sent, [new, old], now)
    for secret in (new, old):
        assert Webhook(secret_text(secret)).verify(sent, headers)["type"] == "job_failed"
    for wrong in ({**headers, "webhook-id": "msg_2"}, headers):
        secret = new if wrong is not headers else other
        with pytest.raises(WebhookVerificationError):
            Webhook(secret_text(secret)).verify(sent, wrong)

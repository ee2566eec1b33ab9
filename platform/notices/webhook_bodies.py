"""Messages of webhooks in the formats of Slack, Microsoft Teams and Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from notices.webhook_models import WebhookKind
from primitives.durations import duration_of_seconds

Data = Mapping[str, Any]


def body_of(kind: str, event: str, data: Data, *, url: str, now: datetime) -> bytes:
    """Return the JSON of a message. `url` is the portal's address, before the link of `data`."""
    link = f"{url}{data['link']}"
    message: dict[str, Any]
    if kind == WebhookKind.SLACK:
        message = _slack(data, link, now)
    elif kind == WebhookKind.TEAMS:
        message = _teams(data, link, now)
    else:
        message = {"type": event, "timestamp": data["at"], "data": {**data, "link": link}}
    return json.dumps(message, ensure_ascii=False).encode()


def signature_headers(
    message_id: str, body: bytes, secrets: Sequence[bytes], now: datetime
) -> dict[str, str]:
    """Return the headers of Standard Webhooks, with a signature by each secret."""
    timestamp = str(int(now.timestamp()))
    signed = b".".join([message_id.encode(), timestamp.encode(), body])
    signatures = [
        base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
        for secret in secrets
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def secret_text(secret: bytes) -> str:
    """Return a secret as libraries of Standard Webhooks take it."""
    return f"whsec_{base64.b64encode(secret).decode()}"


def _deadline(data: Data, now: datetime) -> str | None:
    """Return the time left and the moment of the deadline, or None without one."""
    if data["deadline"] is None:
        return None
    deadline = datetime.fromisoformat(data["deadline"])
    left_s = int((deadline - now).total_seconds())
    left = f"in {duration_of_seconds(left_s)}, " if left_s > 0 else ""
    return f"{left}at {deadline:%Y-%m-%d %H:%M:%S} UTC"


def _slack(data: Data, link: str, now: datetime) -> dict[str, Any]:
    lines = [f"*{_escaped(data['sentence'])}*"]
    if (deadline := _deadline(data, now)) is not None:
        lines.append(f"Deadline: {deadline}")
    lines.append(f"<{_escaped(link)}|Open in Tidegate>")
    return {
        "text": _escaped(data["sentence"]),
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "\n".join(lines)}}],
    }


def _escaped(text: str) -> str:
    """Return `text` without Slack's control characters, so that a name mentions nobody."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _teams(data: Data, link: str, now: datetime) -> dict[str, Any]:
    facts = [{"title": "Team", "value": data["node"]}] if data["node"] else []
    if (deadline := _deadline(data, now)) is not None:
        facts.append({"title": "Deadline", "value": deadline})
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": data["sentence"], "weight": "Bolder", "wrap": True},
            *([{"type": "FactSet", "facts": facts}] if facts else []),
        ],
        "actions": [{"type": "Action.OpenUrl", "title": "Open in Tidegate", "url": link}],
    }
    return {
        "type": "message",
        "attachments": [
            {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None}
            | {"content": card}
        ],
    }

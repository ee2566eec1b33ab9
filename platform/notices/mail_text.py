"""The body of a mail with notices, as text and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

from django.utils.html import format_html, format_html_join

from notices.models import Notice

#: Notices that a mail shows. It counts all others, and links to them.
SHOWN_MAX = 50
_FOOT = "Choose the events and the hours of mails"


def text_of(name: str, notices: Sequence[Notice], *, url: str, zone: ZoneInfo) -> str:
    """Return the text of a mail to the person `name`, with links below the portal's `url`."""
    parts = [f"Hello {name},"]
    for notice in notices[:SHOWN_MAX]:
        parts.append("\n".join([*_lines(notice, zone), f"{url}{notice.link}"]))
        parts += [
            f"{figure['title']}: {figure['value']}\n{url}{figure['link']}"
            for figure in notice.figures
        ]
    if len(notices) > SHOWN_MAX:
        parts.append(f"And {len(notices) - SHOWN_MAX} more: {url}/notices")
    parts.append(f"-- \n{_FOOT}: {url}/notices/preferences")
    return "\n\n".join(parts) + "\n"


def html_of(name: str, notices: Sequence[Notice], *, url: str, zone: ZoneInfo) -> str:
    """Return the same body as HTML. All figures of a notice are a table of links."""
    parts = [format_html("<p>Hello {},</p>", name)]
    for notice in notices[:SHOWN_MAX]:
        sentence, *rest = _lines(notice, zone)
        until = format_html_join("", "<br>{}", ((line,) for line in rest))
        link = f"{url}{notice.link}"
        parts.append(format_html('<p><a href="{}">{}</a>{}</p>', link, sentence, until))
        if notice.figures:
            rows = format_html_join(
                "",
                '<tr><th align="left" scope="row">{}</th>'
                '<td align="right"><a href="{}">{}</a></td></tr>',
                (
                    (figure["title"], f"{url}{figure['link']}", figure["value"])
                    for figure in notice.figures
                ),
            )
            parts.append(format_html('<table cellpadding="4">{}</table>', rows))
    if len(notices) > SHOWN_MAX:
        more = len(notices) - SHOWN_MAX
        parts.append(format_html('<p><a href="{}/notices">And {} more</a></p>', url, more))
    foot = format_html('<p><a href="{}/notices/preferences">{}</a></p>', url, _FOOT)
    return "\n".join(["<!doctype html>", *parts, "<hr>", foot]) + "\n"


def _lines(notice: Notice, zone: ZoneInfo) -> list[str]:
    """Return the sentence of a notice, and its deadline in the person's zone."""
    lines = [" ".join(notice.sentence.split())]
    if notice.deadline is not None:
        lines.append(f"Until {notice.deadline.astimezone(zone):%Y-%m-%d %H:%M %Z}")
    return lines

"""Texts that nobody should send as a parameter."""

from __future__ import annotations

#: None of them is a name, a time or a cursor of a list.
BAD_TEXTS = [
    "",
    "null",
    "0",
    "-1",
    "9" * 400,
    "1e999",
    "NaN",
    "now",
    "2026-11-01T00:00:00",
    "2026-11-01T00:00:00 01:00",
    "2026-11-01T00:00:00.5Z",
    "2026-13-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-12:00",
    "２０２６-11-01T00:00:00Z",
    "\x00",
    "a\x00b",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "../../etc/passwd",
    "%",
    "_",
    "ai-company'; DROP TABLE billing_usagesegment; --",
    "{}",
    "ai-company/" * 500,
    "\u202e",
    "=1+1",
]

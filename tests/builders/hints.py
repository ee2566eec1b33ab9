"""What open pages are told, read from the statements that tell it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

_TOLD = re.compile(r"pg_notify\('tidegate_live', '(\{.*?\})'\)")


@contextmanager
def hints_told() -> Iterator[list[dict[str, Any]]]:
    """The hints that are told meanwhile, in order; filled at the end."""
    found: list[dict[str, Any]] = []
    with CaptureQueriesContext(connection) as captured:
        yield found
    for query in captured.captured_queries:
        found += (json.loads(text) for text in _TOLD.findall(query["sql"]))

"""Confirmations of writes by programs: what was previewed is what is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from secrets import token_hex
from typing import Any

from cli.errors import CliError

#: Lifetime of a confirmation, in seconds.
VALID_S = 600
#: The most confirmations that are open at once. The oldest ends first.
OPEN_MAX = 100


class Confirmations:
    """Open confirmations. Each is valid once, for one action in the state that was shown."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._open: dict[str, tuple[str, float]] = {}

    def offer(self, action: Mapping[str, Any]) -> str:
        """Return a code that confirms `action`, a JSON object with all that was shown."""
        while len(self._open) >= OPEN_MAX:
            del self._open[next(iter(self._open))]
        code = token_hex(8)
        self._open[code] = (_digest(action), self._now_s() + VALID_S)
        return code

    def take(self, code: str, action: Mapping[str, Any]) -> None:
        """Use `code` up for `action`.

        Raises CliError for an unknown, used or expired code, and for another action or state.
        """
        digest, end_s = self._open.pop(code, ("", 0.0))
        if end_s <= self._now_s():
            raise CliError(
                "The confirmation is unknown, used or expired. Nothing was done. Call the tool "
                "without it, and show the new preview to the person."
            )
        if digest != _digest(action):
            raise CliError(
                "The confirmation belongs to other arguments, or the job changed since. Nothing "
                "was done. Call the tool without it, and show the new preview to the person."
            )


def _digest(action: Mapping[str, Any]) -> str:
    return sha256(json.dumps(action, sort_keys=True).encode()).hexdigest()

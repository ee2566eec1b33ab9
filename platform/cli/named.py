"""Finds the one item of a list that a user names by a part of its id or token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cli.errors import CliError


def by_id_end(items: Iterable[dict[str, Any]], text: str, noun: str) -> dict[str, Any]:
    """Return the item whose id ends in `text`. Raises CliError, with the plural `noun`."""
    found = [each for each in items if str(each["id"]).endswith(text)]
    if len(found) != 1:
        raise CliError(f"{len(found) or 'No'} {noun} end in {text!r}. See `list`.")
    return found[0]


def by_prefix(tokens: Iterable[Mapping[str, Any]], text: str, noun: str, see: str) -> str:
    """Return the id of the token with the prefix `text`.

    Raises CliError, with the plural `noun` and the words `see` on where tokens are listed.
    """
    found = [each["id"] for each in tokens if each["prefix"] == text]
    if len(found) != 1:
        raise CliError(f"{len(found) or 'No'} {noun} begin with {text}. See {see}")
    return str(found[0])

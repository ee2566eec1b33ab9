"""Finds organizations by their slugs."""

from __future__ import annotations

from typing import Any

from cli.api import Api
from cli.errors import CliError

_ORGANIZATIONS_MAX = 1_000


def organization_named(api: Api, slug: str | None) -> dict[str, Any]:
    """Return the organization with this slug; without one, the only visible one.

    Raises CliError unless there is exactly one.
    """
    found = list(api.items("organizations", most=_ORGANIZATIONS_MAX))
    matching = [one for one in found if slug in (None, one["slug"])]
    if len(matching) == 1:
        return matching[0]
    names = ", ".join(str(one["slug"]) for one in found[:10]) or "none"
    if slug is None:
        raise CliError(f"Choose an organization with --organization: {names}.")
    raise CliError(f"There is no organization {slug[:63]!r}. Known: {names}.")

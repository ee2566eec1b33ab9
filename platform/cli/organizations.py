"""Finds organizations by their slugs, and their time zones."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

from cli.api import Api
from cli.errors import CliError
from cli.moments import zone_named

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


def zone_over(api: Api, node: str) -> ZoneInfo:
    """Return the time zone of the organization of a node.

    A short path is of the only visible organization. Raises CliError where there are several.
    """
    found = list(api.items("organizations", most=_ORGANIZATIONS_MAX))
    slug = node.partition("/")[0]
    matching = [one for one in found if one["slug"] == slug] or found
    if len(matching) != 1:
        raise CliError(f"Write the whole path of {node[:100]}, with its organization.")
    return zone_named(api.get(f"organizations/{matching[0]['id']}/policy")["time_zone"])

"""Rules for names, slugs, usernames and time zones."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from zoneinfo import available_timezones

from primitives.errors import FieldError, InvalidRequest

NAME_LENGTH_MAX = 200
SLUG_LENGTH_MAX = 63
TIME_ZONE_LENGTH_MAX = 64
TIME_ZONE_HELP = "IANA name such as Europe/Berlin. Later, billing periods will follow it"
SLUG_PATTERN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
USERNAME_PATTERN = r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?"
_SLUG = re.compile(SLUG_PATTERN)
_USERNAME = re.compile(USERNAME_PATTERN)
#: Control, format (right-to-left overrides, zero width), surrogate, private, unassigned, and line
#: and paragraph separators: characters that hide or reorder other text.
_UNPRINTED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean_name(text: str, *, field: str = "name", length_max: int = NAME_LENGTH_MAX) -> str:
    """Return `text` in Unicode form NFKC without outer spaces, for people to read.

    Raises InvalidRequest for an empty or too long name and for invisible characters.
    """
    if len(text) > length_max:
        raise _refusal(field, f"must have at most {length_max} characters")
    normal = unicodedata.normalize("NFKC", text)
    name = normal.strip()
    if not name:
        raise _refusal(field, "must not be empty")
    if len(name) > length_max:
        raise _refusal(field, f"must have at most {length_max} characters in Unicode form NFKC")
    for character in normal:
        if unicodedata.category(character) in _UNPRINTED:
            raise _refusal(
                field, f"must not contain control or invisible characters (U+{ord(character):04X})"
            )
    return name


def check_slug(text: str, *, field: str = "slug") -> str:
    """Return `text`. Raises InvalidRequest unless it can be a step of a path."""
    if len(text) > SLUG_LENGTH_MAX or not _SLUG.fullmatch(text):
        raise _refusal(
            field,
            f"must be 1 to {SLUG_LENGTH_MAX} of a-z, 0-9 and -, with a letter or digit at both "
            "ends",
        )
    return text


def check_username(text: str, *, field: str = "username") -> str:
    """Return `text`. Raises InvalidRequest unless it can be a username."""
    if len(text) > SLUG_LENGTH_MAX or not _USERNAME.fullmatch(text):
        raise _refusal(
            field,
            f"must be 1 to {SLUG_LENGTH_MAX} of a-z, 0-9, '.', '_' and -, with a letter or digit "
            "at both ends",
        )
    return text


def slug_of(name: str) -> str:
    """Return a slug made from `name`: "Rival Lab" is `rival-lab`. It may be empty."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:SLUG_LENGTH_MAX].rstrip("-")


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones())


def check_time_zone(text: str, *, field: str = "time_zone") -> str:
    """Return `text`. Raises InvalidRequest unless it is the IANA name of a time zone."""
    if text not in _time_zones():
        raise _refusal(field, "must be an IANA name of a time zone, such as Europe/Berlin")
    return text


def _refusal(field: str, detail: str) -> InvalidRequest:
    return InvalidRequest(f"{field} {detail}.", errors=[FieldError(f"/{field}", detail)])

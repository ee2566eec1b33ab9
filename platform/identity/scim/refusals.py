"""Refusals of SCIM requests with the words of the protocol."""

from __future__ import annotations

from primitives.errors import Conflict, FieldError, PreconditionFailed
from webapi.preconditions import etag_of

#: The code of a field whose value another resource has.
TAKEN = "taken"


def taken(attribute: str, sentence: str) -> Conflict:
    """Return the refusal of a value that another resource has: `uniqueness` at SCIM."""
    return Conflict(sentence, errors=[FieldError(f"/{attribute}", sentence, TAKEN)])


def refuse_stale_etag(etag: str | None, version: int) -> None:
    """Raise PreconditionFailed unless `etag` is absent, `*`, or that of the version."""
    if etag is not None and etag.strip() not in {"*", etag_of(version)}:
        raise PreconditionFailed(
            f"This is now version {etag_of(version)}. Read it, and send your change again."
        )

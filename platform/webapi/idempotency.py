"""Idempotency-Key: a request with the same key and body has one effect and one answer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from primitives.errors import FieldError, IdempotencyKeyReused, InvalidRequest
from webapi.models import IdempotentAnswer
from webapi.statements import prepared_cursor

KEPT_FOR = timedelta(hours=48)
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def idempotency_key(request: Request) -> str | None:
    """Return the request's `Idempotency-Key`, or None.

    Raises InvalidRequest for a key that is not 1 to 255 printable ASCII characters.
    """
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidRequest(
            "Idempotency-Key must be 1 to 255 printable ASCII characters without spaces.",
            errors=[FieldError("/Idempotency-Key", "is not a usable key")],
        )
    return key


def fingerprint_of(request: Request) -> bytes:
    """Return the SHA-256 of the method, the path with query, and the body's bytes."""
    digest = hashlib.sha256()
    for part in (request.method or "", request.get_full_path()):
        digest.update(part.encode() + b"\0")
    digest.update(request._request.body)
    return digest.digest()


@transaction.atomic
def answer_once(
    *,
    principal_id: UUID,
    key: str | None,
    fingerprint: bytes,
    now: datetime,
    act: Callable[[], tuple[int, dict[str, Any]]],
) -> tuple[int, dict[str, Any], bool]:
    """Run `act` once per (principal, key), and return its answer for every repeat.

    Returns status, body, and whether this is a repeat. `act` runs in this transaction, so its
    effects and the stored answer are committed together. An exception stores nothing, so the
    request may be tried again. Parallel equal requests wait for the first. Raises
    IdempotencyKeyReused when the key came before with another fingerprint.
    """
    if key is None:
        return (*act(), False)
    lock = int.from_bytes(
        hashlib.sha256(f"{principal_id}/{key}".encode()).digest()[:8], "big", signed=True
    )
    with prepared_cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [lock])
        # A separate statement, because it must see the commit for which the lock waited.
        cursor.execute(_EARLIER, [principal_id, key])
        earlier = cursor.fetchone()
    if earlier is not None:
        sent, status, text = earlier
        if bytes(sent) != fingerprint:
            raise IdempotencyKeyReused(
                "This Idempotency-Key came before with another request. Use a new key for a "
                "new request."
            )
        return status, json.loads(text), True
    status, body = act()
    with prepared_cursor() as cursor:
        cursor.execute(_KEEP, [principal_id, key, fingerprint, status, json.dumps(body), now])
    return status, body, False


_EARLIER = """
SELECT fingerprint, status, body::text FROM webapi_idempotentanswer
WHERE principal_id = %s::uuid AND key = %s::text
"""
_KEEP = """
INSERT INTO webapi_idempotentanswer (principal_id, key, fingerprint, status, body, created_at)
VALUES (%s::uuid, %s::text, %s::bytea, %s::int, %s::jsonb, %s::timestamptz)
"""


def respond_once(
    request: Request,
    *,
    principal_id: UUID,
    now: datetime,
    act: Callable[[], tuple[int, dict[str, Any]]],
) -> Response:
    """Return the response to a POST by `answer_once`. A repeat has `Idempotency-Replayed: true`."""
    status, body, is_replay = answer_once(
        principal_id=principal_id,
        key=idempotency_key(request),
        fingerprint=fingerprint_of(request),
        now=now,
        act=act,
    )
    return Response(
        body, status=status, headers={"Idempotency-Replayed": "true"} if is_replay else None
    )


def was_answered(request: Request, *, principal_id: UUID) -> bool:
    """Return whether a request with the same `Idempotency-Key` has a stored answer."""
    key = idempotency_key(request)
    if key is None:
        return False
    with prepared_cursor() as cursor:
        cursor.execute(_EARLIER, [principal_id, key])
        return cursor.fetchone() is not None


def forget_old_answers(*, now: datetime, limit: int = 10_000) -> int:
    """Delete at most `limit` answers older than 48 hours, and return how many."""
    old = IdempotentAnswer.objects.filter(created_at__lt=now - KEPT_FOR).values("pk")[:limit]
    deleted, _ = IdempotentAnswer.objects.filter(
        pk__in=list(old.values_list("pk", flat=True))
    ).delete()
    return deleted

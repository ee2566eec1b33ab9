"""The limit of the requests of each person in a minute, over all web processes.

Valkey holds the counts. While it does not answer, nobody is limited: people can work without it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

import redis
from django.conf import settings
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from redis.backoff import NoBackoff
from redis.retry import Retry
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from primitives.clock import SystemClock
from primitives.errors import TooManyRequests

if TYPE_CHECKING:
    # That module imports this one.
    from rest_framework.views import APIView

log = logging.getLogger(__name__)

WINDOW_S = 60
#: Time limit for Valkey, and the pause before it is asked again.
_VALKEY_TIMEOUT_S = 0.25
_PAUSE_S = 5.0
#: The name of the limit in the headers.
_NAME = '"person"'


@dataclass(frozen=True, slots=True)
class Use:
    """The state of a person's limit after a request."""

    limit: int
    left: int
    resets_in_s: int


_use: ContextVar[Use | None] = ContextVar("request_limit", default=None)


class Counters:
    """Counts in Valkey, each of one minute."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(
            url,
            socket_timeout=_VALKEY_TIMEOUT_S,
            socket_connect_timeout=_VALKEY_TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._paused_until_s = 0.0

    def add(self, name: str) -> int | None:
        """Add 1 to the count `name`, and return it; None while Valkey does not answer."""
        if time.monotonic() < self._paused_until_s:
            return None
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                pipeline.incr(name)
                pipeline.expire(name, 2 * WINDOW_S)
                count, _ = pipeline.execute()
        except redis.RedisError as error:
            self._paused_until_s = time.monotonic() + _PAUSE_S
            log.warning("requests are not counted: Valkey does not answer (%s)", error)
            return None
        return int(count)


@cache
def counters() -> Counters:
    """Return the counts that all requests of this process share."""
    return Counters(settings.VALKEY_URL)


class RequestLimit(BaseThrottle):
    """Counts the requests of each person. All tokens and sessions of a person share the limit."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Return True. Raises TooManyRequests above TIDEGATE_REQUESTS_PER_MINUTE."""
        limit: int = settings.REQUESTS_PER_MINUTE
        counted = self.counted(request) if limit else None
        if counted is None:
            return True
        window, elapsed_s = divmod(int(SystemClock().now().timestamp()), WINDOW_S)
        count = counters().add(f"tidegate:requests:{counted}:{window}")
        if count is None:
            return True
        use = Use(limit, max(0, limit - count), WINDOW_S - elapsed_s)
        _use.set(use)
        if count > limit:
            raise TooManyRequests(
                f"You may send {limit:,} requests a minute. Wait {use.resets_in_s} s, and ask less "
                "often or for larger pages.",
                retry_after_s=use.resets_in_s,
            )
        return True

    def counted(self, request: Request) -> UUID | None:
        """Return the id of the person whose requests are counted; None: the request is not."""
        # A running job that reports its checkpoints is no person.
        return request.user.pk if isinstance(request.user, get_user_model()) else None


class RequestLimitMiddleware:
    """Adds the headers RateLimit-Policy and RateLimit to answers of counted requests.

    Their form is that of draft-ietf-httpapi-ratelimit-headers-10.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        _use.set(None)
        response = self.get_response(request)
        use = _use.get()
        if use is not None:
            response["RateLimit-Policy"] = f"{_NAME};q={use.limit};w={WINDOW_S}"
            response["RateLimit"] = f"{_NAME};r={use.left};t={use.resets_in_s}"
        return response

"""How the web processes come back after the database was away."""

from __future__ import annotations

from django.conf import settings


def test_a_pool_tries_again_no_later_than_a_request_gives_up() -> None:
    """While a pool pauses between tries it starts no other, and its pauses double up to its
    `reconnect_timeout`, five minutes if nobody says: a disk was full for two minutes, and a web
    process answered 503 for another minute while the database was long back."""
    pool = settings.DATABASES["default"]["OPTIONS"]["pool"]
    assert pool["reconnect_timeout"] == 5
    assert pool["reconnect_timeout"] < pool["timeout"]

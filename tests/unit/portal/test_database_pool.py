"""Connections to a database that was away are usable again as soon as it is back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from portal.database import pool as module
from portal.database.pool import NoConnectionFree, Pool


class AConnection:
    """Answers until its server dies."""

    def __init__(self, server: AServer) -> None:
        self.server = server
        self.is_alive = True
        self.is_closed = False
        self.autocommit = True
        self.pgconn = SimpleNamespace(transaction_status=TransactionStatus.IDLE)

    def execute(self, statement: str) -> None:
        self.server.asked += 1
        if not self.is_alive:
            raise psycopg.OperationalError("terminating connection")

    def rollback(self) -> None:
        if not self.is_alive:
            self.pgconn.transaction_status = TransactionStatus.UNKNOWN
            raise psycopg.OperationalError("the connection is lost")
        self.pgconn.transaction_status = TransactionStatus.IDLE

    def close(self) -> None:
        self.is_closed = True


class AServer:
    """Gives connections unless it is away; counts those that are asked whether they live."""

    def __init__(self) -> None:
        self.made: list[AConnection] = []
        self.is_away = False
        self.asked = 0

    def connect(self) -> Any:
        if self.is_away:
            raise psycopg.OperationalError("connection refused")
        self.made.append(AConnection(self))
        return self.made[-1]

    def die(self) -> None:
        for one in self.made:
            one.is_alive = False


@pytest.fixture
def server() -> AServer:
    return AServer()


@pytest.fixture
def pool(server: AServer) -> Pool:
    return Pool(server.connect, max_size=3, timeout=0)


def test_a_connection_is_used_again(server: AServer, pool: Pool) -> None:
    for _ in range(5):
        pool.putconn(pool.getconn())
    assert (len(server.made), server.asked) == (1, 4)


def test_dead_connections_are_dropped_together(server: AServer, pool: Pool) -> None:
    """Mutant: each idle connection of a server that had died was tried by itself. With the pauses
    of psycopg's pool between the tries a thread waited 10 s for a server that was long back."""
    for one in [pool.getconn() for _ in range(3)]:
        pool.putconn(one)
    server.die()
    assert pool.getconn() is server.made[3]
    assert server.asked == 1
    assert [one.is_closed for one in server.made] == [True, True, True, False]


def test_a_server_that_is_away_is_refused_at_once_and_takes_no_place(
    server: AServer, pool: Pool
) -> None:
    """Mutant: the place of a failed try was lost, and after three of them the pool was full."""
    server.is_away = True
    for _ in range(5):
        with pytest.raises(psycopg.OperationalError, match="refused"):
            pool.getconn()
    server.is_away = False
    assert pool.getconn() is server.made[0]


def test_no_more_connections_than_the_pool_may_have(server: AServer, pool: Pool) -> None:
    used = [pool.getconn() for _ in range(3)]
    with pytest.raises(NoConnectionFree, match=r"^All 3 connections were in use for 0 s\.$"):
        pool.getconn()
    pool.putconn(used.pop())
    assert pool.getconn() is server.made[2]


def test_a_connection_that_broke_in_use_gives_its_place_back(server: AServer, pool: Pool) -> None:
    used = [pool.getconn() for _ in range(3)]
    server.die()
    for one in used:
        pool.putconn(one)
    assert all(one.is_closed for one in server.made)
    assert pool.getconn() is server.made[3]


def test_an_open_transaction_is_rolled_back(server: AServer, pool: Pool) -> None:
    """Mutant: the next user found a transaction of another, and could not set autocommit."""
    used: Any = pool.getconn()
    used.autocommit = False
    used.pgconn.transaction_status = TransactionStatus.INERROR
    pool.putconn(used)
    assert pool.getconn() is used
    assert (used.autocommit, used.pgconn.transaction_status) == (True, TransactionStatus.IDLE)


def test_old_and_unused_connections_are_closed(
    server: AServer, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    first, second = pool.getconn(), pool.getconn()
    pool.putconn(first)
    now += module.IDLE_S
    pool.putconn(second)
    assert [one.is_closed for one in server.made] == [True, False]
    now += module.LIFETIME_S - module.IDLE_S
    pool.putconn(pool.getconn())
    assert server.made[1].is_closed


def test_what_is_in_use_when_a_pool_is_closed_is_closed_as_it_comes_back(
    server: AServer, pool: Pool
) -> None:
    used, idle = pool.getconn(), pool.getconn()
    pool.putconn(idle)
    pool.close()
    assert [one.is_closed for one in server.made] == [False, True]
    pool.putconn(used)
    assert server.made[0].is_closed

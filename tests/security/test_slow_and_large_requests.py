"""Slow clients, endless bodies and crowds of connections, on the server of production."""

from __future__ import annotations

import re
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from websockets.sync.client import connect

from builders.api_callers import a_token, by_session
from builders.bounded_server import BoundedServer, RawClient, a_bounded_server
from builders.portal_builders import NOW, a_company, a_user
from portal import connections, serving
from tenants.models import User
from tenants.tokens import new_secret

pytestmark = pytest.mark.django_db(transaction=True)

SMALL = serving.UNKNOWN_BODY_BYTES_MAX
LARGE = serving.BODY_BYTES_MAX
JSON = "Content-Type: application/json"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[BoundedServer]:
    from portal.routing import build_application

    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    with a_bounded_server(build_application()) as found:
        yield found


@pytest.fixture
def bob() -> User:
    return a_user(a_company().organization, "bob")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of bodies that were kept, one number for each part."""
    sizes: list[int] = []

    class Counting(SpooledTemporaryFile[bytes]):
        def write(self, part: Any) -> int:
            sizes.append(len(part))
            return super().write(part)

    monkeypatch.setattr(serving, "SpooledTemporaryFile", Counting)
    return sizes


def flood(client: RawClient, chunks: int, size: int = 16 * 1024) -> None:
    """Send a body in chunks, until all are sent or the server hangs up."""
    chunk = b"%x\r\n%s\r\n" % (size, b"x" * size)
    try:
        for _ in range(chunks):
            client.send(chunk)
        client.send(b"0\r\n\r\n")
    except ConnectionError:
        pass


def test_a_declared_size_is_refused_before_a_byte_is_read(
    server: BoundedServer, kept: list[int]
) -> None:
    """Planted and seen to die: the size is looked at once the body is there."""
    refused = server.client().begin(f"Content-Length: {300 * 2**20}").answer()
    assert refused.status == 413
    assert refused.problem()["detail"].startswith("A request may have 4,194,304 bytes.")
    refused = server.client().begin(f"Content-Length: {SMALL + 1}").answer()
    assert (refused.status, refused.problem()["detail"]) == (
        413,
        "A request of somebody who is not signed in may have 65,536 bytes. Sign in, or send a "
        "valid access token.",
    )
    assert kept == []


def test_a_body_in_chunks_is_refused_at_the_bound(server: BoundedServer, kept: list[int]) -> None:
    """Planted and seen to die: only the header is looked at."""
    client = server.client().begin("Transfer-Encoding: chunked", JSON)
    flood(client, 8)
    assert client.answer().status == 413
    assert sum(kept) <= SMALL


def test_who_is_known_may_send_more_and_not_without_bound(
    server: BoundedServer, bob: User, kept: list[int]
) -> None:
    _, secret = a_token(bob)
    bearer = f"Authorization: Bearer {secret}"
    large = server.client().begin(bearer, JSON, f"Content-Length: {LARGE}")
    assert large.send(b"x" * LARGE).answer().status == 400
    assert sum(kept) == LARGE
    chunked = server.client().begin(bearer, JSON, "Transfer-Encoding: chunked")
    flood(chunked, 8)
    assert chunked.answer().status == 400
    browser = by_session(bob).client.cookies[django_settings.SESSION_COOKIE_NAME].value
    for known in (bearer, f"Cookie: session={browser}"):
        declared = server.client().begin(known, f"Content-Length: {SMALL + 1}", JSON)
        assert declared.send(b"x" * (SMALL + 1)).answer().status in {400, 403}
        too_large = server.client().begin(known, f"Content-Length: {LARGE + 1}").answer()
        assert too_large.status == 413
    kept.clear()
    endless = server.client().begin(bearer, JSON, "Transfer-Encoding: chunked")
    flood(endless, LARGE // (16 * 1024) + 8)
    assert endless.answer().status == 413
    assert sum(kept) <= LARGE


def test_made_up_revoked_and_expired_credentials_are_nobodys(
    server: BoundedServer, bob: User
) -> None:
    """Planted and seen to die: whoever sends some token is known."""
    for credential in (
        f"Authorization: Bearer {new_secret()}",
        f"Authorization: Bearer {a_token(bob, revoked_at=NOW)[1]}",
        "Authorization: Bearer nothing",
        "Cookie: session=abcdefghijklmnopqrstuvwxyz012345",
    ):
        declared = server.client().begin(credential, f"Content-Length: {SMALL + 1}")
        assert declared.answer().status == 413


def test_a_refused_body_is_thrown_away_and_the_connection_lives(server: BoundedServer) -> None:
    client = server.client().begin(f"Content-Length: {SMALL + 1}")
    assert client.answer().status == 413
    client.send(b"x" * (SMALL + 1))
    assert client.ask().answer().status == 200


def test_a_refused_body_without_end_ends_the_connection(
    server: BoundedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "DISCARDED_BYTES_MAX", 128 * 1024)
    client = server.client().begin("Transfer-Encoding: chunked")
    flood(client, 4096)
    assert client.rest()[:12] in {b"", b"HTTP/1.1 413"}


@pytest.mark.parametrize(
    "begun",
    [
        "GET /healthz HT",
        "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        "POST /api/v1/session HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345",
        "POST /api/v1/session HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_a_slow_request_is_told_so_and_ends(
    server: BoundedServer, monkeypatch: pytest.MonkeyPatch, begun: str
) -> None:
    """Planted and seen to die: only the headers have a time limit."""
    monkeypatch.setattr(connections, "REQUEST_S", 0.2)
    client = server.client().send(begun)
    late = client.answer()
    assert (late.status, late.problem()["code"]) == (408, "too_slow")
    assert late.problem()["detail"].startswith("Headers and body must arrive within")
    assert client.rest() == b""


def test_one_byte_at_a_time_prolongs_nothing(
    server: BoundedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted and seen to die: each byte begins the time anew."""
    monkeypatch.setattr(connections, "REQUEST_S", 0.2)
    client = server.client().send("GET /healthz HTTP/1.1\r\nX-Slow: ")
    client.connection.settimeout(0.01)
    received = b""
    for _ in range(2000):
        try:
            client.send(b"x")
            received = client.connection.recv(12)
            break
        except TimeoutError:
            continue
    assert received == b"HTTP/1.1 408"


def test_a_connection_that_never_asks_ends_without_a_word(
    server: BoundedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.2)
    assert server.client().rest() == b""


def test_the_next_request_has_its_own_time(server: BoundedServer) -> None:
    client = server.client()
    for _ in range(3):
        assert client.ask().answer().status == 200
    client.send("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2)
    assert [client.answer().status for _ in range(2)] == [200, 200]
    assert len(connections.WAITING._pools) == 1


@pytest.mark.parametrize(
    "head",
    [
        "GET /healthz HTTP/1.1\r\nX-Long: " + "x" * 40_000,
        "GET /healthz HTTP/1.1\r\n" + "X-Many: x\r\n" * 5_000 + "X-Last: x",
        "GET /" + "x" * 40_000 + " HTTP/1.1",
    ],
)
@pytest.mark.parametrize("end", ["\r\n\r\n", "\r\nX-Last: x\r\n"])
def test_headers_are_bounded(server: BoundedServer, head: str, end: str) -> None:
    client = server.client().send(head + end)
    refused = client.answer()
    assert (refused.status, refused.problem()["code"]) == (431, "headers_too_large")
    assert client.rest() == b""


def test_a_crowd_of_one_source_crowds_out_itself(
    server: BoundedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted and seen to die: the newest connection is refused."""
    monkeypatch.setattr(connections, "SOURCE_MAX", 3)
    slow = [server.client().send("GET /") for _ in range(3)]
    assert server.client().ask().answer().status == 200
    crowded_out = slow[0].answer()
    assert (crowded_out.status, crowded_out.problem()["code"]) == (503, "unavailable")
    assert slow[2].send("healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").answer().status == 200


def test_all_sources_together_are_bounded_and_the_largest_gives_way() -> None:
    """Planted and seen to die: the source that came first does."""
    waiting = connections.WaitingConnections()
    closed: list[str] = []

    class Waiting:
        is_known, pool_max = False, 1000

        def __init__(self, owner: str, number: int) -> None:
            self.owner, self.name = owner, f"{owner} {number}"

        def crowd_out(self) -> None:
            closed.append(self.name)

    waiting.add(Waiting("first", 0))  # type: ignore[arg-type]
    for number in range(connections.UNKNOWN_MAX + 1):
        waiting.add(Waiting("crowd", number))  # type: ignore[arg-type]
    assert closed == ["crowd 0", "crowd 1"]


def test_the_connections_of_a_person_are_not_crowded_out(
    server: BoundedServer, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted and seen to die: the connection stays its source's."""
    monkeypatch.setattr(connections, "SOURCE_MAX", 2)
    bearer = f"Authorization: Bearer {a_token(bob)[1]}"
    person = server.client()
    assert person.ask("/api/v1/session", bearer).answer().status == 200
    slow = [server.client().send("GET /") for _ in range(4)]
    assert slow[0].answer().status == 503
    assert slow[1].answer().status == 503
    assert person.ask("/api/v1/session", bearer).answer().status == 200


def test_the_connections_of_a_person_are_bounded_too(
    server: BoundedServer, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PERSON_MAX", 2)
    bearer = f"Authorization: Bearer {a_token(bob)[1]}"
    clients = [server.client() for _ in range(3)]
    for client in clients:
        assert client.ask("/api/v1/session", bearer).answer().status == 200
    assert clients[0].rest() == b""
    assert clients[2].ask("/api/v1/session", bearer).answer().status == 200


def test_slow_bodies_take_no_place_of_those_who_are_answered(
    server: BoundedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted and seen to die: a request counts as in hand while it is read."""
    monkeypatch.setattr(serving, "IN_HAND_MAX", 2)
    for _ in range(4):
        server.client().begin("Content-Length: 100").send(b"12345")
    assert server.client().ask().answer().status == 200


def test_a_reader_who_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 0.2)
    size = 64 * 2**20

    async def large(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", str(size).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x" * size})

    with a_bounded_server(large) as server:
        client = server.client().ask()
        # The first line wakes whoever waits for it; then nothing is read until the server ends it.
        assert client.connection.recv(12) == b"HTTP/1.1 200"
        eventually_closed(client)


def eventually_closed(client: RawClient) -> None:
    """Send until the server has hung up: it reads requests, but nobody reads its answers."""
    with pytest.raises(ConnectionError):
        flood_without_end(client)


def flood_without_end(client: RawClient) -> None:
    while True:
        client.send(b"x" * 65536)


def test_a_web_socket_outlives_the_time_of_requests(
    server: BoundedServer, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a connection that answered a request before. Planted and seen to die: the time limit
    of its request goes on."""
    monkeypatch.setattr(connections, "REQUEST_S", 0.2)
    kept = server.client()
    assert kept.ask().answer().status == 200
    key = by_session(bob).client.cookies[django_settings.SESSION_COOKIE_NAME].value
    with connect(
        f"ws://127.0.0.1:{server.port}/ws/changes",
        sock=kept.connection.dup(),
        origin="http://127.0.0.1",  # type: ignore[arg-type]
        additional_headers={"Cookie": f"session={key}"},
        proxy=None,
    ) as socket:
        assert server.client().send("GET /").answer().status == 408
        assert socket.ping().wait(30)


def test_the_bounds_are_those_of_the_running_product() -> None:
    """The server that `make up` starts has them; its workers share nothing else."""
    from embedded.services import web_command

    command = " ".join(web_command(8000))
    assert re.search(r"--http portal\.connections:BoundedProtocol\b", command)
    assert (connections.REQUEST_S, SMALL, LARGE) == (15.0, 65_536, 4_194_304)

"""X-Forwarded-For counts only from proxies that the operator listed."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from embedded.services import web_command
from portal.client_addresses import ClientAddresses
from portal.settings import BadSetting, _networks
from primitives.addresses import network_of


def seen(
    trusted: list[str], peer: str | None, *forwarded: str, kind: str = "http"
) -> tuple[str, int] | None:
    """The client that the application is told."""
    scope: dict[str, Any] = {
        "type": kind,
        "scheme": "http" if kind == "http" else "ws",
        "client": None if peer is None else (peer, 1234),
        "headers": [(b"x-forwarded-for", one.encode()) for one in forwarded],
    }
    found: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        found.append(scope["client"])

    asyncio.run(ClientAddresses(application, trusted)(scope, None, None))
    return None if found[0] is None else tuple(found[0])


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "10.0.0.1", "203.0.113.9"])
def test_nobody_is_trusted_by_default(peer: str, kind: str) -> None:
    """Planted and seen to die: this machine is."""
    assert seen([], peer, "192.0.2.1", kind=kind) == (peer, 1234)


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", ("192.0.2.1",), "192.0.2.1"),
        ("10.0.0.1", ("198.51.100.1, 192.0.2.1",), "192.0.2.1"),
        ("10.0.0.1", ("198.51.100.1", "192.0.2.1, 10.0.0.7"), "192.0.2.1"),
        ("10.0.1.1", ("192.0.2.1",), "10.0.1.1"),
        ("10.0.0.1", (), "10.0.0.1"),
        (None, ("192.0.2.1",), None),
    ],
)
def test_the_last_address_that_is_no_proxys_counts(
    peer: str | None, forwarded: tuple[str, ...], client: str | None
) -> None:
    found = seen(["10.0.0.0/24"], peer, *forwarded)
    assert (None if found is None else found[0]) == client


def test_a_header_that_is_ignored_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        pass

    addresses = ClientAddresses(application, [])
    scope = {
        "type": "http",
        "client": ("10.9.8.7", 1),
        "headers": [(b"x-forwarded-for", b"192.0.2.1")],
    }
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            asyncio.run(addresses(scope, None, None))
    assert [record.getMessage() for record in caplog.records] == [
        "X-Forwarded-For from 10.9.8.7 is ignored: if that is your proxy, put it into "
        "TIDEGATE_TRUSTED_PROXIES."
    ]


def test_the_server_itself_believes_no_header() -> None:
    """Planted and seen to die: uvicorn's own default trusts this machine."""
    assert "--no-proxy-headers" in web_command(8000)


def test_the_setting_is_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_TRUSTED_PROXIES", raising=False)
    assert _networks("TIDEGATE_TRUSTED_PROXIES") == []
    monkeypatch.setenv("TIDEGATE_TRUSTED_PROXIES", "10.0.0.1, 10.1.0.0/16,fd00::/8")
    assert _networks("TIDEGATE_TRUSTED_PROXIES") == ["10.0.0.1/32", "10.1.0.0/16", "fd00::/8"]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("*", "must hold addresses or networks like 10.0.0.0/24, not '*'."),
        ("proxy.example", "must hold addresses or networks like"),
        ("10.0.0.1/8", "must hold addresses or networks like"),
        ("0.0.0.0/0", "must not hold all addresses (0.0.0.0/0); name those that are needed."),
        ("::/0", "must not hold all addresses (::/0)"),
    ],
)
def test_other_settings_stop_the_start(
    monkeypatch: pytest.MonkeyPatch, value: str, sentence: str
) -> None:
    monkeypatch.setenv("TIDEGATE_TRUSTED_PROXIES", value)
    with pytest.raises(BadSetting, match="TIDEGATE_TRUSTED_PROXIES") as refused:
        _networks("TIDEGATE_TRUSTED_PROXIES")
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("unix:", "unix:"),
    ],
)
def test_what_counts_as_one_source(address: str, network: str) -> None:
    assert network_of(address) == network

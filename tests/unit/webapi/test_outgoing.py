"""Requests to addresses that users name reach public servers only, or those of the operator."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.hook_server import HookServer, a_dripping_server, a_hook_server, self_signed
from webapi import outgoing
from webapi.outgoing import (
    ANSWER_BYTES_MAX,
    NoAnswer,
    UnsafeAddress,
    check_url,
    is_public,
    post,
    resolve,
)

LOOPBACK = ["127.0.0.0/8"]


@pytest.fixture
def hooks() -> Iterator[HookServer]:
    with a_hook_server() as found:
        yield found


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        # The address at which clouds tell a machine its credentials.
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "192.88.99.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "2606:4700:4700::1111%eth0",
        "fc00::1",
        "ff02::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:7f00:1::",
        "2001:db8::1",
    ],
)
def test_addresses_inside_or_of_tunnels_are_not_public(address: str) -> None:
    """Planted: `is_global` alone, which takes NAT64, 6to4, their relays and multicast."""
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "100.63.0.1", "2606:4700:4700::1111"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://hooks.example.org/", "https:// and a host"),
        ("ftp://hooks.example.org/", "https:// and a host"),
        ("https:///path", "https:// and a host"),
        ("https://user:pw@hooks.example.org/", "no user, password or fragment"),
        ("https://hooks.example.org/#x", "no user, password or fragment"),
        ("https://hooks.example.org:22/", "must be 443 or 8443"),
        ("https://hooks.example.org:99999/", "is no URL"),
        ("https://[::1/", "is no URL"),
        ("https://hooks.example.org/a b", "ASCII without spaces"),
        ("https://hooks.example.org/\r\nHost: x", "ASCII without spaces"),
        ("https://hooks.example.org/" + "x" * 500, "at most 500 characters"),
    ],
)
def test_other_urls_are_refused_before_anything_is_resolved(url: str, sentence: str) -> None:
    with pytest.raises(UnsafeAddress, match=sentence):
        check_url(url, [])


def test_the_operator_may_allow_plain_http_in_own_networks() -> None:
    assert check_url("http://chat.internal:8065/hook", LOOPBACK).port == 8065


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "localhost"])
def test_every_spelling_of_this_machine_is_refused(hooks: HookServer, host: str) -> None:
    """The resolver reads them all as loopback. Against: the text of the host is checked."""
    url = f"https://{host}:8443/hook"
    with pytest.raises(UnsafeAddress, match="which is not public"):
        post(url, b"{}", {}, networks=[])
    assert hooks.received == []


def test_one_private_address_of_several_is_enough_to_refuse() -> None:
    """Planted: only the first address is checked."""
    with pytest.raises(UnsafeAddress, match=r"10\.0\.0\.7, which is not public"):
        post(
            "https://both.example.org/",
            b"{}",
            {},
            networks=LOOPBACK,
            find=lambda host, port: ["8.8.8.8", "10.0.0.7"],
        )


def test_a_public_host_is_called_by_https_even_with_networks_of_the_operator() -> None:
    """Planted: networks of the operator allow plain HTTP everywhere."""
    with pytest.raises(UnsafeAddress, match="is public: use https://"):
        post(
            "http://hooks.example.org/",
            b"{}",
            {},
            networks=LOOPBACK,
            find=lambda host, port: ["8.8.8.8"],
        )


def test_a_checked_address_is_called_and_not_resolved_again(hooks: HookServer) -> None:
    """The name exists nowhere, so a second resolution would fail: DNS rebinding gains nothing.

    Planted: the connection goes to the name.
    """
    asked = []

    def find(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    url = f"http://rebinding.invalid:{hooks.port}/hook?team=nlp"
    answer = post(url, b'{"a": 1}', {"X-Own": "1"}, networks=LOOPBACK, find=find)
    assert (answer.status, answer.body) == (200, b"ok")
    (request,) = hooks.received
    assert (request.path, request.body, asked) == (
        "/hook?team=nlp",
        b'{"a": 1}',
        ["rebinding.invalid"],
    )
    assert request.headers["host"] == f"rebinding.invalid:{hooks.port}"
    assert request.headers["x-own"] == "1"


def test_redirects_are_not_followed(hooks: HookServer) -> None:
    """Against: a public server that redirects to the metadata of a cloud."""
    hooks.status, hooks.location = 302, f"{hooks.url}/elsewhere"
    assert post(hooks.url, b"{}", {}, networks=LOOPBACK).status == 302
    assert [request.path for request in hooks.received] == ["/hook"]


def test_a_long_answer_is_cut(hooks: HookServer) -> None:
    hooks.answer = b"x" * (ANSWER_BYTES_MAX + 1)
    assert len(post(hooks.url, b"{}", {}, networks=LOOPBACK).body) == ANSWER_BYTES_MAX


def test_a_server_that_drips_is_left_in_time(hooks: HookServer) -> None:
    """Planted: no watchdog; the test then hangs."""
    hooks.drips_until = threading.Event()
    with pytest.raises(NoAnswer, match=r"No answer within 0\.3 s"):
        post(hooks.url, b"{}", {}, networks=LOOPBACK, answer_within_s=0.3)


@pytest.mark.parametrize(
    ("scheme", "greeting"),
    [
        ("http", b""),
        ("http", b"HTTP/1.0 200 OK\r\n\r\n"),
        # The beginning of a TLS record of 16 KiB.
        ("https", b"\x16\x03\x03\x40\x00"),
    ],
)
def test_a_server_that_drips_is_left_in_every_phase(scheme: str, greeting: bytes) -> None:
    """The bytes are a header, a body until the end of the connection, or a TLS handshake.

    Against: the watchdog shuts down `HTTPConnection.sock`, which is None or detached then.
    """
    with a_dripping_server(greeting) as port, pytest.raises(NoAnswer, match=r"within 0\.3 s"):
        post(f"{scheme}://127.0.0.1:{port}/", b"{}", {}, networks=LOOPBACK, answer_within_s=0.3)


def test_addresses_are_tried_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: 5 s for each address."""
    waits: list[float] = []

    def never(_address: object, within_s: float) -> socket.socket:
        waits.append(within_s)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", never)
    with outgoing.Deadline(2) as deadline, pytest.raises(TimeoutError):
        deadline.connect(["127.0.0.1"] * 5, 80)
    assert len(waits) == 4
    assert max(waits) <= 2


def test_a_closed_port_and_an_unknown_host_are_no_answer() -> None:
    with pytest.raises(NoAnswer, match="ConnectionRefusedError"):
        post("http://127.0.0.1:1/", b"{}", {}, networks=LOOPBACK)
    with pytest.raises(NoAnswer, match=r"The host nowhere\.invalid is not found"):
        resolve("nowhere.invalid", 443)


def test_a_certificate_that_nobody_signed_is_no_answer(tmp_path: Path) -> None:
    """Planted: TLS without a check of the certificate."""
    with a_hook_server(self_signed(tmp_path)) as hooks:
        url = f"https://localhost:{hooks.port}/hook"
        with pytest.raises(NoAnswer, match="CERTIFICATE_VERIFY_FAILED"):
            post(url, b"{}", {}, networks=["127.0.0.0/8", "::1/128"])
    assert hooks.received == []

"""Requests to addresses that users name, kept away from the inside of the network (SSRF).

A host is resolved once, each of its addresses is checked, and the connection goes to a checked
address. So a name that resolves to another address a moment later gains nothing. Redirects are not
followed, and every step has a bound.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Self
from urllib.parse import SplitResult, urlsplit

from primitives.addresses import is_in

#: Ports of addresses outside the operator's networks.
PUBLIC_PORTS = frozenset({443, 8443})
CONNECT_WITHIN_S = 5.0
#: The bound of a whole request, from the connection to the last byte that is read.
ANSWER_WITHIN_S = 10.0
ANSWER_BYTES_MAX = 64 * 1024
#: Addresses of a host that are tried.
_ADDRESSES_MAX = 4
URL_LENGTH_MAX = 500

#: Global by their registry, and yet ways to other networks: 6to4 and its relays, and Teredo.
_TUNNELS = tuple(map(ip_network, ("192.88.99.0/24", "2002::/16", "2001::/32")))
#: The only part of IPv6 that is given to sites. It leaves out mapped, translated and local ones.
_IPV6_SITES = ip_network("2000::/3")

Resolve = Callable[[str, int], list[str]]


class UnsafeAddress(Exception):
    """The address may not be called. The text says why, and what to do."""


class NoAnswer(Exception):
    """The server did not answer as a server of HTTP. The text says how it failed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The status and the beginning of the body of an answer."""

    status: int
    body: bytes


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet, and to one site there."""
    # A scope ("fe80::1%eth0") marks an address of a local link.
    if "%" in address:
        return False
    parsed: IPv4Address | IPv6Address = ip_address(address)
    if not parsed.is_global or parsed.is_multicast or parsed.is_reserved:
        return False
    if parsed.version == 6 and parsed not in _IPV6_SITES:
        return False
    return not any(parsed in tunnel for tunnel in _TUNNELS)


def check_url(url: str, networks: Collection[str]) -> SplitResult:
    """Return the parts of a URL that may be called, before its host is resolved.

    With `networks` of the operator, also plain HTTP and other ports are possible. Raises
    UnsafeAddress.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UnsafeAddress("The address is no URL. Give one like https://host/path.") from error
    if len(url) > URL_LENGTH_MAX or not url.isascii() or any(c.isspace() for c in url):
        raise UnsafeAddress(
            f"The address must have at most {URL_LENGTH_MAX} characters of ASCII without spaces."
        )
    schemes = ("https", "http") if networks else ("https",)
    if parts.scheme not in schemes or not parts.hostname:
        raise UnsafeAddress("The address must begin with https:// and a host.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise UnsafeAddress("The address must have no user, password or fragment.")
    if not networks and (port or 443) not in PUBLIC_PORTS:
        raise UnsafeAddress("The port of the address must be 443 or 8443.")
    return parts


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host in the order of the resolver. Raises NoAnswer."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NoAnswer(f"The host {host} is not found.") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    networks: Collection[str],
    find: Resolve = resolve,
    answer_within_s: float = ANSWER_WITHIN_S,
) -> Answer:
    """Send `body` to `url`, and return the answer without following redirects.

    `networks` are those of the operator in which addresses may be private. Raises UnsafeAddress
    before anything is sent, and NoAnswer.
    """
    parts = check_url(url, networks)
    host = parts.hostname
    assert host is not None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    addresses = find(host, port)[:_ADDRESSES_MAX]
    if not all(is_in(networks, each) for each in addresses):
        _refuse_unless_public(host, parts.scheme, port, addresses, networks)
    path = parts.path or "/"
    if parts.query:
        path = f"{path}?{parts.query}"
    with Deadline(answer_within_s) as deadline:
        connection = _PinnedConnection(
            host, port, addresses, deadline, is_secure=parts.scheme == "https"
        )
        try:
            connection.request("POST", path, body, dict(headers))
            response = connection.getresponse()
            answer = Answer(response.status, response.read(ANSWER_BYTES_MAX))
        except (OSError, http.client.HTTPException) as error:
            if deadline.is_over:
                raise NoAnswer(f"No answer within {answer_within_s:g} s.") from error
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
    if deadline.is_over:
        raise NoAnswer(f"No answer within {answer_within_s:g} s.")
    return answer


def _refuse_unless_public(
    host: str, scheme: str, port: int, addresses: list[str], networks: Collection[str]
) -> None:
    """Raise UnsafeAddress unless each address is public or the operator's, by HTTPS if public."""
    for address in addresses:
        if is_in(networks, address):
            continue
        if not is_public(address):
            raise UnsafeAddress(
                f"{host} has the address {address}, which is not public. Ask the operator to add "
                "its network to TIDEGATE_WEBHOOK_NETWORKS."
            )
    if scheme != "https" or port not in PUBLIC_PORTS:
        raise UnsafeAddress(f"{host} is public: use https:// and the port 443 or 8443.")


class Deadline:
    """The end of a whole request. Its connections are cut then, also in a handshake or a body.

    Use it as a context. The end is `within_s` seconds after the construction.
    """

    def __init__(self, within_s: float) -> None:
        self._until_s = time.monotonic() + within_s
        self._timer = threading.Timer(within_s, self._cut)
        self._lock = threading.Lock()
        self._watched: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for watched in self._watched:
                watched.close()
            self._watched.clear()

    @property
    def is_over(self) -> bool:
        """Return whether the end has come."""
        return time.monotonic() >= self._until_s

    def connect(self, addresses: Sequence[str], port: int) -> socket.socket:
        """Connect to the first of the addresses that answers, at most 4. Raises OSError."""
        failure: OSError = OSError("no address")
        for address in addresses[:_ADDRESSES_MAX]:
            left_s = self._until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("no connection in time")
            try:
                made = socket.create_connection((address, port), min(CONNECT_WITHIN_S, left_s))
            except OSError as error:
                failure = error
                continue
            self._watch(made)
            return made
        raise failure

    def _watch(self, made: socket.socket) -> None:
        # A second handle of the connection: TLS takes the first one away, and HTTP closes it.
        handle = made.dup()
        with self._lock:
            self._watched.append(handle)
        if self.is_over:
            self._cut()

    def _cut(self) -> None:
        with self._lock:
            for watched in self._watched:
                with suppress(OSError):
                    watched.shutdown(socket.SHUT_RDWR)


class _PinnedConnection(http.client.HTTPConnection):
    """A connection to one of `addresses`, whose certificate must be that of `host`."""

    def __init__(
        self, host: str, port: int, addresses: list[str], deadline: Deadline, *, is_secure: bool
    ) -> None:
        super().__init__(host, port, timeout=CONNECT_WITHIN_S)
        self._addresses = addresses
        self._deadline = deadline
        self._is_secure = is_secure

    def connect(self) -> None:
        """Connect to the first address that answers."""
        self.sock = self._deadline.connect(self._addresses, self.port)
        if self._is_secure:
            context = ssl.create_default_context()
            self.sock = context.wrap_socket(self.sock, server_hostname=self.host)

"""Network addresses as rate limits count them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


def network_of(address: str) -> str:
    """Return the unit that counts as one source of requests.

    That is an IPv4 address, or the /64 network of an IPv6 address. Text that is no address counts
    as itself, cut to 64 characters.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def is_in(networks: Iterable[str], address: str) -> bool:
    """Return whether `address` is in one of `networks`; text that is no address never is."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in ipaddress.ip_network(network) for network in networks)

"""Network addresses as throttles and bounds count them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


def network_of(address: str) -> str:
    """Return what counts as one source: an IPv4 address, the /64 of an IPv6 one, or the text."""
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
    """Return whether `address` is in one of `networks`; a text that is no address never is."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in ipaddress.ip_network(network) for network in networks)

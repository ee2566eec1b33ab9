"""Finds Pods in namespaces of teams outside of their queues, which nobody is charged for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from connectors.kubernetes.objects.naming import is_team_namespace
from connectors.kubernetes.options.pools import KubernetesPool
from connectors.protocol import Listing, NativeWorkload

_NAMED_MAX = 3


def unqueued_alert(listing: Listing, pools: Mapping[str, KubernetesPool]) -> str:
    """Return the alert for Pods of `listing` in teams' namespaces without a queue; "" for none.

    The namespaces that hold the most are named, each with one of its Pods.
    """
    found: dict[str, list[NativeWorkload]] = defaultdict(list)
    for native in listing.natives:
        # Only a Pod outside of every queue has a place.
        if native.slots and native.pool in pools and is_team_namespace(native.place):
            found[native.place].append(native)
    if not found:
        return ""
    everything = [native for natives in found.values() for native in natives]
    count = len({native.name for native in everything})
    ordered = sorted(found, key=lambda place: (-sum(one.mgpu for one in found[place]), place))
    named = [
        f"{_sum(found[place], pools)} in {place} ({_names(found[place])})"
        for place in ordered[:_NAMED_MAX]
    ]
    more = f" and {len(ordered) - _NAMED_MAX} more namespaces" if len(ordered) > _NAMED_MAX else ""
    holds = (
        "1 Pod in namespaces of teams holds"
        if count == 1
        else (f"{count} Pods in namespaces of teams hold")
    )
    return (
        f"{holds} {_sum(everything, pools)} outside of the teams' queues, and nobody is charged: "
        f"{', '.join(named)}{more}. Delete what should not be there, and have it submitted to the "
        "queue."
    )


def _sum(natives: list[NativeWorkload], pools: Mapping[str, KubernetesPool]) -> str:
    """Return the sum that `natives` hold, by kind of device."""
    sums: dict[str, int] = defaultdict(int)
    devices = {pools[native.pool].device for native in natives}
    for native in natives:
        sums[pools[native.pool].device] += native.mgpu
    ordered = sorted(devices, key=lambda device: device.value, reverse=True)
    return " and ".join(device.text(sums[device]) for device in ordered)


def _names(natives: list[NativeWorkload]) -> str:
    names = sorted({native.name.rpartition("/")[2] for native in natives})
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"

"""The nodes of a batch job and the GPUs on each of them, as one environment variable.

`PLACES_VARIABLE` has `HOSTLIST:DEVICES` for each group of nodes with the same devices, separated by
semicolons: `node-[001-003]:0-7;node-009:2,5`. The order of the nodes is that of the job's ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from primitives.hostlist import contract, expand

PLACES_VARIABLE = "TIDEGATE_PLACES"


class Place:
    """A node of the job, with the indices of the job's devices on it."""

    def __init__(self, node: str, devices: Sequence[int]) -> None:
        self.node = node
        self.devices = tuple(devices)


def places_text(places: Sequence[Place]) -> str:
    """Return the value of `PLACES_VARIABLE` for `places`."""
    groups = groupby(places, key=lambda place: place.devices)
    return ";".join(
        f"{contract([place.node for place in group])}:{_spans(devices)}"
        for devices, group in groups
    )


def read_places(text: str) -> list[Place]:
    """Return the places in `text`. Raises ValueError where it is no value of the variable."""
    places = []
    for group in text.split(";"):
        hosts, colon, spans = group.partition(":")
        if not colon:
            raise ValueError(f"{group[:80]!r} is not HOSTLIST:DEVICES")
        devices = _devices(spans)
        places += [Place(node, devices) for node in expand(hosts)]
    return places


def _spans(devices: Sequence[int]) -> str:
    # A host list without names is a list of spans.
    return contract([str(device) for device in devices]).strip("[]")


def _devices(spans: str) -> list[int]:
    return [int(device) for device in expand(f"[{spans}]")] if spans else []

"""The variable that tells srun the nodes of a job."""

from __future__ import annotations

import pytest

from batch.places import Place, places_text, read_places


def test_nodes_with_the_same_devices_are_one_group_and_come_back_in_their_order() -> None:
    places = [
        *(Place(f"node-{number:03d}", range(8)) for number in (1, 2, 3)),
        Place("node-009", (2, 5)),
        Place("login", ()),
        Place("node-004", range(8)),
    ]
    text = places_text(places)
    assert text == "node-[001-003]:0-7;node-009:2,5;login:;node-004:0-7"
    assert [(place.node, place.devices) for place in read_places(text)] == [
        (place.node, place.devices) for place in places
    ]


def test_another_text_is_refused() -> None:
    with pytest.raises(ValueError, match="'node-001' is not HOSTLIST:DEVICES"):
        read_places("node-001")

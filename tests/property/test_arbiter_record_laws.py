"""Laws of the records of cycles, in many small worlds (R-88)."""

from __future__ import annotations

import json
import random
import typing
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from enum import EnumType
from types import NoneType, UnionType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arbiter.api.decisions import Kind
from arbiter.api.plan import Code, Plan, Reclaim, Start, Victim, Waiting
from arbiter.api.policy import Policy, SpareOrder
from arbiter.api.snapshot import PoolWeight, QueuedJob, Slot, Snapshot, TreeNode
from arbiter.replay.record import NewerRecord, Record, UnreadableRecord, from_document, to_document
from arbiter.replay.replay import differences
from builders.arbiter_builders import NOW


def any_of(hint: Any, dice: random.Random) -> Any:
    """A value of a field's type; of a row with all fields drawn, also those with defaults.

    By dice, since hypothesis takes a hundred times as long for so many values.
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, UnionType):
        return any_of(dice.choice(inner), dice)
    if hint is Policy:
        return Policy(starts_max=dice.randrange(3), spare_order=dice.choice([*SpareOrder]))
    if is_dataclass(hint) or hasattr(hint, "_field_defaults"):
        hints = typing.get_type_hints(hint)
        drawn = {name: any_of(value, dice) for name, value in hints.items()}
        if hint is PoolWeight:
            drawn["permille"] = dice.randrange(1, 3)
        return typing.cast(type, hint)(**drawn)
    size = range(dice.randrange(4))
    if origin is tuple:
        return tuple(any_of(inner[0], dice) for _ in size)
    if origin is frozenset:
        return frozenset(any_of(inner[0], dice) for _ in size)
    if origin is Mapping:
        return {any_of(inner[0], dice): any_of(inner[1], dice) for _ in size}
    if isinstance(hint, EnumType):
        return dice.choice([*hint])
    if hint is NoneType:
        return None
    return {
        int: dice.randrange(-2, 3),
        bool: dice.random() < 0.5,
        str: dice.choice(["", "a", "b", "\u00e9/\x00"]),
    }[hint]


records = st.integers(0, 1 << 32).map(lambda seed: any_of(Record, random.Random(seed)))


@given(records)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    """Planted: the default also for a column that has other values; one number for None and the
    first text; slots of all rows shared out from the second on."""
    document = json.loads(json.dumps(to_document(record)))
    assert from_document(document) == record


@given(records, st.data())
def test_fields_that_came_later_have_their_defaults(record: Record, data: st.DataObject) -> None:
    """A record that was written before a field was there has no column for it.

    Planted: a column that is missing is an empty one.
    """
    document = to_document(record)
    snapshot = document["record"]["snapshot"]
    name = data.draw(st.sampled_from(["claims", "pool_weights", "usage", "balances"]))
    snapshot.pop(name, None)
    rows = snapshot["queued"]["rows"]
    later = [one for one in fields(QueuedJob) if one.name in ("features", "has_image")]
    for one in later:
        rows.pop(one.name, None)
    expected = replace(
        record.snapshot,
        queued=tuple(
            replace(job, features=None, has_image=False) for job in record.snapshot.queued
        ),
        **{name: ()},  # type: ignore[arg-type]
    )
    assert from_document(document) == replace(record, snapshot=expected)


@given(records, st.data())
def test_a_damaged_record_is_refused_or_read_but_never_breaks(
    record: Record, data: st.DataObject
) -> None:
    """Whatever stands somewhere in the document instead of what was written.

    Planted: a KeyError for a text's number that is not there; a negative count; as many defaults
    as a count says, before it is compared with anything.
    """
    document = to_document(record)
    spot: Any = document
    while True:
        keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(spot[key], (dict, list)) or not spot[key] or data.draw(st.booleans()):
            break
        spot = spot[key]
    spot[key] = data.draw(
        st.sampled_from([None, -7, 99, 10**30, "x", [], {}, [[]], True, {"a": [1]}])
    )
    with suppress(UnreadableRecord):
        assert is_dataclass(from_document(document))


def a_record() -> Record:
    snapshot = Snapshot(NOW, (), (), (), (), frozenset(), (), ())
    return Record("1", Policy(), snapshot, Plan(NOW))


def test_a_record_of_a_later_format_says_so() -> None:
    document = to_document(a_record()) | {"format": 2}
    with pytest.raises(NewerRecord, match="its format is 2 and this version reads 1 at most"):
        from_document(document)


def test_a_field_that_is_not_known_yet_is_never_passed_over() -> None:
    document = to_document(a_record())
    document["record"]["snapshot"]["quanta"] = [1]
    with pytest.raises(NewerRecord, match="it has 'quanta' of Snapshot, which is not known"):
        from_document(document)


def test_a_field_without_a_default_must_be_there() -> None:
    document = to_document(a_record())
    del document["record"]["snapshot"]["clusters"]
    with pytest.raises(UnreadableRecord, match="it lacks 'clusters' of Snapshot"):
        from_document(document)


def test_a_count_that_is_too_large_takes_no_memory() -> None:
    """Planted: as above, which made a list of a trillion defaults."""
    snapshot = Snapshot(NOW, (TreeNode("o", None),), (), (), (), frozenset(), (), ())
    document = to_document(replace(a_record(), snapshot=snapshot))
    document["record"]["snapshot"]["nodes"]["counts"] = [10**12]
    with pytest.raises(UnreadableRecord, match="columns of TreeNode differ in length"):
        from_document(document)


def a_tree_of_two() -> dict[str, Any]:
    nodes = (TreeNode("o", None), TreeNode("o/t", "o"))
    snapshot = Snapshot(NOW, nodes, (), (), (), frozenset(), (), ())
    return to_document(replace(a_record(), snapshot=snapshot))


@pytest.mark.parametrize("text", [7, None, [1], {}])
def test_a_text_that_is_none_is_never_passed_on(text: object) -> None:
    """Planted: the table of texts is taken as it is."""
    document = a_tree_of_two()
    document["texts"][0] = text
    with pytest.raises(UnreadableRecord, match="one of its texts is none"):
        from_document(document)


def test_nothing_stands_only_where_it_may() -> None:
    """A node without a parent is an organization, and a node without a name is damage.

    Planted: nothing is read wherever it stands.
    """
    document = a_tree_of_two()
    rows = document["record"]["snapshot"]["nodes"]["rows"]
    rows["parent"] = [-1, -1]
    assert [node.parent for node in from_document(document).snapshot.nodes] == [None, None]
    rows["id"][1] = -1
    with pytest.raises(UnreadableRecord, match="nothing where something must be"):
        from_document(document)


@pytest.mark.parametrize("document", [None, [], {}, {"format": "1"}, {"format": True}])
def test_what_is_no_record_is_refused(document: object) -> None:
    with pytest.raises(UnreadableRecord):
        from_document(document)


def test_plans_differ_in_what_they_do_and_not_in_why_others_wait() -> None:
    slot = (Slot("n0", 1_000),)
    then = Plan(
        NOW,
        starts=(Start("a", "c", slot, 0),),
        reclaims=(Reclaim("b", "c", slot, (Victim("v.1", "v", "t", 1_000, 300),)),),
        waiting=(Waiting("w", Code.NEVER_FITS),),
    )
    now = Plan(
        NOW,
        starts=(Start("a", "c", (Slot("n1", 1_000),), 0),),
        waiting=(Waiting("b", Code.BORROW_LIMIT_REACHED), Waiting("w", Code.TOPOLOGY_FRAGMENTED)),
    )
    found = {one.job: one for one in differences(then, now)}
    assert list(found) == ["a", "b", "v"]
    assert (found["a"].then.nodes, found["a"].now.nodes) == (("n0",), ("n1",))
    assert (found["b"].then.kind, found["b"].then.other) == (Kind.CLAIMED, ("v",))
    assert (found["b"].now.kind, found["b"].now.code) == (Kind.WAITS, "borrow_limit_reached")
    assert (found["v"].then.kind, found["v"].then.other) == (Kind.STOPPED, ("b",))
    assert (found["v"].now.kind, found["v"].now.code) == (Kind.WAITS, None)

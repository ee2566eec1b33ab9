"""Laws of the push of a quota tree to Kubernetes, over random trees, modes and edits by hand.

Mutants tried, each of which died here: what is taken taken last, children made before parents, the
level left out where things are made, parents deleted before children, limits and the parent below
which they are legal in two changes. Three that live here and die by examples of their own in unit
tests: what a queue lends not lowered with what it has, no merge patch for the fields of others,
and a cohort deleted below which a queue has to stay.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.kube_quota_builders import (
    FakeKubeApi,
    a_control,
    a_node,
    a_tree,
    gpus,
    kube_shape,
    push,
)
from connectors.entitlements import ChangeKind, Entitlements
from connectors.errors import OutcomeUnknown

modes = st.sampled_from(["arbiter", "shared"])
_ORDER = {ChangeKind.LOWER: 0, ChangeKind.DELETE: 1}


@st.composite
def trees(draw: st.DrawFn) -> Entitlements:
    """One or two organizations, departments below some, teams below all; guarantees fit."""
    nodes = []

    def add(path: str, most: int, level: int) -> int:
        guaranteed = draw(st.integers(0, most))
        is_team = level > 0 and (level == 3 or draw(st.booleans()))
        terms = gpus(
            guaranteed,
            lends=draw(st.one_of(st.none(), st.integers(0, guaranteed))),
            borrows=draw(st.one_of(st.none(), st.integers(0, 8))),
        )
        weight = draw(st.sampled_from([1, 100]))
        nodes.append(a_node(path, terms, is_team=is_team, weight=weight))
        left = guaranteed
        if not is_team:
            for name in draw(st.sets(st.sampled_from("abc"), max_size=2)):
                left -= add(f"{path}/{name}", left, level + 1)
        return guaranteed

    for name in sorted(draw(st.sets(st.sampled_from(["x", "y"]), min_size=1))):
        add(name, 32, 0)
    nodes.sort(key=lambda node: node.path)
    return a_tree(*nodes, spare_gpus=draw(st.integers(0, 2)))


def edits() -> st.SearchStrategy[list[tuple[int, str]]]:
    """By hand: which object, and what of it."""
    kinds = ["stop", "nominal", "borrows", "lends", "parent", "label", "gone", "weight"]
    return st.lists(st.tuples(st.integers(0, 99), st.sampled_from(kinds)), max_size=3)


def edit(api: FakeKubeApi, which: int, what: str) -> None:
    path = sorted(api.objects)[which % len(api.objects)]
    before = copy.deepcopy(api.objects[path])
    found = api.objects[path]
    spec: dict[str, Any] = found.get("spec", {})
    cells = [
        cell
        for group in spec.get("resourceGroups", ())
        for flavor in group["flavors"]
        for cell in flavor["resources"]
    ]
    match what:
        case "stop" if "stopPolicy" in spec:
            spec["stopPolicy"] = "HoldAndDrain"
        case "nominal" if cells:
            cells[-1]["nominalQuota"] = "40"
        case "borrows" if cells:
            cells[-1]["borrowingLimit"] = "1k"
        case "lends" if cells:
            cells[-1].pop("lendingLimit", None)
        case "parent" if found["kind"] == "Cohort":
            spec["parentName"] = "elsewhere"
            api.objects.setdefault(
                "/apis/kueue.x-k8s.io/v1beta2/cohorts/elsewhere",
                {"kind": "Cohort", "metadata": {"name": "elsewhere"}, "spec": {}},
            )
        case "label" if found["kind"] == "Namespace":
            found["metadata"]["labels"].pop("tidegate.io/team", None)
        case "gone" if found["kind"] in ("Cohort", "NetworkPolicy", "LocalQueue"):
            del api.objects[path]
        case "weight" if "fairSharing" in spec:
            spec["fairSharing"]["weight"] = "7"
    if path in api.objects and api.refuses_now(path):
        api.objects[path] = before


@settings(max_examples=40)
@given(trees(), modes, edits(), trees(), modes)
def test_a_push_leaves_no_difference_and_breaks_no_order(
    first: Entitlements,
    first_mode: str,
    by_hand: list[tuple[int, str]],
    second: Entitlements,
    second_mode: str,
) -> None:
    """Whatever was there, all that a push can make equal is equal afterwards; no object stood
    before what it names or outlived it; and the cluster refused nothing that was not told."""
    api = FakeKubeApi()
    push(a_control(api, kube_shape(first_mode)), first)
    for which, what in by_hand:
        edit(api, which, what)
    api.broken.clear()
    control = a_control(api, kube_shape(second_mode))
    changes = control.changes(second)
    ranks = [_ORDER.get(change.kind, 2) for change in changes]
    assert ranks == sorted(ranks)
    for change in changes:
        if not change.is_blocked:
            control.apply(change)
            control.apply(change)
    assert api.broken == []
    left = control.changes(second)
    assert {(change.thing, change.kind) for change in left} <= {("namespace", ChangeKind.DELETE)}


@settings(max_examples=40)
@given(trees(), trees(), st.integers(0, 60))
def test_no_moment_of_a_push_gives_more_than_both_ends(
    first: Entitlements, second: Entitlements, dies_after: int
) -> None:
    """In shared mode no more GPUs are given out at any moment of a push, also of one that dies and
    is made anew, than before or after it."""
    second = replace(second, spare_mgpu=first.spare_mgpu)
    api = FakeKubeApi()
    control = a_control(api, kube_shape("shared"))
    push(control, first)
    totals = [api.total()]
    for most in (dies_after, 10_000):
        changes = [change for change in control.changes(second) if not change.is_blocked]
        for change in changes[:most]:
            control.apply(change)
            totals.append(api.total())
    assert max(totals) <= max(totals[0], totals[-1])
    turns = [later - earlier for earlier, later in pairwise(totals) if later != earlier]
    assert dies_after < 60 or turns == sorted(turns, key=lambda turn: turn > 0)


@settings(max_examples=20)
@given(trees(), modes, st.data())
def test_whoever_dies_on_the_way_goes_on(
    wanted: Entitlements, mode: str, data: st.DataObject
) -> None:
    """A write whose answer is lost, at any place, is found done or done again."""
    api = FakeKubeApi()
    control = a_control(api, kube_shape(mode))
    changes = control.changes(wanted)
    lost = data.draw(st.integers(0, len(changes) - 1))
    for place, change in enumerate(changes):
        control.apply(change)
        if place == lost:
            try:
                raise OutcomeUnknown("the answer is lost")
            except OutcomeUnknown:
                control = a_control(api, kube_shape(mode))
                rest = control.changes(wanted)
                assert [one.subject for one in rest] == [
                    one.subject for one in changes[place + 1 :]
                ]
                break
    push(control, wanted)
    assert (control.changes(wanted), api.broken) == ((), [])

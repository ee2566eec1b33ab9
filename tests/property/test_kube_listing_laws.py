"""Whatever a Kubernetes cluster says, a look at it ends."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders.kube_states import CLUSTER_ID, pools_of, recorded
from connectors.kubernetes.nodes.inventory import nodes_of
from connectors.kubernetes.objects.cluster_state import KubeState, pods_of_ours
from connectors.kubernetes.workloads.observing import listing_of
from connectors.protocol import WorkloadPhase

MOMENTS = ("waiting", "started", "stopping", "after")
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "odd", -1, 10**30, 1.5, True, [], [None], ["x"], {}, {"x": None}, {"name": []}]
)
STEPS = st.lists(st.integers(0, 10_000), min_size=1, max_size=9)


def mutilated(found: Any, steps: list[int], value: Any, is_removed: bool) -> bool:
    """Change one part of `found`, which the steps choose; returns whether there was one."""
    inner = found
    for step in steps:
        keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
        if not keys:
            return False
        key = list(keys)[step % len(keys)]
        child = inner[key]
        if not isinstance(child, (dict, list)) or step is steps[-1]:
            if is_removed:
                del inner[key]
            else:
                inner[key] = value
            return True
        inner = child
    return False


@settings(max_examples=300)
@given(
    moment=st.sampled_from(MOMENTS),
    changes=st.lists(st.tuples(STEPS, ODD, st.booleans()), min_size=1, max_size=3),
    where=st.sampled_from(["objects", "workloads", "pods", "nodes"]),
)
def test_odd_objects_never_break_a_look_and_lose_nothing(
    moment: str, changes: list[tuple[list[int], Any, bool]], where: str
) -> None:
    """Each of our objects that was not touched is told, or unread; nothing raises; and what runs
    is not called released because something beside it makes no sense.

    Mutants: Odd escaped from natives; wrong types in labels raised AttributeError.
    """
    state = recorded(moment)
    before = listing_of(state, cluster_id=CLUSTER_ID, pools=pools_of())
    parts = {name: list(getattr(state, name)) for name in ("objects", "workloads", "pods", "nodes")}
    for steps, value, is_removed in changes:
        mutilated(parts[where], steps, value, is_removed and len(steps) > 1)
    parts[where] = [one for one in parts[where] if isinstance(one, dict)]
    odd = KubeState(
        tuple(parts["objects"]),
        tuple(parts["workloads"]),
        tuple(parts["pods"]),
        tuple(parts["nodes"]),
        state.observed_at,
    )
    after = listing_of(odd, cluster_id=CLUSTER_ID, pools=pools_of())
    nodes_of(odd.nodes, pools_of(), {})
    pods_of_ours(odd, cluster_id=CLUSTER_ID)
    unread = {one.native_id for one in after.unread}
    if where == "nodes":
        assert after.observations.keys() == before.observations.keys()
    if where == "pods" and None not in unread and len(odd.pods) == len(state.pods):
        for key, was in before.observations.items():
            now = after.observations.get(key)
            assert now is not None or was.native_id in unread
            if was.phase is WorkloadPhase.RUNNING and now is not None:
                assert not now.is_released

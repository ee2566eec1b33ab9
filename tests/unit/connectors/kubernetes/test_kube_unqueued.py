"""The alert for what runs in teams' namespaces outside of their queues."""

from __future__ import annotations

from connectors.kubernetes.admission.unqueued import unqueued_alert
from connectors.kubernetes.options.options import parse_options
from connectors.protocol import Listing, NativeWorkload, RankSlot, WorkloadPhase

NLP, VISION = f"tg-{'a' * 16}", f"tg-{'b' * 16}"
POOLS = parse_options(
    {
        "in_cluster": True,
        "pools": {
            "h100": {"node_selector": {"kind": "h100"}},
            "batch": {"device": "cpu", "node_selector": {"kind": "batch"}},
        },
    }
).pools


def pod(
    name: str,
    place: str = NLP,
    *,
    mgpu: int = 8000,
    pool: str = "h100",
    account: str = "",
    is_placed: bool = True,
) -> NativeWorkload:
    return NativeWorkload(
        native_id=f"{name} ({pool})",
        submitted_at=0,
        name=f"{place}/{name}",
        account=account,
        user="",
        pool=pool,
        mgpu=mgpu,
        native_state="Running",
        phase=WorkloadPhase.RUNNING,
        slots=(RankSlot("node-1", mgpu),) if is_placed else (),
        place="" if account else place,
    )


def told(*natives: NativeWorkload) -> str:
    return unqueued_alert(Listing(observed_at=0, observations={}, natives=natives), POOLS)


def test_nothing_is_told_of_what_came_by_a_queue_holds_nothing_or_is_no_teams() -> None:
    """Planted: no look at the place. Every native job is an alert."""
    assert told() == ""
    assert told(pod("native", account=NLP)) == ""
    assert told(pod("pending", is_placed=False)) == ""
    for place in ("default", "tg-system", f"x{NLP}", f"{NLP}0"):
        assert told(pod("service", place)) == ""
    assert told(pod("unknown", pool="gone")) == ""


def test_one_pod_is_told_with_its_namespace_and_its_name() -> None:
    assert told(pod("train-x")) == (
        "1 Pod in namespaces of teams holds 8 GPUs outside of the teams' queues, and nobody is "
        f"charged: 8 GPUs in {NLP} (train-x). Delete what should not be there, and have it "
        "submitted to the queue."
    )


def test_several_are_summed_by_device_and_those_that_hold_most_come_first() -> None:
    natives = [
        pod("a", NLP, mgpu=1000),
        pod("both", VISION, mgpu=2000),
        pod("both", VISION, mgpu=4000, pool="batch"),
        pod("c", VISION, mgpu=500),
    ]
    assert told(*natives) == (
        "3 Pods in namespaces of teams hold 3.5 GPUs and 4 cores outside of the teams' queues, and "
        f"nobody is charged: 2.5 GPUs and 4 cores in {VISION} (both and 1 more), 1 GPU in {NLP} "
        "(a). Delete what should not be there, and have it submitted to the queue."
    )


def test_three_namespaces_are_named() -> None:
    natives = [pod("p", f"tg-{number:016x}", mgpu=1000 * (9 - number)) for number in range(5)]
    sentence = told(*natives)
    assert f"9 GPUs in tg-{0:016x} (p), 8 GPUs in tg-{1:016x} (p), 7 GPUs in tg-{2:016x} (p)" in (
        sentence
    )
    assert "(p) and 2 more namespaces. Delete" in sentence
    assert sentence.startswith("5 Pods in namespaces of teams hold 35 GPUs")

"""The runs of attempts by the objects that a recorded Kubernetes still has of them."""

from __future__ import annotations

from typing import Any

from builders.kube_states import CLUSTER_ID, Gang, alone, of_one, pools_of, recorded
from connectors.accounts import AccountedRun
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.workloads.accounting import accounted_runs


def runs_of(state: KubeState, **pools: Any) -> list[AccountedRun]:
    """All runs of ours in `state`."""
    return list(accounted_runs(state, cluster_id=CLUSTER_ID, pools=pools_of(**pools)))


def times_of(run: AccountedRun) -> tuple[int, int | None, int | None, int | None]:
    """Start, latest start, earliest end and end, in seconds since the jobs were created."""
    ends = (run.started_at, run.started_by, run.ended_from, run.ended_at)
    since = 1_795_294_374
    start, *others = (None if at is None else at - since for at in ends)
    assert start is not None
    return (start, *others)  # type: ignore[return-value]


def test_runs_with_all_their_pods_are_exact_and_those_without_are_ranges() -> None:
    """Some succeeded, some failed and were collected, some were stopped. Of the latter, Kueue's
    eviction is the earliest end, and the last condition with the Pods' grace the latest.

    Planted: ranges for runs with all Pods; the eviction as the latest end; runs of natives."""
    now = {run.key: times_of(run) for run in runs_of(recorded("started"))}
    later = {run.key: times_of(run) for run in runs_of(recorded("after"))}
    assert now == {
        "tg-bad": (4, None, None, 5),
        "tg-good": (4, None, None, 5),
        "tg-gang": (4, None, None, None),
        "tg-obeys": (5, None, None, None),
        "tg-stopped": (5, None, None, None),
        "tg-set": (6, None, None, None),
    }
    assert later == {
        "tg-bad": (3, 23, 3, 23),
        "tg-good": (4, None, None, 5),
        "tg-gang": (3, 35, 3, 35),
        "tg-obeys": (4, 27, 9, 27),
        "tg-stopped": (4, 25, 9, 25),
        "tg-set": (6, None, None, None),
    }


def test_a_run_has_the_pool_and_size_that_kueue_counted(gang: Gang) -> None:
    """Planted: the annotation first, which anybody in the namespace could change."""
    item, workload, pods = gang
    (run,) = runs_of(alone(item, workload, pods))
    assert (run.pool, run.mgpu, run.account) == ("h100", 4_000, "tg-0123456789abcdef")
    item["metadata"]["annotations"][naming.ASKED] = "9x8000 h100"
    (same,) = runs_of(alone(item, workload, pods))
    assert (same.pool, same.mgpu) == ("h100", 4_000)


def test_without_a_count_of_kueue_the_submitted_request_counts(gang: Gang) -> None:
    """Another scheduler has no Workload, and claims of devices have no count of GPUs.

    Planted: the name of a claim's template taken for its size."""
    item, _, pods = gang
    item["metadata"]["annotations"][naming.ASKED] = "2x3000 h100"
    (run,) = runs_of(alone(item, None, pods))
    assert (run.pool, run.mgpu) == ("h100", 6_000)
    claimed = {"a100": {"node_selector": {"gpu": "a100"}, "device_class": "gpu.nvidia.com"}}
    item["metadata"]["annotations"][naming.ASKED] = "2xtg-gang-1500"
    (run,) = runs_of(alone(item, None, pods), **claimed)
    assert (run.pool, run.mgpu) == ("a100", 3_000)


def test_a_stopped_attempt_without_pods_may_have_run() -> None:
    """Its admission and its conditions bound the run. One that was never admitted has none.

    Planted: no run without a Pod."""
    item, workload, pods = of_one(recorded("after"), "tg-stopped")
    assert pods == []
    (run,) = runs_of(alone(item, workload, []))
    assert times_of(run) == (4, 25, 9, 25)
    workload["status"]["conditions"] = [
        one for one in workload["status"]["conditions"] if one["type"] == "QuotaReserved"
    ]
    workload["status"].pop("accumulatedPastExecutionTimeSeconds", None)
    assert runs_of(alone(item, workload, [])) == []


def test_invalid_objects_are_left_out(gang: Gang) -> None:
    item, workload, pods = gang
    workload["spec"]["podSets"] = "many"
    assert runs_of(alone(item, workload, pods)) == []

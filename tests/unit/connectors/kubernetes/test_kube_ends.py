"""Ends that the watches tell are made sure of: after a stop only a list tells what is left."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from builders.kube_states import CLUSTER_ID, alone, ended, of_one, only, recorded
from connectors.kubernetes.client.api import KubeList
from connectors.kubernetes.connector import KubernetesConnector
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.kubernetes.options.options import parse_options
from connectors.kubernetes.workloads.observing import listing_of
from connectors.protocol import Listing, Outcome

Json = dict[str, Any]
MANY = 300


def stopped_copies(count: int) -> tuple[list[Json], list[Json], list[Json]]:
    """As many gangs that were stopped, of which the watch over Pods tells none any more, and the
    Pods that they really have left."""
    item, workload, pods = of_one(recorded("started"), "tg-gang")
    items, workloads, left = [], [], []
    for n in range(count):
        key, uid = f"tg-{n}", f"uid-{n}"
        one = copy.deepcopy(item)
        one["metadata"] |= {"name": key, "uid": uid, "generation": 3}
        one["metadata"]["annotations"] |= {naming.KEY: key, naming.STOPPED: "2026-11-21T20:54:00Z"}
        one["spec"]["suspend"] = True
        one["status"] = {"conditions": [{"type": "Suspended", "status": "True"}]}
        items.append(one)
        its = copy.deepcopy(workload)
        its["metadata"] |= {"name": f"job-{key}", "uid": f"workload-{n}"}
        its["metadata"]["ownerReferences"][0] |= {"name": key, "uid": uid}
        its["spec"]["active"] = False
        for condition in its["status"]["conditions"]:
            if condition["type"] in ("Admitted", "QuotaReserved"):
                condition["status"] = "False"
        its["status"]["conditions"].append(
            {
                "type": "Evicted",
                "status": "True",
                "reason": "Deactivated",
                "lastTransitionTime": "2026-11-21T20:54:00Z",
            }
        )
        workloads.append(its)
        pod = copy.deepcopy(pods[0])
        pod["metadata"] |= {"name": f"{key}-0", "uid": f"pod-{n}"}
        pod["metadata"]["annotations"] |= {naming.KEY: key}
        pod["metadata"]["ownerReferences"][0] |= {"name": key, "uid": uid}
        left.append(pod)
    return items, workloads, left


def released(listing: Listing) -> int:
    return sum(one.is_released for one in listing.observations.values())


def test_many_ends_at_once_are_all_made_sure_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one list of each namespace, however many there are.

    Mutant: those above a limit were taken as the watches told them; their GPUs were free while
    Pods of them lived.
    """
    items, workloads, left = stopped_copies(MANY)
    connector = KubernetesConnector(
        parse_options({"kubeconfig": "/k", "pools": {"h100": {}}}), CLUSTER_ID
    )
    for item, workload in zip(items, workloads, strict=True):
        connector._caches.attempts.item_changed(None, item)
        connector._caches.attempts.workload_changed(None, workload)
    told: list[Json] = []
    asked: list[str] = []

    def listed(path: str, *, labels: str = "", fields: str = "") -> KubeList:
        asked.append(path)
        return KubeList(left, "9", 0)

    monkeypatch.setattr(connector._api, "list", listed)
    monkeypatch.setattr(connector._caches, "took", told.append)

    def state(pods: list[Json]) -> KubeState:
        one = alone(None, None, pods)
        return KubeState(tuple(items), tuple(workloads), tuple(pods), (), one.observed_at)

    listing = connector._looker.listing(state([]))
    assert released(listing) == MANY
    assert connector._looker.has_doubtful_ends(listing) is True
    assert (len(told), len(asked)) == (MANY, 1)
    assert released(connector._looker.listing(state(told))) == 0
    left.clear()
    assert connector._looker.has_doubtful_ends(listing) is False
    assert connector._looker.has_doubtful_ends(listing) is False
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("is_manifest", "ended_at", "reason", "outcome"),
    [
        (True, "2026-11-21T20:54:00Z", "Deactivated", Outcome.STOPPED),
        (True, "2026-11-21T20:54:09Z", "Deactivated", Outcome.STOPPED),
        (
            True,
            "2026-11-21T20:54:09Z",
            "DeactivatedDueToMaximumExecutionTimeExceeded",
            Outcome.TIMED_OUT,
        ),
        (True, "2026-11-21T20:53:59Z", "Deactivated", Outcome.SUCCEEDED),
        (False, "2026-11-21T20:54:09Z", "Deactivated", Outcome.SUCCEEDED),
    ],
)
def test_a_manifest_that_ends_after_its_eviction_has_not_succeeded(
    is_manifest: bool, ended_at: str, reason: str, outcome: Outcome
) -> None:
    """A launcher that saves at TERM and ends with 0 completes its object.

    Planted: an MPIJob that was preempted counted as succeeded, and was not queued again.
    """
    (item,), (workload,), _ = stopped_copies(1)
    del item["metadata"]["annotations"][naming.STOPPED]
    if is_manifest:
        item["metadata"]["annotations"][naming.MANIFEST] = "2"
    end = {"type": "Complete", "status": "True", "lastTransitionTime": ended_at}
    item["status"]["conditions"].append(end)
    workload["status"]["conditions"][-1]["reason"] = reason
    listing = listing_of(alone(item, workload, []), cluster_id=CLUSTER_ID, pools={})
    assert listing.observations["tg-0"].outcome is outcome


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ((), ""),
        ((0,), ""),
        (
            (3,),
            "So far 1 Pod of it failed, the last one of rank 0 with exit code 3. Its controller "
            "may start others in place.",
        ),
        (
            (3, 137),
            "So far 2 Pods of it failed, the last one of rank 0 by signal 9. Its controller may "
            "start others in place.",
        ),
    ],
)
def test_a_manifest_that_runs_on_tells_the_pods_that_failed(
    codes: tuple[int, ...], message: str
) -> None:
    """Its Job makes them anew. A gang of the portal's own ends with its first failure.

    Planted: Pods that succeeded, too; nothing, so that a job looked as if it ran without a fault.
    """
    item, workload, pods = of_one(recorded("started"), "tg-gang")
    item["metadata"]["annotations"][naming.MANIFEST] = str(len(pods))
    over = []
    for number, code in enumerate(codes):
        pod = ended(copy.deepcopy(pods[0]), code)
        pod["metadata"] |= {
            "uid": f"old-{number}",
            "name": f"old-{number}",
            "creationTimestamp": f"2026-11-21T20:52:0{number}Z",
        }
        over.append(pod)
    seen = only(alone(item, workload, [*over, *pods]))
    assert (seen.native_state, seen.message) == ("Admitted", message)

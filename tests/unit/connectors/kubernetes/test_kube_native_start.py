"""Starting a native again and again, without a cluster."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from builders.kube_states import alone, of_one, pools_of, recorded
from connectors.errors import ClusterUnavailable, NativeRefused
from connectors.kubernetes.admission.gating import GATE, OUR_GATE
from connectors.kubernetes.attempts.reconciler import KILL_GRACE_S
from connectors.kubernetes.client.api import Forbidden
from connectors.kubernetes.manifests.asking import PODS_MAX, asked_by_native
from connectors.kubernetes.natives import natives
from connectors.kubernetes.natives.natives import KubernetesNatives
from connectors.kubernetes.objects.reading import Odd
from connectors.natives import NativeRef, NativeSize

Json = dict[str, Any]


#: What `native-run` of the recording asks for.
GRANTED = NativeSize("h100", 2000, 2)


class AnApi:
    """Takes every write, or answers each with `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.patches: list[Json] = []
        self.paths: list[str] = []
        self.deleted: list[str] = []
        self.votes: list[Json] = []
        self.error = error

    def merge_patch(self, path: str, body: Json) -> Json:
        if self.error is not None:
            raise self.error
        self.patches.append(body)
        self.paths.append(path)
        return {}

    def delete(self, path: str, *, uid: str, grace_s: int) -> None:
        assert grace_s == KILL_GRACE_S
        self.deleted.append(uid)

    def apply(self, path: str, body: Json, **how: Any) -> Json:
        self.votes.append(body)
        return {}


def waiting(*, count: int = 2, gpus: str = "2", reserved: bool = True) -> tuple[Json, Json]:
    """One that is gated no more and waits for our vote, if its quota is reserved."""
    item, workload, _ = of_one(recorded("started"), "native-run")
    workload = copy.deepcopy(workload)
    (pod_set,) = workload["spec"]["podSets"]
    pod_set["count"] = count
    pod_set["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = gpus
    workload["status"]["admissionChecks"][0]["state"] = "Pending"
    held = [one for one in workload["status"]["conditions"] if one["type"] == "QuotaReserved"]
    workload["status"]["conditions"] = held if reserved else []
    return item, workload


def ref_to(item: Json) -> NativeRef:
    return NativeRef(item["metadata"]["uid"], 0, "")


def test_a_vote_is_given_for_exactly_what_was_granted() -> None:
    """Mutant: voted for whatever it asked for; one granted two GPUs ran with a thousand."""
    item, workload = waiting()
    api: Any = AnApi()
    control = KubernetesNatives(api, lambda: alone(item, workload, []), pools_of())
    control.start(ref_to(item), GRANTED)
    (vote,) = api.votes
    assert vote["metadata"]["resourceVersion"] == workload["metadata"]["resourceVersion"]
    assert vote["status"]["admissionChecks"][0]["state"] == "Ready"


@pytest.mark.parametrize(
    ("count", "gpus", "granted"),
    [
        (500, "2", GRANTED),
        (2, "8", GRANTED),
        (1, "2", GRANTED),
        (1, "4", GRANTED),
        (2, "2", NativeSize("a100", 2000, 2)),
        (2, "2", None),
        (2, "0", GRANTED),
        (2, "odd", GRANTED),
    ],
)
def test_what_asks_for_something_else_is_neither_let_in_nor_voted_for(
    count: int, gpus: str, granted: NativeSize | None
) -> None:
    item, workload = waiting(count=count, gpus=gpus)
    item = copy.deepcopy(item)
    item["metadata"]["annotations"] = {GATE: OUR_GATE}
    workload["spec"]["active"] = False
    api: Any = AnApi()
    control = KubernetesNatives(api, lambda: alone(item, workload, []), pools_of())
    control.start(ref_to(item), granted)
    assert (api.patches, api.votes) == ([], [])


def test_what_asks_for_no_gpus_needs_no_grant() -> None:
    item, workload = waiting(gpus="0")
    api: Any = AnApi()
    KubernetesNatives(api, lambda: alone(item, workload, []), pools_of()).start(ref_to(item), None)
    assert len(api.votes) == 1


def test_what_grows_while_its_quota_is_being_reserved_is_not_voted_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mutant: compared only before its gate was opened."""
    item, workload = waiting(reserved=False)
    item = copy.deepcopy(item)
    item["metadata"]["annotations"] = {GATE: OUR_GATE}
    states = [alone(item, workload, []), alone(*waiting(count=500), [])]
    monkeypatch.setattr(natives.time, "sleep", lambda seconds: None)
    api: Any = AnApi()
    control = KubernetesNatives(
        api, lambda: states.pop(0) if len(states) > 1 else states[0], pools_of()
    )
    control.start(ref_to(item), GRANTED)
    assert api.patches == [{"metadata": {"annotations": {GATE: None}}}]
    assert api.votes == []


def test_what_another_namespace_says_to_be_its_workload_is_not_voted_for() -> None:
    item, workload = waiting()
    false = copy.deepcopy(workload)
    false["metadata"] |= {
        "uid": "false",
        "namespace": "tg-fedcba9876543210",
        "creationTimestamp": "2027-01-01T00:00:00Z",
    }
    state = alone(item, workload, [])
    state = replace(state, workloads=(*state.workloads, false))
    api: Any = AnApi()
    KubernetesNatives(api, lambda: state, pools_of()).start(ref_to(item), GRANTED)
    (vote,) = api.votes
    assert vote["metadata"]["namespace"] == workload["metadata"]["namespace"]


@pytest.mark.parametrize(
    ("message", "is_of_all"),
    [
        ('admission webhook "x.example.com" denied the request: you cannot do that', False),
        ("ValidatingAdmissionPolicy 'x' with binding 'x' denied request: no", False),
        ('jobs.batch "a" is forbidden: User "portal" cannot patch resource "jobs"', True),
    ],
)
def test_a_refusal_of_one_is_told_from_missing_rights(message: str, is_of_all: bool) -> None:
    """Mutant: every 403 was a cluster that does not answer; one Job stopped all others."""
    item, workload = waiting()
    item = copy.deepcopy(item)
    item["metadata"]["annotations"] = {GATE: OUR_GATE}
    api: Any = AnApi(Forbidden(403, "Forbidden", message))
    control = KubernetesNatives(api, lambda: alone(item, workload, []), pools_of())
    with pytest.raises(ClusterUnavailable) as raised:
        control.start(ref_to(item), GRANTED)
    assert isinstance(raised.value, NativeRefused) is not is_of_all


def test_a_start_that_is_repeated_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: each waited a second; with twenty that Kueue has no quota for, every look at their
    cluster took twenty seconds longer, and what had ended there was told as late."""
    item, workload, _ = of_one(recorded("started"), "native-run")
    workload = copy.deepcopy(workload)
    workload["status"] = {"conditions": []}
    waited: list[float] = []
    monkeypatch.setattr(natives.time, "sleep", waited.append)
    api: Any = AnApi()
    control = KubernetesNatives(api, lambda: alone(item, workload, []), pools_of())
    control.start(NativeRef(item["metadata"]["uid"], 0, ""), GRANTED)
    assert (waited, api.patches) == ([], [])


def test_a_stop_that_came_in_between_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: made active whatever had become of it; it ran after the stop."""
    item, workload, _ = of_one(recorded("started"), "native-run")
    workload = copy.deepcopy(workload)
    workload["status"] = {"conditions": []}
    workload["spec"]["active"] = False
    monkeypatch.setattr(natives, "RESERVED_WITHIN_S", 0.0)
    api: Any = AnApi()
    control = KubernetesNatives(api, lambda: alone(item, workload, []), pools_of())
    control.start(NativeRef(item["metadata"]["uid"], 0, ""), GRANTED)
    version = workload["metadata"]["resourceVersion"]
    assert api.patches == [{"metadata": {"resourceVersion": version}, "spec": {"active": True}}]


def test_the_gate_of_a_ray_cluster_is_opened_too() -> None:
    """Mutant: gated like all others and watched by nobody; its GPUs were reserved for ever."""
    item, workload = waiting()
    item = copy.deepcopy(item)
    item |= {"apiVersion": "ray.io/v1", "kind": "RayCluster"}
    item["metadata"]["annotations"] = {GATE: OUR_GATE}
    api: Any = AnApi()
    KubernetesNatives(api, lambda: alone(item, workload, []), pools_of()).start(
        ref_to(item), GRANTED
    )
    namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
    assert api.paths == [f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters/{name}"]


def with_init_containers(workload: Json, *asked: tuple[str, str]) -> Json:
    workload = copy.deepcopy(workload)
    spec = workload["spec"]["podSets"][0]["template"]["spec"]
    spec["initContainers"] = [
        {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
        | ({"restartPolicy": policy} if policy else {})
        for gpus, policy in asked
    ]
    return workload


@pytest.mark.parametrize(
    ("asked", "mgpu"),
    [
        ((), 2000),
        ((("1", ""), ("2", "")), 2000),
        ((("3", ""),), 3000),
        ((("4", "Always"),), 6000),
        ((("1", "Always"), ("4", "")), 5000),
        ((("4", ""), ("1", "Always"), ("1", "Always")), 4000),
        ((("1", "Never"),), 2000),
    ],
)
def test_sidecars_count_beside_the_containers(
    asked: tuple[tuple[str, str], ...], mgpu: int
) -> None:
    """Mutant: the greatest of the two; half of what Kueue let in was neither granted nor billed."""
    _, workload = waiting()
    workload = with_init_containers(workload, *asked)
    assert asked_by_native(workload, pools_of()) == {"h100": (mgpu, mgpu)}


def test_devices_that_are_claimed_are_gpus_where_a_pool_has_claims() -> None:
    """Mutant: what claims its GPUs asked for none, and was started at once."""
    _, workload = waiting(gpus="0")
    claim = {"name": "gpus", "resourceClaimTemplateName": "eight"}
    workload["spec"]["podSets"][0]["template"]["spec"]["resourceClaims"] = [claim]
    assert asked_by_native(workload, pools_of()) == {}
    pools = pools_of(h100={"device_class": "gpu.nvidia.com"})
    assert asked_by_native(workload, pools) == {"": (1000, 1000)}


def test_gpus_of_several_kinds_are_of_a_pool_each() -> None:
    """By the flavor that Kueue gave each of them, before that by the selector.

    Mutants: all of them are the first's; what no pool has the selector for is the first's.
    """
    slice_10gb, product = "nvidia.com/mig-1g.10gb", "NVIDIA-H100-80GB-HBM3"
    selector = {"nvidia.com/gpu.product": product}
    pools = pools_of(
        h100={"node_selector": selector},
        small={"node_selector": selector, "resource": slice_10gb, "mgpu_per_unit": 125},
        other={"node_selector": {"zone": "b"}, "resource": slice_10gb, "mgpu_per_unit": 100},
    )
    _, workload = waiting(gpus="1")
    spec = workload["spec"]["podSets"][0]["template"]["spec"]
    spec["nodeSelector"] = selector
    spec["containers"][0]["resources"]["limits"][slice_10gb] = "3"
    assert asked_by_native(workload, pools) == {"h100": (1000, 1000), "small": (375, 375)}
    given = {"nvidia.com/gpu": "h100", slice_10gb: "other"}
    name = workload["spec"]["podSets"][0]["name"]
    workload["status"]["admission"] = {"podSetAssignments": [{"name": name, "flavors": given}]}
    assert asked_by_native(workload, pools) == {"h100": (1000, 1000), "other": (300, 300)}
    workload["status"]["admission"] = {}
    spec["nodeSelector"] = {}
    assert asked_by_native(workload, pools) == {"": (375, 375), "h100": (1000, 1000)}


def test_more_pods_than_there_can_be_are_not_counted_one_by_one() -> None:
    """Mutant: clipped, so that what was granted was less than what Kueue let in; and 150 Jobs of
    100,000 Pods kept the observer busy for most of its time."""
    _, workload = waiting(count=PODS_MAX)
    assert len(asked_by_native(workload, pools_of())["h100"]) == PODS_MAX
    item, workload = waiting(count=PODS_MAX + 1)
    with pytest.raises(Odd, match=f"it asks for {PODS_MAX + 1} Pods, and at most {PODS_MAX}"):
        asked_by_native(workload, pools_of())
    api: Any = AnApi()
    control = KubernetesNatives(api, lambda: alone(item, workload, []), pools_of())
    control.start(ref_to(item), GRANTED)
    assert (api.patches, api.votes) == ([], [])


@pytest.mark.parametrize("act", [KubernetesNatives.stop, KubernetesNatives.cancel])
def test_what_a_finished_workload_left_running_is_ended(
    act: Callable[[KubernetesNatives, NativeRef], None],
) -> None:
    """A Job that its owner deleted and keeps by a finalizer: for Kueue it has finished, and its
    Pods run on.

    Mutant: only what was ending already was ended; it could not be reclaimed.
    """
    item, workload, pods = of_one(recorded("started"), "native-run")
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    workload = copy.deepcopy(workload)
    api: Any = AnApi()
    control = KubernetesNatives(api, lambda: alone(item, workload, pods), pools_of())
    control.stop(ref_to(item))
    assert api.deleted == []

    workload["status"]["conditions"].append({"type": "Finished", "status": "True"})
    pods = copy.deepcopy(pods)
    pods[0]["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 1,
    }
    api.patches.clear()
    act(control, ref_to(item))
    assert api.deleted == [pod["metadata"]["uid"] for pod in pods[1:]]
    assert api.patches == []

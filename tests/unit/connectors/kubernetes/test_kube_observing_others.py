"""What is not ours on a real Kubernetes with Kueue, and what only says that it is."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from builders.kube_states import (
    CLUSTER_ID,
    H100,
    NAMESPACE,
    PRODUCT_LABEL,
    Gang,
    a_node,
    alone,
    ended,
    finished,
    listed,
    of_one,
    only,
    pools_of,
    recorded,
)
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import KubeState, pods_of_ours
from connectors.kubernetes.workloads.observing import listing_of
from connectors.protocol import (
    NativeWorkload,
    Outcome,
    RankSlot,
    WorkloadPhase,
)

HELD, STARTING, RUNNING = WorkloadPhase.HELD, WorkloadPhase.STARTING, WorkloadPhase.RUNNING
STOPPING, ENDED = WorkloadPhase.STOPPING, WorkloadPhase.ENDED
#: When the recording's cluster admitted most of it.
ADMITTED = 1_795_294_377


def test_natives_and_foreign_pods() -> None:
    """Mutant: what waits for our vote held GPUs."""
    at = ADMITTED - 3
    found = {one.name: one for one in listed(recorded("started")).natives}
    assert set(found) == {"native-gated", "native-held", "native-run", "default-x/foreign-0-m8m79"}
    run = found["native-run"]
    assert run == NativeWorkload(
        native_id=run.native_id,
        submitted_at=at,
        name="native-run",
        account=NAMESPACE,
        user="",
        pool="h100",
        mgpu=4_000,
        native_state="Admitted",
        phase=RUNNING,
        # Admitted 2 s before its first container began.
        started_at=at + 4,
        slots=(RankSlot("gpu-000", 2_000), RankSlot("gpu-004", 2_000)),
        ranks_mgpu=(2_000, 2_000),
    )
    gated = found["native-gated"]
    assert (gated.phase, gated.native_state) == (HELD, "Pending (AdmissionGated)")
    assert (gated.slots, gated.mgpu, gated.ranks_mgpu) == ((), 4_000, (2_000, 2_000))
    held = found["native-held"]
    assert (held.phase, held.native_state, held.slots) == (HELD, "QuotaReserved", ())
    foreign = found["default-x/foreign-0-m8m79"]
    assert (foreign.account, foreign.user, foreign.phase) == ("", "", RUNNING)
    assert foreign.place == "default-x"
    assert foreign.slots == (RankSlot("gpu-008", 2_000),)


def test_pods_on_a_node_of_several_pools_are_of_the_pool_of_what_they_ask_for() -> None:
    """One that asks for GPUs of several kinds holds some of each.

    Mutants: the first pool of the node; all of them in one; nothing of what cannot be told.
    """
    product = {PRODUCT_LABEL: H100}
    small = "nvidia.com/mig-1g.10gb"
    node = a_node("gpu-008")
    for where in ("capacity", "allocatable"):
        node["status"][where] = {"nvidia.com/gpu": "6", small: "7"}
    pools = pools_of(
        h100={"node_selector": product},
        small={"node_selector": product, "resource": small, "mgpu_per_unit": 125},
        far={"node_selector": {"zone": "b"}, "resource": "nvidia.com/mig-3g.40gb"},
    )
    pods = recorded("started").pods
    source = next(one for one in pods if one["metadata"]["name"].startswith("foreign-0"))

    def holds(**limits: str) -> list[tuple[str, int, tuple[RankSlot, ...], bool]]:
        pod = copy.deepcopy(source)
        pod["spec"]["containers"][0]["resources"] = {"limits": limits}
        state = alone(None, None, [pod], nodes=(node,))
        listing = listing_of(state, cluster_id=CLUSTER_ID, pools=pools)
        return [(one.pool, one.mgpu, one.slots, one.is_mixed) for one in listing.natives]

    assert holds(**{small: "2"}) == [("small", 250, (RankSlot("gpu-008", 250),), False)]
    assert holds(**{"nvidia.com/gpu": "1"}) == [
        ("h100", 1_000, (RankSlot("gpu-008", 1_000),), False)
    ]
    both = holds(**{"nvidia.com/gpu": "1", small: "2", "nvidia.com/mig-3g.40gb": "1"})
    assert both == [
        ("h100", 1_000, (RankSlot("gpu-008", 1_000),), True),
        ("small", 250, (RankSlot("gpu-008", 250),), True),
    ]
    assert [one[0] for one in holds(**{"nvidia.com/mig-3g.40gb": "1"})] == [""]


@pytest.mark.parametrize(
    ("began", "phase", "started_at"),
    [
        ((40, 45), "Running", ADMITTED - 1 + 40),
        ((None, None), "Pending", None),
        ((None, 45), "Pending", ADMITTED - 1 + 45),
        # A node whose clock is late: not before it was admitted.
        ((-5, -5), "Running", ADMITTED - 1),
    ],
    ids=["running", "no container yet", "one of two", "a late clock"],
)
def test_a_native_is_charged_from_its_first_container_on(
    began: tuple[int | None, int | None], phase: str, started_at: int | None
) -> None:
    """Planted: from its admission on, which may be a minute before while images are pulled or
    the API server is away."""
    state = copy.deepcopy(recorded("started"))
    (item,) = (one for one in state.objects if one["metadata"]["name"] == "native-run")
    uid = item["metadata"]["uid"]
    pods = [
        pod
        for pod in state.pods
        if any(owner["uid"] == uid for owner in pod["metadata"]["ownerReferences"])
    ]
    for pod, after_s in zip(pods, began, strict=True):
        pod["status"]["phase"] = phase if after_s is not None else "Pending"
        (status,) = pod["status"]["containerStatuses"]
        if after_s is None:
            status["state"] = {"waiting": {"reason": "ContainerCreating"}}
        else:
            at = datetime.fromtimestamp(ADMITTED - 1 + after_s, UTC)
            status["state"] = {"running": {"startedAt": f"{at:%Y-%m-%dT%H:%M:%SZ}"}}
    (run,) = (one for one in listed(state).natives if one.name == "native-run")
    assert run.started_at == started_at


def container(at_s: int | None, *, is_over: bool = False) -> dict[str, Any]:
    """The state of a container that started so long after the admission."""
    if at_s is None:
        return {"waiting": {"reason": "PodInitializing"}}
    at = f"{datetime.fromtimestamp(ADMITTED - 1 + at_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    end = f"{datetime.fromtimestamp(ADMITTED - 1 + at_s + 7, UTC):%Y-%m-%dT%H:%M:%SZ}"
    if is_over:
        return {"terminated": {"startedAt": at, "finishedAt": end, "exitCode": 1}}
    return {"running": {"startedAt": at}}


@pytest.mark.parametrize(
    ("init", "before", "main", "phase", "started_at"),
    [
        (container(40), None, None, "Pending", ADMITTED - 1 + 40),
        (container(40, is_over=True), None, None, "Failed", ADMITTED - 1 + 40),
        (container(40, is_over=True), None, 60, "Running", ADMITTED - 1 + 40),
        # Between two tries, and in the second one.
        (container(None), container(40, is_over=True), None, "Pending", ADMITTED - 1 + 40),
        (container(55), container(40, is_over=True), None, "Pending", ADMITTED - 1 + 40),
        # A node whose clock is late: not before it was admitted.
        (container(-5), None, None, "Pending", ADMITTED - 1),
        (container(None), None, None, "Pending", None),
    ],
    ids=["runs", "failed", "before the script", "waits", "again", "a late clock", "no container"],
)
def test_a_native_pays_for_its_init_containers(
    init: dict[str, Any],
    before: dict[str, Any] | None,
    main: int | None,
    phase: str,
    started_at: int | None,
) -> None:
    """Planted: the start of `containerStatuses` alone, so that GPUs used in an init container that
    fails were free of charge; without `lastState`; a late clock that counts as no start."""
    item, workload, pods = of_one(recorded("started"), "native-run")
    pods = copy.deepcopy(pods)
    for pod in pods:
        status = pod["status"]
        status["phase"] = phase
        (script,) = status["containerStatuses"]
        script["state"] = container(main)
        one = {"name": "fetch", "state": init}
        status["initContainerStatuses"] = [one | ({"lastState": before} if before else {})]
    (run,) = listed(alone(item, workload, pods)).natives
    assert run.started_at == started_at


def test_a_native_that_failed_in_an_init_container_pays_until_its_end() -> None:
    """Planted: the start of `containerStatuses` alone; it ended without having begun."""
    item, workload, pods = of_one(recorded("started"), "native-run")
    pods = copy.deepcopy(pods)
    for pod in pods:
        pod["status"]["phase"] = "Failed"
        pod["status"]["containerStatuses"][0]["state"] = container(None)
        over = {"name": "fetch", "state": container(4, is_over=True)}
        pod["status"]["initContainerStatuses"] = [over]
    failed = finished(item, "Failed", "BackoffLimitExceeded")
    (run,) = listed(alone(failed, workload, pods)).natives
    # 20:53:12, when its controller said so.
    assert (run.phase, run.outcome) == (ENDED, Outcome.FAILED)
    assert (run.started_at, run.ended_at) == (ADMITTED + 3, 1_795_294_392)


def test_the_first_of_several_containers_counts() -> None:
    """Planted: that of the first container in the list."""
    item, workload, pods = of_one(recorded("started"), "native-run")
    pods = copy.deepcopy(pods)
    for pod in pods:
        pod["status"]["containerStatuses"] = [
            {"name": "late", "state": container(60)},
            {"name": "soon", "state": container(40)},
        ]
    (run,) = listed(alone(item, workload, pods)).natives
    assert run.started_at == ADMITTED - 1 + 40


def test_what_a_cluster_adds_to_a_job_of_ours_is_not_charged(gang: Gang) -> None:
    """Planted: init containers count for all. A job of ours has none of its own."""
    item, workload, pods = gang
    pods = copy.deepcopy(pods)
    for pod in pods:
        pod["status"]["initContainerStatuses"] = [
            {"name": "proxy", "state": container(40, is_over=True)}
        ]
        pod["status"]["containerStatuses"][0]["state"] = container(60)
    assert only(alone(item, workload, pods)).started_at == ADMITTED - 1 + 60
    for pod in pods:
        pod["status"]["phase"] = "Pending"
        pod["status"]["containerStatuses"][0]["state"] = container(None)
    assert only(alone(item, workload, pods)).started_at is None


def test_a_native_without_pods_says_why() -> None:
    """An ordinary Pod is refused by Pod Security: it held its GPUs, and nobody said a word."""
    state = recorded("started")
    (item,) = (one for one in state.objects if one["metadata"]["name"] == "native-run")
    uid = item["metadata"]["uid"]
    pods = tuple(
        pod
        for pod in state.pods
        if all(owner["uid"] != uid for owner in pod["metadata"]["ownerReferences"])
    )
    refusal = {
        "reason": "FailedCreate",
        "message": 'pods "x" is forbidden: violates PodSecurity "restricted:latest"',
        "involvedObject": {"uid": uid},
    }

    def message(since_s: int) -> str:
        found = replace(state, pods=pods, events=(refusal,), observed_at=ADMITTED - 1 + since_s)
        (run,) = (one for one in listed(found).natives if one.name == "native-run")
        # Admitted is not started: nobody pays for what gets no Pods.
        assert (run.phase, run.slots, run.started_at) == (STARTING, (), None)
        assert run.is_stuck == (run.message != "")
        return run.message

    assert message(29) == ""
    assert message(30) == (
        'The cluster does not start it: the cluster refuses to make its Pods (pods "x" is '
        'forbidden: violates PodSecurity "restricted:latest").'
    )


@pytest.mark.parametrize(
    ("reason", "phase", "outcome"),
    [
        ("DeactivatedDueToMaximumExecutionTimeExceeded", ENDED, Outcome.TIMED_OUT),
        ("DeactivatedDueToRequeuingLimitExceeded", ENDED, Outcome.START_FAILED),
        ("DeactivatedDueToAdmissionCheck", ENDED, Outcome.STOPPED),
        # By somebody's hand, or for a while: granted again, it runs.
        ("Deactivated", HELD, None),
        ("ClusterQueueStopped", HELD, None),
    ],
)
def test_a_native_that_kueue_lets_in_no_more_has_ended(
    reason: str, phase: WorkloadPhase, outcome: Outcome | None
) -> None:
    """It was granted anew every quarter of an hour, and held its GPUs for nothing each time.

    Mutants: ended with Pods left; it waited again after its last Pod and before Kueue said so.
    """
    state = copy.deepcopy(recorded("started"))
    (workload,) = (
        one
        for one in state.workloads
        if one["metadata"]["ownerReferences"][0]["name"] == "native-run"
    )
    uid = workload["metadata"]["ownerReferences"][0]["uid"]
    at = "2026-11-21T20:53:20Z"
    workload["spec"]["active"] = False
    workload["status"]["accumulatedPastExecutionTimeSeconds"] = 20
    workload["status"]["conditions"] = [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "so",
            "lastTransitionTime": at,
        }
        for type_, status in (
            ("QuotaReserved", "False"),
            ("Admitted", "False"),
            ("Evicted", "True"),
        )
    ]

    def look(found: KubeState) -> NativeWorkload:
        (run,) = (one for one in listed(found).natives if one.name == "native-run")
        return run

    # Its GPUs are free when its Pods are gone.
    assert (look(state).phase, look(state).outcome, look(state).mgpu) == (STOPPING, None, 4_000)
    pods = tuple(
        pod
        for pod in state.pods
        if all(owner["uid"] != uid for owner in pod["metadata"]["ownerReferences"])
    )
    run = look(replace(state, pods=pods))
    assert (run.phase, run.outcome, run.is_released) == (phase, outcome, phase is ENDED)
    if phase is ENDED:
        times = (run.started_at, run.ended_at)
        assert times == (1_795_294_400 - 20, state.observed_at)
        assert run.message.endswith(f"({reason}: so).")
    # Active again, it is let in no more all the same.
    workload["spec"]["active"] = True
    assert look(replace(state, pods=pods)).phase is phase
    # Its Pods are gone, which Kueue has not seen yet.
    workload["status"]["conditions"][1]["status"] = "True"
    assert look(replace(state, pods=pods)).phase is (STOPPING if phase is ENDED else HELD)


def test_a_pod_in_a_queue_waits_for_its_grant(gang: Gang) -> None:
    """Mutant: it counted as being stopped, as there is a Pod of it, and was never granted."""
    _, workload, (pod, _) = gang
    workload, pod = copy.deepcopy(workload), copy.deepcopy(pod)
    uid = pod["metadata"]["uid"]
    pod["metadata"] |= {"name": "notebook", "labels": {}, "annotations": {}, "ownerReferences": []}
    pod["spec"] |= {"nodeName": "", "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    pod["status"] = {"phase": "Pending"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "notebook", "uid": uid, "controller": True}
    workload["metadata"] |= {"name": "pod-notebook", "labels": {}, "ownerReferences": [owner]}
    workload["metadata"]["annotations"] = {}
    workload["spec"]["podSets"][0]["count"] = 1
    (quota,) = (one for one in workload["status"]["conditions"] if one["type"] == "QuotaReserved")
    workload["status"]["conditions"] = [quota]

    (waits,) = listed(alone(None, workload, [pod])).natives
    assert (waits.phase, waits.native_state) == (HELD, "QuotaReserved")
    assert (waits.native_id, waits.slots, waits.mgpu) == (uid, (), 2_000)
    # Its node is its end of waiting.
    placed = copy.deepcopy(pod)
    placed["spec"] |= {"nodeName": "gpu-000", "schedulingGates": []}
    (ends,) = listed(alone(None, workload, [placed])).natives
    assert (ends.phase, ends.slots) == (STOPPING, (RankSlot("gpu-000", 2_000),))
    # One of a Deployment's, which nobody watches: its GPUs are held once, and not outside.
    made = copy.deepcopy(placed)
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "set", "controller": True}
    ]
    (ends,) = listed(alone(None, workload, [made])).natives
    assert (ends.native_id, ends.slots) == (uid, (RankSlot("gpu-000", 2_000),))


def test_a_workload_that_names_a_pod_of_ours_as_its_owner_takes_nothing_away(gang: Gang) -> None:
    """Mutant: what a Workload says of its owner came before whose Pod it is."""
    item, workload, pods = gang
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": pods[0]["metadata"]["uid"]}
    forged = copy.deepcopy(workload)
    forged["metadata"] |= {"name": "forged", "uid": "forged", "ownerReferences": [owner]}
    before = alone(item, workload, pods)
    state = replace(before, workloads=(workload, forged))
    assert only(state) == only(before)
    assert only(state).slots is not None


def test_what_other_installations_have_is_native_here() -> None:
    listing = listing_of(recorded("started"), cluster_id="another", pools=pools_of())
    assert listing.observations == {}
    assert {"tg-gang", "tg-set", "native-run"} <= {one.name for one in listing.natives}


def test_a_pod_with_a_made_up_owner_is_nobodys(gang: Gang) -> None:
    """Mutant: its labels and any uid made it an observation of the attempt of that key."""
    item, workload, pods = gang
    forged = copy.deepcopy(pods[0])
    forged["metadata"] |= {"name": "forged", "uid": "forged"}
    forged["metadata"]["ownerReferences"][0]["uid"] = "made-up"
    listing = listed(alone(None, None, [forged]))
    assert listing.observations == {}
    assert [(one.native_id, one.account) for one in listing.natives] == [("forged", "")]
    listing = listed(alone(item, workload, [*pods, forged]))
    assert listing.copies == {}
    assert listing.observations["tg-gang"].native_id == item["metadata"]["uid"]
    assert [one.native_id for one in listing.natives] == ["forged"]
    # Nor that of what was ours in another namespace, or of another key.
    elsewhere = copy.deepcopy(item)
    elsewhere["metadata"] |= {"uid": "made-up", "namespace": "tg-00000000000000ff"}
    other = copy.deepcopy(item)
    other["metadata"] |= {"uid": "made-up"}
    other["metadata"]["annotations"] |= {naming.KEY: "tg-other"}
    for gone in (elsewhere, other):
        assert listed(alone(None, None, [forged], gone_objects=(gone,))).observations == {}


def test_pods_beyond_those_of_the_workload_are_held_outside(gang: Gang) -> None:
    """Mutant: whatever named the object as its owner was free for the team."""
    item, workload, pods = gang
    more = copy.deepcopy(pods[0])
    more["metadata"] |= {"name": "more", "uid": "zz", "creationTimestamp": "2026-11-21T20:59:00Z"}
    listing = listed(alone(item, workload, [*pods, more]))
    assert [(one.native_id, one.account) for one in listing.natives] == [("zz", "")]
    assert listing.natives[0].mgpu > 0
    seen = listing.observations["tg-gang"]
    assert seen.slots is not None
    assert len(seen.slots) == len(pods)
    # One that has ended holds nothing, and has a successor.
    listing = listed(alone(item, workload, [ended(pods[0], 1), pods[1], more]))
    assert listing.natives == ()


def test_the_ranks_of_ours() -> None:
    found = [
        (key, rank) for key, rank, _ in pods_of_ours(recorded("started"), cluster_id=CLUSTER_ID)
    ]
    assert sorted(found) == [
        *(("tg-bad", 0), ("tg-gang", 0), ("tg-gang", 1), ("tg-good", 0), ("tg-obeys", 0)),
        *(("tg-set", 0), ("tg-set", 1), ("tg-set", 2), ("tg-stopped", 0), ("tg-stopped", 1)),
        ("tg-unsched", 0),
    ]


def test_logs_are_those_of_the_pods_of_an_object_of_ours(gang: Gang) -> None:
    """Mutant: a label and an annotation were enough; anybody wrote into the log of a rank."""
    item, _, pods = gang

    def ranks(*found: dict[str, Any], **more: Any) -> list[str]:
        state = alone(item, None, list(found), **more)
        return [pod["metadata"]["uid"] for _, _, pod in pods_of_ours(state, cluster_id=CLUSTER_ID)]

    genuine = [pod["metadata"]["uid"] for pod in pods]
    assert ranks(*pods) == genuine
    made_up = copy.deepcopy(pods[0])
    made_up["metadata"]["ownerReferences"][0]["uid"] = "made-up"
    alone_there = copy.deepcopy(pods[0])
    del alone_there["metadata"]["ownerReferences"]
    of_another_key = copy.deepcopy(pods[0])
    of_another_key["metadata"]["annotations"] |= {naming.KEY: "tg-other"}
    assert ranks(made_up, alone_there, of_another_key) == []
    assert ranks(of_another_namespace(pods[0], "far")) == []
    gone = copy.deepcopy(item)
    gone["metadata"]["uid"] = "made-up"
    assert ranks(made_up, gone_objects=(gone,)) == genuine[:1]


def of_another_namespace(source: dict[str, Any], uid: str) -> dict[str, Any]:
    found = copy.deepcopy(source)
    found["metadata"] |= {"namespace": "tg-00000000000000ff", "uid": uid}
    return found


def test_what_is_elsewhere_belongs_to_nothing_here(gang: Gang) -> None:
    """Whoever may create Pods in one namespace writes the owner of another team's into them.

    Mutant: a Pod was its owner's wherever it was; the other team's job never ended.
    """
    item, workload, pods = gang
    intruder = of_another_namespace(pods[0], "an-intruder")
    foreign_workload = of_another_namespace(workload, "a-workload-of-theirs")
    done = finished(item, "Complete", "CompletionsReached")
    over = [ended(pod, 0) for pod in pods]
    state = replace(
        alone(done, workload, [*over, intruder]), workloads=(workload, foreign_workload)
    )
    listing = listed(state)
    (observation,) = (one for one in listing.observations.values() if one.key == "tg-gang")
    assert (observation.phase, observation.is_released) == (ENDED, True)
    assert not listing.copies
    assert [(one.name, one.account) for one in listing.natives if one.slots] == [
        (f"tg-00000000000000ff/{pods[0]['metadata']['name']}", "")
    ]


def test_nonsense_elsewhere_hides_nothing_here(gang: Gang) -> None:
    """Mutant: the job of another team that it names as its owner could not be read any more."""
    item, workload, pods = gang
    intruder = of_another_namespace(pods[0], "an-intruder")
    intruder["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "x"}}
    listing = listed(alone(item, workload, [*pods, intruder]))
    assert [one.phase for one in listing.observations.values()] == [RUNNING]
    assert [one.native_id for one in listing.unread] == ["an-intruder"]

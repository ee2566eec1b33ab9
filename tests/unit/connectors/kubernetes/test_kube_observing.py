"""What a real Kubernetes and Kueue said, in the words of the protocol."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from builders.kube_states import (
    NAMESPACE,
    Gang,
    alone,
    ended,
    finished,
    listed,
    of_one,
    only,
    pools_of,
    recorded,
)
from connectors.kubernetes.manifests.asking import asked_by_pool
from connectors.kubernetes.objects import naming
from connectors.kubernetes.objects.cluster_state import KubeState
from connectors.protocol import (
    Observation,
    Outcome,
    RankSlot,
    Unread,
    WorkloadPhase,
)

HELD, STARTING, RUNNING = WorkloadPhase.HELD, WorkloadPhase.STARTING, WorkloadPhase.RUNNING
STOPPING, ENDED = WorkloadPhase.STOPPING, WorkloadPhase.ENDED
#: When the recording's cluster admitted most of it.
ADMITTED = 1_795_294_377


def short(observation: Observation) -> tuple[Any, ...]:
    return (
        observation.phase,
        observation.native_state,
        observation.started_at,
        observation.released_at,
        observation.outcome,
        dict(observation.exit_codes),
    )


def as_submitted(state: KubeState) -> KubeState:
    """With what was submitted noted on each object that Kueue has taken so."""
    for item in state.objects:
        for workload in state.workloads:
            owners = workload["metadata"].get("ownerReferences", ())
            if any(owner["uid"] == item["metadata"]["uid"] for owner in owners):
                ranks = asked_by_pool(workload, pools_of()).get("h100", ())
                words = ", ".join(f"{ranks.count(one)}x{one} h100" for one in sorted({*ranks}))
                item["metadata"].setdefault("annotations", {})[naming.ASKED] = words or "none"
    return state


def test_what_was_changed_on_the_cluster_is_stuck_and_says_so() -> None:
    """Mutant: held in silence; its GPUs waited for a vote that never came."""
    state = as_submitted(recorded("waiting"))
    item, workload, _ = of_one(state, "tg-gang")
    before = item["metadata"]["annotations"][naming.ASKED]
    workload["spec"]["podSets"][0]["count"] = 99
    observation = listed(state).observations["tg-gang"]
    assert (observation.phase, observation.is_stuck) == (HELD, True)
    assert before == "2x2000 h100"
    assert observation.message == (
        "The cluster does not start it: somebody changed on the cluster what it asks for, and only "
        "what was submitted is started (99 x 2 GPUs of h100 in place of 2 x 2 GPUs of h100)."
    )


def test_what_waits_for_our_vote_is_held() -> None:
    listing = listed(as_submitted(recorded("waiting")))
    assert listing.unread == ()
    assert listing.observed_at == 1_795_294_376
    tiny = "Pending (Pending)"
    missing = "Pending (Inadmissible)"
    states = {key: (one.phase, one.native_state) for key, one in listing.observations.items()}
    assert states == {
        **dict.fromkeys(
            ("tg-bad", "tg-gang", "tg-good", "tg-never", "tg-obeys", "tg-set", "tg-stopped"),
            (HELD, "QuotaReserved"),
        ),
        **dict.fromkeys(("tg-unsched", "tg-waits"), (HELD, "QuotaReserved")),
        "tg-tiny": (HELD, tiny),
        "tg-noqueue": (HELD, missing),
    }
    assert {key for key, one in listing.observations.items() if one.is_stuck} == {
        "tg-tiny",
        "tg-noqueue",
    }
    assert listing.observations["tg-noqueue"].message == (
        "The cluster does not start it: its queue in Kueue is missing or set up wrongly "
        "(Inadmissible: LocalQueue nope doesn't exist)."
    )
    assert listing.observations["tg-tiny"].message == (
        "The cluster does not start it: it asks for more than its queue in Kueue may ever have "
        "(Pending: couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu "
        "in flavor h100, previously considered podsets requests (0) + current podset request (8) > "
        "maximum capacity (4))."
    )
    gang = listing.observations["tg-gang"]
    item, _, _ = of_one(recorded("waiting"), "tg-gang")
    assert gang == Observation(
        key="tg-gang",
        native_id=item["metadata"]["uid"],
        native_state="QuotaReserved",
        phase=HELD,
        submitted_at=1_795_294_374,
        account=NAMESPACE,
    )


def test_what_was_voted_for_runs_or_has_ended() -> None:
    """Mutants: STARTING for what runs; the end of a Job without its Pods' exit codes; a gang with
    its ranks in the order of the list."""
    found = {key: short(one) for key, one in listed(recorded("started")).observations.items()}
    at = ADMITTED
    failed = (ENDED, "Finished (BackoffLimitExceeded)", at + 1, at + 2, Outcome.FAILED, {0: 3})
    done = (ENDED, "Finished (CompletionsReached)", at + 1, at + 2, Outcome.SUCCEEDED, {0: 0})
    assert found["tg-bad"] == failed
    assert found["tg-good"] == done
    assert found["tg-gang"] == (RUNNING, "Admitted", at + 1, None, None, {})
    assert found["tg-set"] == (RUNNING, "Admitted", at + 3, None, None, {})
    assert found["tg-stopped"] == (RUNNING, "Admitted", at + 2, None, None, {})
    assert found["tg-unsched"] == (STARTING, "Admitted", None, None, None, {})
    assert found["tg-waits"] == (HELD, "QuotaReserved", None, None, None, {})
    whole = listed(recorded("started")).observations
    assert whole["tg-gang"].slots == (RankSlot("gpu-007", 2_000), RankSlot("gpu-008", 2_000))
    # A leader and two workers of a JobSet are its ranks 0, 1 and 2.
    assert whole["tg-set"].slots == (
        RankSlot("gpu-000", 1_000),
        RankSlot("gpu-006", 1_000),
        RankSlot("gpu-010", 1_000),
    )
    # Whatever the order in which the cluster lists them.
    turned = replace(recorded("started"), pods=recorded("started").pods[::-1])
    assert listed(turned).observations == whole
    assert (whole["tg-gang"].pool, whole["tg-gang"].account) == ("h100", NAMESPACE)
    assert whole["tg-unsched"].is_stuck is True
    assert whole["tg-unsched"].message.startswith(
        "The cluster does not start it: no node can take one of its Pods now (Unschedulable: 0/16 "
        "nodes are available: 16 node(s) didn't match Pod's node affinity/selector."
    )


def test_what_was_stopped_is_released_when_no_pod_is_left() -> None:
    """Kueue frees the quota seconds before the GPUs are free.

    Mutant: released with its reservation; tg-stopped was, with two Pods alive.
    """
    found = listed(recorded("stopping")).observations
    at = ADMITTED
    stopped = (STOPPING, "Evicted (Deactivated)", at + 2, None, None, {})
    assert short(found["tg-stopped"]) == stopped
    assert found["tg-stopped"].is_released is False
    obeyed = (ENDED, "Evicted (Deactivated)", at + 1, at + 9, Outcome.STOPPED, {})
    assert short(found["tg-obeys"]) == obeyed
    never = (ENDED, "Evicted (Deactivated)", None, at + 6, Outcome.STOPPED, {})
    assert short(found["tg-never"]) == never
    after = listed(recorded("node-down")).observations["tg-stopped"]
    ended_now = (ENDED, "Evicted (Deactivated)", at + 1, at + 15, Outcome.STOPPED, {})
    assert short(after) == ended_now
    assert after.ended_at == at + 6


def test_pods_that_somebody_remembers_tell_when_and_how_a_stop_ended() -> None:
    item, workload, _ = of_one(recorded("after"), "tg-stopped")
    _, _, pods = of_one(recorded("stopping"), "tg-stopped")
    gone = [
        ended(pods[0], 143, at="2026-11-21T20:53:03Z"),
        ended(pods[1], 137, '{"signal": 9, "noticed": true}', at="2026-11-21T20:53:07Z"),
    ]
    seen = only(alone(item, workload, [], gone=gone))
    assert (seen.phase, seen.outcome, seen.exit_codes) == (ENDED, Outcome.STOPPED, {0: -15, 1: -9})
    assert (seen.ended_at, seen.released_at) == (1_795_294_387, 1_795_294_387)
    assert seen.slots == (RankSlot("gpu-007", 2_000), RankSlot("gpu-010", 2_000))
    # Where the end of one rank is unknown, it was its absence that was listed.
    seen = only(alone(item, workload, [], gone=gone[:1]))
    assert (seen.ended_at, seen.released_at) == (1_795_294_383, 1_795_294_500)


def test_a_lost_node() -> None:
    found = listed(recorded("after")).observations["tg-gang"]
    assert (found.phase, found.outcome, found.message) == (
        ENDED,
        Outcome.NODE_FAILED,
        "Pods of it were taken away on the cluster (BackoffLimitExceeded: Job has reached the "
        "specified backoff limit).",
    )
    # With its Pods it is known who took them.
    item, workload, _ = of_one(recorded("after"), "tg-gang")
    _, _, pods = of_one(recorded("started"), "tg-gang")
    gone = [ended(pod, 143) for pod in pods]
    gone[0]["status"]["conditions"].append(
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
    )
    found = only(alone(item, workload, [], gone=gone))
    assert (found.outcome, found.message) == (
        Outcome.NODE_FAILED,
        "The node of one of its Pods was tainted (DeletionByTaintManager: Taint manager: deleting "
        "due to NoExecute taint).",
    )


@pytest.mark.parametrize(
    ("ends", "outcome", "codes", "message"),
    [
        (((0, '{"exit": 0}'), (0, "")), Outcome.SUCCEEDED, {0: 0, 1: 0}, ""),
        (
            ((0, '{"exit": 9, "noticed": true}'), (0, '{"exit": 0}')),
            Outcome.FAILED,
            {0: 9, 1: 0},
            "",
        ),
        (((0, 'x\n{"signal": 15}\n'), (0, "")), Outcome.FAILED, {0: -15, 1: 0}, ""),
        (
            ((0, '{"exit": 0, "timed_out": true}'), (0, "")),
            Outcome.TIMED_OUT,
            {0: 0, 1: 0},
            "",
        ),
        (((0, '{"exit": "9"}'), (0, '{"exit": 999}')), Outcome.SUCCEEDED, {0: 0, 1: 0}, ""),
        (((0, '{"exit": true}'), (0, "{")), Outcome.SUCCEEDED, {0: 0, 1: 0}, ""),
    ],
)
def test_a_complete_gang(
    gang: Gang, ends: Any, outcome: Outcome, codes: dict[int, int], message: str
) -> None:
    """Its launchers leave with 0 after a notice, so that what the ranks left counts.

    Mutant: a complete Job was a success whatever they left.
    """
    item, workload, pods = gang
    over = [ended(pod, *end) for pod, end in zip(pods, ends, strict=True)]
    seen = only(alone(finished(item, "Complete", "CompletionsReached"), workload, over))
    assert (seen.phase, seen.outcome, seen.exit_codes, seen.message) == (
        ENDED,
        outcome,
        codes,
        message,
    )
    assert (seen.ended_at, seen.released_at) == (1_795_294_390, 1_795_294_390)


@pytest.mark.parametrize(
    ("exit_code", "message", "reason", "outcome", "codes", "said"),
    [
        (3, "", "BackoffLimitExceeded", Outcome.FAILED, {0: 3}, ""),
        (137, "", "BackoffLimitExceeded", Outcome.FAILED, {0: -9}, ""),
        (200, "", "BackoffLimitExceeded", Outcome.FAILED, {0: 200}, ""),
        (137, '{"signal": 9, "timed_out": true}', "Backoff", Outcome.TIMED_OUT, {0: -9}, ""),
        (143, "", "DeadlineExceeded", Outcome.TIMED_OUT, {0: -15}, ""),
        (
            127,
            '{"start_failed": "there is no /bin/no"}',
            "BackoffLimitExceeded",
            Outcome.START_FAILED,
            {},
            "rank 0: there is no /bin/no",
        ),
    ],
)
def test_a_failed_gang(
    gang: Gang,
    exit_code: int,
    message: str,
    reason: str,
    outcome: Outcome,
    codes: dict[int, int],
    said: str,
) -> None:
    item, workload, pods = gang
    over = [ended(pods[0], exit_code, message)]
    failed = finished(item, "Failed", reason)
    stopping = only(alone(failed, workload, [*over, pods[1]]))
    assert (stopping.phase, stopping.is_released, stopping.outcome) == (STOPPING, False, None)
    seen = only(alone(failed, workload, over))
    assert (seen.outcome, seen.exit_codes, seen.message) == (outcome, codes, said)
    # The other rank's end is unknown: the Job's own word bounds it.
    assert (seen.ended_at, seen.released_at) == (1_795_294_392, 1_795_294_392)


def test_a_gang_of_which_some_pods_are_there_has_no_smaller_size(gang: Gang) -> None:
    """Planted: a look between the making of two Pods; the attempt was resized to one of them, and
    metered so until both ran."""
    item, workload, pods = gang
    first = copy.deepcopy(pods[0])
    first["status"]["phase"] = "Pending"
    seen = only(alone(item, workload, [first]))
    assert (seen.phase, seen.slots) == (STARTING, None)
    second = {**copy.deepcopy(pods[1]), "status": first["status"]}
    whole = only(alone(item, workload, [first, second]))
    assert whole.slots is not None
    assert len(whole.slots) == 2


def test_a_rank_that_ended_early_is_told_while_others_run(gang: Gang) -> None:
    item, workload, pods = gang
    early = ended(pods[0], 0, '{"exit": 9, "noticed": true}')
    seen = only(alone(item, workload, [early, pods[1]]))
    assert (seen.phase, seen.exit_codes) == (RUNNING, {0: 9})


def test_what_kueue_took_back_has_ended_and_never_starts_again(gang: Gang) -> None:
    """Mutants: held again once Kueue had reserved its quota anew; running."""
    item, workload, pods = gang
    said = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "for a workload of higher priority",
        "lastTransitionTime": "2026-11-21T20:53:20Z",
    }
    evicted = copy.deepcopy(workload)
    evicted["status"]["conditions"].append(said)
    seen = only(alone(item, evicted, pods))
    assert (seen.phase, seen.native_state) == (STOPPING, "Evicted (Preempted)")
    asleep = finished(item, "Suspended", "JobSuspended")
    asleep["spec"]["suspend"] = True
    # The Job's controller has not seen it: it may be making Pods now.
    assert only(alone(item, evicted, [])).phase is STOPPING
    seen = only(alone(asleep, evicted, []))
    assert (seen.phase, seen.outcome, seen.message) == (
        ENDED,
        Outcome.PREEMPTED,
        "Kueue itself preempted it (Preempted: for a workload of higher priority).",
    )
    times = (seen.started_at, seen.ended_at, seen.released_at)
    assert times == (ADMITTED, ADMITTED + 23, 1_795_294_500)
    # And reserved again by Kueue, which waits for a vote that never comes.
    again = copy.deepcopy(evicted)
    again["status"]["accumulatedPastExecutionTimeSeconds"] = 20
    again["status"]["schedulingStats"] = {"evictions": [{"reason": "Preempted", "count": 1}]}
    for one in again["status"]["conditions"]:
        if one["type"] in ("Admitted", "Evicted"):
            one |= {"status": "False", "lastTransitionTime": "2026-11-21T20:53:21Z"}
    assert only(alone(asleep, again, [])).phase is ENDED


def test_what_kueue_made_a_new_workload_for_was_preempted_not_stopped(gang: Gang) -> None:
    """Its Workload was deleted while it ran. We deactivate the next one, before or after it is
    looked at.

    Mutant: what is inactive was stopped by us.
    """
    item, workload, _ = gang
    asleep = finished(item, "Suspended", "JobSuspended")
    asleep["spec"]["suspend"] = True
    anew = copy.deepcopy(workload)
    del anew["status"]
    inactive = copy.deepcopy(anew)
    inactive["spec"]["active"] = False
    evicted = copy.deepcopy(inactive)
    evicted["status"] = {
        "conditions": [
            {
                "type": "Evicted",
                "status": "True",
                "reason": "Deactivated",
                "message": "The workload is deactivated",
                "lastTransitionTime": "2026-11-21T20:53:20Z",
            }
        ]
    }
    why = "It was begun anew on the cluster, which is not let happen."
    for found in (anew, inactive, evicted):
        seen = only(alone(asleep, found, []))
        assert (seen.phase, seen.outcome, seen.message) == (ENDED, Outcome.PREEMPTED, why)


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("Preempted", Outcome.PREEMPTED),
        ("NodeFailures", Outcome.NODE_FAILED),
        ("ClusterQueueStopped", Outcome.PREEMPTED),
        ("LocalQueueStopped", Outcome.PREEMPTED),
        ("PodsReadyTimeout", Outcome.START_FAILED),
        ("Deactivated", Outcome.STOPPED),
        ("DeactivatedDueToAdmissionCheck", Outcome.STOPPED),
        ("DeactivatedDueToSomethingNew", Outcome.STOPPED),
        ("SomethingNew", Outcome.PREEMPTED),
    ],
)
def test_who_took_it_back(gang: Gang, reason: str, outcome: Outcome) -> None:
    item, workload, _ = gang
    workload = copy.deepcopy(workload)
    workload["status"]["conditions"].append(
        {
            "type": "Evicted",
            "status": "True",
            "reason": reason,
            "message": "",
            "lastTransitionTime": "2026-11-21T20:53:20Z",
        }
    )
    asleep = finished(item, "Suspended", "JobSuspended")
    assert only(alone(asleep, workload, [])).outcome is outcome


@pytest.mark.parametrize(
    ("waiting", "is_stuck", "message"),
    [
        (
            {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'},
            True,
            "The cluster does not start it: its image cannot be drawn (ImagePullBackOff: Back-off "
            'pulling image "x").',
        ),
        (
            {"reason": "CreateContainerConfigError", "message": "secret not found"},
            True,
            "The cluster does not start it: its container cannot be made "
            "(CreateContainerConfigError: secret not found).",
        ),
        (
            {"reason": "ContainerCreating"},
            False,
            "It waits on the cluster: its Pods are being prepared on their nodes "
            "(ContainerCreating).",
        ),
        (
            {"reason": "SomethingNew", "message": "a\nb"},
            False,
            "It waits on the cluster: its container does not start (SomethingNew: a b).",
        ),
    ],
)
def test_pods_that_do_not_start(
    gang: Gang, waiting: dict[str, str], is_stuck: bool, message: str
) -> None:
    item, workload, pods = gang
    pods[0] = copy.deepcopy(pods[0])
    pods[0]["status"]["phase"] = "Pending"
    pods[0]["status"]["containerStatuses"][0]["state"] = {"waiting": waiting}
    seen = only(alone(item, workload, pods))
    assert (seen.phase, seen.is_stuck, seen.message) == (STARTING, is_stuck, message)


def test_an_admitted_workload_without_pods_says_so_after_a_while(gang: Gang) -> None:
    item, workload, _ = gang
    seen = only(alone(item, workload, [], observed_at=ADMITTED + 29))
    assert (seen.phase, seen.is_stuck, seen.message) == (STARTING, False, "")
    seen = only(alone(item, workload, [], observed_at=ADMITTED + 30))
    assert (seen.phase, seen.is_stuck, seen.message) == (
        STARTING,
        True,
        "The cluster does not start it: it was admitted and no Pod of it was made.",
    )
    refusal = {
        "reason": "FailedCreate",
        "message": 'pods "x" is forbidden: violates PodSecurity "restricted:latest"',
        "involvedObject": {"uid": item["metadata"]["uid"]},
    }
    seen = only(alone(item, workload, [], events=[refusal]))
    assert seen.message == (
        'The cluster does not start it: the cluster refuses to make its Pods (pods "x" is '
        'forbidden: violates PodSecurity "restricted:latest").'
    )


def with_end(item: Mapping[str, Any], kind: str, reason: str) -> dict[str, Any]:
    """The Job `item` after the end that the condition `kind` tells."""
    condition = {"type": kind, "status": "True", "reason": reason, "message": ""}
    return {**item, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("began", "starts_s"),
    [(("20:53:50", "20:53:51"), 53), ((None, "20:53:51"), 54), (("20:52:40", "20:52:41"), 0)],
    ids=["both", "the second alone", "by a clock that is late"],
)
def test_it_is_charged_from_its_first_container_on(
    gang: Gang, began: tuple[str | None, ...], starts_s: int
) -> None:
    """Admitted, and its Pods made and started 53 s later, as after an absence of the API server.
    Planted: charged from its admission; the last container; the clock of a node that is behind."""
    item, workload, pods = gang
    for pod, at in zip(pods, began, strict=True):
        (status,) = pod["status"]["containerStatuses"]
        running = {"running": {"startedAt": f"2026-11-21T{at}Z"}}
        state = running if at else {"waiting": {"reason": "ContainerCreating"}}
        pod["status"]["containerStatuses"] = [{**status, "state": state}]
        pod["status"]["phase"] = "Running" if at else "Pending"
    seen = only(alone(item, workload, pods))
    assert seen.started_at == ADMITTED + starts_s


def test_admitted_is_not_started_as_long_as_no_container_runs(gang: Gang) -> None:
    """Mutant: started when admitted. What had no image was never taken back, and was charged."""
    item, workload, pods = gang
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
    for pod in pods:
        pod["status"] = {**pod["status"], "phase": "Pending"}
        (status,) = pod["status"]["containerStatuses"]
        pod["status"]["containerStatuses"] = [{"name": status["name"], **waiting}]
    seen = only(alone(item, workload, pods))
    assert (seen.phase, seen.started_at, seen.is_stuck) == (STARTING, None, True)
    # Whoever takes it back finds that it never ran.
    mark = {"tidegate.io/stopped": "2026-11-21T20:53:00Z"}
    stopped = {
        **workload,
        "metadata": {**workload["metadata"], "annotations": mark},
        "spec": {**workload["spec"], "active": False},
    }
    stopping = only(alone(item, stopped, pods))
    assert (stopping.phase, stopping.started_at) == (STOPPING, None)
    # Its node calls a Pod failed that it deletes.
    gone = [{**pod, "status": {**pod["status"], "phase": "Failed"}} for pod in pods]
    assert only(alone(item, stopped, [], gone=gone)).started_at is None
    # And its Job after it, a moment later (planted: what has an end had begun).
    failed = with_end(item, "Failed", "BackoffLimitExceeded")
    for pods_left in (gone, []):
        seen = only(alone(failed, stopped, [], gone=pods_left))
        assert (seen.phase, seen.outcome, seen.started_at) == (ENDED, Outcome.STOPPED, None)
    # Unasked, with success, too late, or with a rank that had succeeded, it had begun.
    assert only(alone(failed, workload, [])).started_at == ADMITTED
    for end in (("Complete", "CompletionsReached"), ("Failed", "DeadlineExceeded")):
        assert only(alone(with_end(item, *end), stopped, [])).started_at == ADMITTED
    for counted in ({"succeeded": 1}, {"completedIndexes": "0"}):
        in_part = {**failed, "status": {**failed["status"], **counted}}
        assert only(alone(in_part, stopped, [])).started_at == ADMITTED
    # One of them runs: it has something to lose.
    pods[0]["status"]["phase"] = "Running"
    seen = only(alone(item, workload, pods))
    assert (seen.phase, seen.started_at) == (STARTING, ADMITTED)


def test_pods_whose_object_is_gone_are_still_there(gang: Gang) -> None:
    """Mutant: absent; its GPUs were free with two Pods alive."""
    item, _, pods = gang
    seen = only(alone(None, None, pods, gone_objects=(item,)))
    assert (seen.key, seen.native_id) == ("tg-gang", item["metadata"]["uid"])
    assert (seen.phase, seen.is_released) == (STOPPING, False)
    over = [ended(pod, 0) for pod in pods]
    left = [over[0], pods[1]]
    assert only(alone(None, None, left, gone_objects=(item,))).phase is STOPPING
    assert listed(alone(None, None, over, gone_objects=(item,))).observations == {}


def test_copies_of_a_key_are_all_told_the_oldest_first(gang: Gang) -> None:
    item, workload, pods = gang
    copied = copy.deepcopy(item)
    copied["metadata"] |= {"uid": "another", "creationTimestamp": "2026-11-21T20:52:53Z"}
    state = alone(item, workload, pods)
    listing = listed(replace(state, objects=(item, copied)))
    assert listing.observations["tg-gang"].native_id == "another"
    copies = [one.native_id for one in listing.copies["tg-gang"]]
    assert copies == ["another", item["metadata"]["uid"]]


def test_an_object_in_a_namespace_that_is_none_breaks_no_look(gang: Gang) -> None:
    """Planted: each of its Pods asked for it where nobody expected that it makes no sense."""
    item, workload, pods = gang
    odd = copy.deepcopy(item)
    odd["metadata"]["namespace"] = -1
    listing = listed(alone(odd, workload, pods))
    assert Unread(item["metadata"]["uid"], "metadata.namespace is no text") in listing.unread
    assert listing.observations == {}


def test_what_makes_no_sense_is_unread(gang: Gang) -> None:
    item, workload, pods = gang
    uid = item["metadata"]["uid"]
    pods[1] = copy.deepcopy(pods[1])
    pods[1]["status"]["containerStatuses"] = {"main": "running"}
    listing = listed(alone(item, workload, pods))
    assert listing.observations == {}
    assert listing.unread == (Unread(uid, "status.containerStatuses is no list of objects"),)
    listing = listed(alone({"metadata": []}, None, []))
    assert listing.unread[0] == Unread(None, "metadata is no object")

"""Kueue's reasons in both of its vocabularies."""

from __future__ import annotations

import pytest

from connectors.kubernetes.workloads.states import WaitCode, wait_for_checks, wait_for_quota

#: Messages as Kueue 0.19 writes them.
TOPOLOGY = (
    'couldn\'t assign flavors to pod set main: topology "fabric" allows to fit only 8 out of 16 '
    'pod(s). Total nodes: 64; excluded: resource "nvidia.com/gpu": 16'
)
UNUSED = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in "
    "flavor h100, 8 more needed"
)
TOO_SMALL = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor "
    "h100, previously considered podsets requests (0) + current podset request (8) > maximum "
    "capacity (4)"
)


@pytest.mark.parametrize(
    ("reason", "message", "code", "is_stuck", "is_held"),
    [
        # The old vocabulary.
        ("Pending", "", WaitCode.EVALUATING, False, False),
        ("Pending", UNUSED, WaitCode.QUOTA, True, False),
        ("Pending", TOO_SMALL, WaitCode.QUOTA_TOO_SMALL, True, False),
        ("Pending", TOPOLOGY, WaitCode.TOPOLOGY, True, False),
        (
            "Pending",
            f"{UNUSED}. Pending the preemption of 2 workload(s)",
            "preempting",
            False,
            False,
        ),
        ("Pending", "flavor h100 doesn't match node affinity", WaitCode.NO_FLAVOR, True, False),
        ("Pending", "untolerated taint {x} in flavor h100", WaitCode.NO_FLAVOR, True, False),
        ("Pending", "resource x unavailable in ClusterQueue", WaitCode.NO_FLAVOR, True, False),
        ("Inadmissible", "LocalQueue nope doesn't exist", WaitCode.MISCONFIGURED, True, False),
        ("Inadmissible", "ClusterQueue q not found", WaitCode.MISCONFIGURED, True, False),
        ("Inadmissible", "ClusterQueue q is inactive", WaitCode.QUEUE_STOPPED, True, False),
        ("Inadmissible", "something new", WaitCode.MISCONFIGURED, True, False),
        ("AdmissionGated", "Admission is gated by: x", WaitCode.GATED, True, True),
        ("OnHold", "", WaitCode.ON_HOLD, True, True),
        ("Waiting", "", WaitCode.WAITS_FOR_OTHERS, False, False),
        # The new one.
        ("PendingEvaluation", "", WaitCode.EVALUATING, False, False),
        ("WaitingForQuota", TOO_SMALL, WaitCode.QUOTA, True, False),
        ("ExceedsMaxQuota", UNUSED, WaitCode.QUOTA_TOO_SMALL, True, False),
        ("NoMatchingFlavor", "", WaitCode.NO_FLAVOR, True, False),
        ("TopologyPlacementFailed", "", WaitCode.TOPOLOGY, True, False),
        ("WaitingForPreemptedWorkloads", "", WaitCode.PREEMPTING, False, False),
        ("WaitingForPodsReady", "", WaitCode.WAITS_FOR_OTHERS, False, False),
        ("Misconfigured", "", WaitCode.MISCONFIGURED, True, False),
        ("Suspended", "", WaitCode.QUEUE_STOPPED, True, False),
        ("SomethingNew", "", WaitCode.UNKNOWN, False, False),
    ],
)
def test_why_no_quota_is_reserved(
    reason: str, message: str, code: str, is_stuck: bool, is_held: bool
) -> None:
    wait = wait_for_quota(reason, message)
    assert (wait.code, wait.is_stuck, wait.is_held_by_others) == (code, is_stuck, is_held)


def test_the_cluster_s_own_words_stand_behind_ours() -> None:
    wait = wait_for_quota("TopologyPlacementFailed", "")
    assert wait.sentence("a\nb\x1b[31m") == (
        "The cluster does not start it: its ranks do not fit into one part of the topology now "
        "(a b [31m)."
    )
    assert wait.sentence("x" * 1_000) == (
        "The cluster does not start it: its ranks do not fit into one part of the topology now "
        f"({'x' * 400}...)."
    )


def test_other_checks() -> None:
    wait, raw = wait_for_checks({"b": ("Retry", "no room"), "a": ("Pending", "")})
    assert (wait.code, raw) == (WaitCode.OTHER_CHECK, "a: Pending; b: Retry no room")
    assert wait_for_checks({})[0].code is WaitCode.EVALUATING

"""A job on a cluster without Kueue waits suspended, and its own suspension is what holds it."""

from __future__ import annotations

import pytest

from builders.connector_builders import a_workload, eventually, observed, until_released
from conformance.rigs import KubernetesRig
from connectors.kubernetes.objects.naming import workload_name
from connectors.kubernetes.objects.resources import JOB
from connectors.protocol import Outcome, WorkloadPhase

pytestmark = pytest.mark.kube


def test_what_is_released_is_unsuspended_and_what_is_stopped_never_comes_back(
    kubernetes_rig: KubernetesRig,
) -> None:
    """The bed has no YuniKorn, so that the Pod waits for its scheduler until it is stopped."""
    rig = kubernetes_rig
    rig.options = {**rig.options, "scheduler": "yunikorn"}
    rig.connector = rig.open()
    workload = a_workload("exit 0")
    uid = rig.submit(workload)
    path = JOB.path(rig.namespace, workload_name(workload.key))
    seen = observed(rig.connector, workload.key)
    assert seen is not None
    assert seen.phase is WorkloadPhase.HELD
    assert rig.admin.get(path)["spec"]["suspend"] is True
    rig.connector.release(workload.key, uid)
    assert rig.admin.get(path)["spec"]["suspend"] is False
    eventually(
        lambda: (
            (now := observed(rig.connector, workload.key)) is not None
            and now.phase is WorkloadPhase.STARTING
        )
    )
    rig.connector.stop(workload.key)
    assert until_released(rig.connector, workload.key).outcome is Outcome.STOPPED
    rig.connector.release(workload.key, uid)
    assert rig.admin.get(path)["spec"]["suspend"] is True

"""What a refusal to create something means to the job that it is of."""

from __future__ import annotations

from typing import Any

import pytest

from builders.kube_objects import CLUSTER_ID, a_kube_job
from builders.kubernetes_builders import some_options
from connectors.errors import ClusterUnavailable, WorkloadRejected
from connectors.kubernetes.attempts.submitting import Submitter
from connectors.kubernetes.client.api import Cause, Conflict, Forbidden, KubeRefused

TERMINATING = Cause("metadata.namespace", "NamespaceTerminating", "it is being terminated")


class AnApi:
    """Answers every write with `error`."""

    def __init__(self, error: KubeRefused) -> None:
        self._error = error

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        raise self._error


@pytest.mark.parametrize(
    ("error", "is_for_now"),
    [
        (
            Conflict(
                409,
                "Conflict",
                'Operation cannot be fulfilled on resourcequotas "tidegate": the object has been '
                "modified; please apply your changes to the latest version and try again",
            ),
            True,
        ),
        (
            Forbidden(
                403,
                "Forbidden",
                'jobs.batch "a" is forbidden: unable to create new content in namespace tg-1 '
                "because it is being terminated",
                (TERMINATING,),
            ),
            True,
        ),
        (
            Forbidden(
                403,
                "Forbidden",
                'jobs.batch "a" is forbidden: exceeded quota: tidegate, requested: '
                "count/jobs.batch=1, used: count/jobs.batch=100000, limited: "
                "count/jobs.batch=100000",
            ),
            True,
        ),
        (Forbidden(403, "Forbidden", "ValidatingAdmissionPolicy 'x' denied request: no"), False),
        (KubeRefused(422, "Invalid", 'Job "a" is invalid', (Cause("spec", "x", "no"),)), False),
    ],
)
def test_what_passes_is_no_refusal_of_the_job(error: KubeRefused, is_for_now: bool) -> None:
    """Mutant: whatever was no 5xx was the job's end; of 60 jobs submitted at once one was rejected
    because others had been counted in the same moment."""
    api: Any = AnApi(error)
    nothing: Any = None
    submitter = Submitter(api, nothing, some_options(), CLUSTER_ID, nothing)
    with pytest.raises(ClusterUnavailable if is_for_now else WorkloadRejected) as raised:
        submitter.created("tg-1", a_kube_job())
    assert error.message in str(raised.value)


@pytest.mark.parametrize(
    ("name", "is_for_now"), [("tg-0197a8c0-1111", True), ("tg-0197a8c0-2222", False)]
)
def test_a_runtime_that_the_webhook_does_not_see_yet_is_no_refusal_of_the_job(
    name: str, is_for_now: bool
) -> None:
    """The Trainer reads runtimes from a cache. The words are those of its webhook.

    Planted: the job ended as one that Kubernetes refuses.
    """
    error = Forbidden(
        403,
        "Forbidden",
        'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: '
        f'spec.runtimeRef: Invalid value: {{"name":"{name}"}}: '
        f'TrainingRuntime.trainer.kubeflow.org "{name}" not found: specified trainingRuntime must '
        "be created before the TrainJob is created",
    )
    api: Any = AnApi(error)
    nothing: Any = None
    submitter = Submitter(api, nothing, some_options(), CLUSTER_ID, nothing)
    runtime = {"kind": "TrainingRuntime", "metadata": {"name": "tg-0197a8c0-1111"}}
    with pytest.raises(ClusterUnavailable if is_for_now else WorkloadRejected):
        submitter.created("tg-1", a_kube_job(), after=(runtime,))

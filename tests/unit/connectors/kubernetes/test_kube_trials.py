"""What a cluster answers about a manifest, by the answers of its API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.kubernetes_builders import CLUSTER_ID, a_kube_workload, kubernetes_options
from connectors.errors import ClusterUnavailable
from connectors.kinds import ManifestTrial, TrialFinding
from connectors.kubernetes.attempts import manifest_trials
from connectors.kubernetes.attempts.manifest_trials import try_manifest
from connectors.kubernetes.client.api import Forbidden, KubeList
from connectors.protocol import RankSlot

RECORDINGS = Path(__file__).parents[3] / "recordings" / "manifests"
QUOTAS = "/resourcequotas"
RUNTIME = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/torch-distributed"
NOT_TRIED = "its runtime describes the Pods, which were not tried"


class AnApi:
    """Stores nothing and accepts all. `answers` are by the end of the path."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers

    def _answer(self, path: str) -> Any:
        for end, answer in self._answers.items():
            if path.endswith(end):
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return {}

    def try_create(self, path: str, body: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
        return self._answer(path) or body, ()

    def list(self, path: str, *, labels: str = "") -> KubeList:
        return KubeList(self._answer(path) or [], "1", 0)

    def get(self, path: str) -> Any:
        return self._answer(path)

    def close(self) -> None:
        pass


def a_trial(
    monkeypatch: pytest.MonkeyPatch, item: Any, slots: tuple[int, ...], answers: Mapping[str, Any]
) -> ManifestTrial:
    monkeypatch.setattr(manifest_trials, "KubeApi", lambda **_: AnApi(answers))
    workload = replace(
        a_kube_workload(yaml.safe_dump(item), slots=tuple(RankSlot("", one) for one in slots)),
        is_manifest=True,
    )
    return try_manifest(kubernetes_options(), CLUSTER_ID, workload)


def recorded(name: str) -> Any:
    return yaml.safe_load((RECORDINGS / f"{name}.yaml").read_text())


def a_quota(hard: str) -> dict[str, Any]:
    limit = {"hard": {"requests.nvidia.com/gpu": hard}}
    return {"metadata": {"name": "q"}, "spec": limit, "status": limit}


def test_a_failure_keeps_what_was_found_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the failure as the whole answer."""
    item = recorded("job")
    container = item["spec"]["template"]["spec"]["containers"][0]
    container["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    silent = ClusterUnavailable("the API server does not answer: read timed out")
    answers = {QUOTAS: [a_quota("2")], "/configmaps/settings": silent}
    found = a_trial(monkeypatch, item, (3_000,), answers)
    assert [one.path for one in found.findings] == [("spec",)]
    assert found.unchecked == ("the API server does not answer: read timed out",)


def test_an_elastic_group_is_counted_without_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """The head and 3 workers hold 2 GPUs each.

    Planted: all GPU holders as workers, and the head once more.
    """
    item = recorded("raycluster")
    head = item["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    head["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    answers = {QUOTAS: [a_quota("8")]}
    assert a_trial(monkeypatch, item, (2_000,) * 4, answers).findings == ()
    answers = {QUOTAS: [a_quota("7")]}
    (found,) = a_trial(monkeypatch, item, (2_000,) * 4, answers).findings
    assert found.detail.startswith("of requests.nvidia.com/gpu the Pods need 8 at once")


def a_runtime(*jobs: str) -> dict[str, Any]:
    replicated = [{"name": one} for one in jobs]
    return {"spec": {"template": {"spec": {"replicatedJobs": replicated}}}}


def test_a_runtime_with_other_jobs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a launcher whose Pods have no marks of the portal."""
    item = recorded("trainjob")
    known = {RUNTIME: a_runtime("dataset-initializer", "model-initializer", "node")}
    assert a_trial(monkeypatch, item, (4_000,) * 2, known) == ManifestTrial(unchecked=(NOT_TRIED,))
    mpi = {RUNTIME: a_runtime("launcher", "node")}
    (found,) = a_trial(monkeypatch, item, (4_000,) * 2, mpi).findings
    assert found == TrialFinding(
        ("spec", "runtimeRef"),
        "runtime torch-distributed has a Job launcher, whose Pods the portal cannot hold; name a "
        "runtime with no other Jobs than dataset-initializer, model-initializer, node",
    )
    item["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    own = {"/trainingruntimes/torch-distributed": a_runtime("launcher")}
    assert len(a_trial(monkeypatch, item, (4_000,) * 2, own).findings) == 1


def test_a_runtime_that_may_not_be_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: the lack of the right as a refusal of the manifest."""
    forbidden = {RUNTIME: Forbidden(403, "Forbidden", "no")}
    assert a_trial(monkeypatch, recorded("trainjob"), (4_000,) * 2, forbidden) == ManifestTrial(
        unchecked=(
            "the portal's account may not read its runtime; an administrator applies role.yaml of "
            "this version",
            NOT_TRIED,
        )
    )

"""Starting a native again and again, without a cluster."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from builders.kube_states import alone, of_one, recorded
from connectors.kubernetes import natives
from connectors.kubernetes.natives import KubernetesNatives
from connectors.natives import NativeRef

Json = dict[str, Any]


class AnApi:
    """Takes every write."""

    def __init__(self) -> None:
        self.patches: list[Json] = []

    def merge_patch(self, path: str, body: Json) -> Json:
        self.patches.append(body)
        return {}


def test_a_start_that_is_repeated_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: each waited a second; with twenty that Kueue has no quota for, every look at their
    cluster took twenty seconds longer, and what had ended there was told as late."""
    item, workload, _ = of_one(recorded("started"), "native-run")
    workload = copy.deepcopy(workload)
    workload["status"] = {"conditions": []}
    waited: list[float] = []
    monkeypatch.setattr(natives.time, "sleep", waited.append)
    api: Any = AnApi()
    control = KubernetesNatives(api, lambda: alone(item, workload, []))
    control.start(NativeRef(item["metadata"]["uid"], 0, ""))
    assert (waited, api.patches) == ([], [])


def test_a_stop_that_came_in_between_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: made active whatever had become of it; it ran after the stop."""
    item, workload, _ = of_one(recorded("started"), "native-run")
    workload = copy.deepcopy(workload)
    workload["status"] = {"conditions": []}
    workload["spec"]["active"] = False
    monkeypatch.setattr(natives, "RESERVED_WITHIN_S", 0.0)
    api: Any = AnApi()
    control = KubernetesNatives(api, lambda: alone(item, workload, []))
    control.start(NativeRef(item["metadata"]["uid"], 0, ""))
    version = workload["metadata"]["resourceVersion"]
    assert api.patches == [{"metadata": {"resourceVersion": version}, "spec": {"active": True}}]

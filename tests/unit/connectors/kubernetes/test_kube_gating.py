"""The gate as manifests, and whether a cluster has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.kubernetes.api import Forbidden, NotFound
from connectors.kubernetes.gating import (
    CONTROLLERS,
    LOOKED_EVERY_S,
    PORTAL,
    TOO_OLD,
    GateWatch,
    gate_manifests,
    is_part,
    path_of,
)
from connectors.kubernetes.options import OPERATORS

DEPLOY = Path(__file__).parents[4] / "deploy" / "kubernetes"
API = "/apis/admissionregistration.k8s.io/v1"


class AnApi:
    """Has these objects; counts what it is asked."""

    def __init__(self, *objects: dict[str, Any], name: str = PORTAL, is_old: bool = False) -> None:
        self.objects = {path_of(one): one for one in objects}
        self.name = name
        self.is_old = is_old
        self.forbids = False
        self.asked = 0

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert body["kind"] == "SelfSubjectReview"
        return {"status": {"userInfo": {"username": self.name}}}

    def get(self, path: str) -> dict[str, Any]:
        self.asked += 1
        if path == API:
            plurals = ["validatingadmissionpolicies", "mutatingadmissionpolicies"]
            return {"resources": [{"name": one} for one in plurals[: 1 if self.is_old else 2]]}
        if self.forbids:
            raise Forbidden(403, "Forbidden", "you cannot get it")
        if path not in self.objects:
            raise NotFound(404, "NotFound", "there is none")
        found = self.objects[path]
        # As the server answers: with defaults of its own.
        return {**found, "spec": {"matchPolicy": "Equivalent", **found["spec"]}}


def watch(api: AnApi, clock: list[float] | None = None) -> GateWatch:
    now = clock or [0.0]
    return GateWatch(api, monotonic_s=lambda: now[0])  # type: ignore[arg-type]


def test_what_an_administrator_applies_is_what_is_looked_for() -> None:
    documents = tuple(yaml.safe_load_all((DEPLOY / "gate.yaml").read_text()))
    assert documents == gate_manifests()


def test_the_portal_may_read_these_policies_and_write_none() -> None:
    rules = [
        rule
        for document in yaml.safe_load_all((DEPLOY / "role.yaml").read_text())
        for rule in document.get("rules") or ()
        if "admissionregistration.k8s.io" in rule["apiGroups"]
    ]
    (rule,) = rules
    assert rule["verbs"] == ["get"]
    assert set(rule["resourceNames"]) == {one["metadata"]["name"] for one in gate_manifests()}


def test_every_policy_is_bound_to_the_namespaces_of_teams_and_fails_closed() -> None:
    policies = [one for one in gate_manifests() if not one["kind"].endswith("Binding")]
    bindings = [one for one in gate_manifests() if one["kind"].endswith("Binding")]
    assert [one["metadata"]["name"] for one in policies] == [
        one["spec"]["policyName"] for one in bindings
    ]
    for one in bindings:
        assert one["spec"]["matchResources"] == {
            "namespaceSelector": {
                "matchExpressions": [{"key": "tidegate.io/team", "operator": "Exists"}]
            }
        }
    assert {one["spec"]["failurePolicy"] for one in policies} == {"Fail"}
    for one in policies:
        assert one["spec"]["matchConditions"][0]["expression"] == (
            f'request.userInfo.username != "{PORTAL}"'
        )
        assert "*" not in str(one["spec"]["matchConstraints"])


def test_a_gate_that_is_there_is_in_place() -> None:
    state = watch(AnApi(*gate_manifests())).state()
    assert (state.is_in_place, state.complaint) == (True, "")


def test_it_is_looked_for_now_and_then() -> None:
    api, clock = AnApi(*gate_manifests()), [0.0]
    gate = watch(api, clock)
    gate.state()
    asked = api.asked
    gate.state()
    assert api.asked == asked
    clock[0] = LOOKED_EVERY_S
    api.objects.clear()
    assert not gate.state().is_in_place
    assert not gate.last_state.is_in_place


def test_what_is_missing_or_other_is_told() -> None:
    missing = watch(AnApi(*gate_manifests()[1:])).state()
    assert not missing.is_in_place
    assert "MutatingAdmissionPolicy tidegate-gate is missing." in missing.complaint
    assert "deploy/kubernetes/gate.yaml." in missing.complaint
    assert "holds its quota in Kueue while it waits" in missing.complaint
    first = gate_manifests()[0]
    other = {**first, "spec": {**first["spec"], "matchConditions": []}}
    changed = watch(AnApi(other, *gate_manifests()[1:])).state()
    assert "MutatingAdmissionPolicy tidegate-gate is another one." in changed.complaint
    both = watch(AnApi(*gate_manifests()[2:])).state()
    assert "tidegate-gate is missing and 1 more." in both.complaint


def test_another_account_of_the_portal_is_named() -> None:
    name = "system:serviceaccount:other:portal"
    assert watch(AnApi(*gate_manifests(name), name=name)).state().is_in_place
    state = watch(AnApi(*gate_manifests(), name=name)).state()
    assert f"with {name} in place of {PORTAL}" in state.complaint


def test_a_cluster_that_is_too_old_and_one_that_does_not_let_us_look_are_told() -> None:
    assert watch(AnApi(is_old=True)).state().complaint == TOO_OLD
    api = AnApi(*gate_manifests())
    api.forbids = True
    assert "you cannot get it" in watch(api).state().complaint


@pytest.mark.parametrize(
    ("wanted", "found", "is_in"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": {"b": [1, {"c": 2}]}}, {"a": {"b": [1, {"c": 2, "d": 3}]}}, True),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": []}, {}, False),
        ({"a": {}}, {"a": None}, False),
    ],
)
def test_what_is_part_of_another(wanted: object, found: object, is_in: bool) -> None:
    assert is_part(wanted, found) is is_in


def test_whose_the_controllers_are_is_asked_of_the_request_and_never_of_the_object() -> None:
    """Mutant: whatever named a controller among its owners could say that it is ours."""
    spec = {one["metadata"]["name"]: one["spec"] for one in gate_manifests() if is_validating(one)}
    assert "ownerReferences" not in str(gate_manifests())
    for name in ("tidegate-gate", "tidegate-pods"):
        (new,) = [
            one["expression"]
            for one in spec[name]["validations"]
            if "request.userInfo.username in" in one["expression"]
        ]
        for account in (*CONTROLLERS, *OPERATORS):
            assert f'"{account}"' in new
        for ours in ("attempt", "cluster", "key", "stopped", "notice"):
            assert f'!("tidegate.io/{ours}" in variables.' in new


def is_validating(manifest: dict[str, Any]) -> bool:
    return bool(manifest["kind"] == "ValidatingAdmissionPolicy")


def test_pods_are_gated_when_they_are_made_and_changed() -> None:
    (spec,) = [
        one["spec"]
        for one in gate_manifests()
        if is_validating(one) and one["metadata"]["name"] == "tidegate-pods"
    ]
    assert spec["matchConstraints"]["resourceRules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["pods"],
        },
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["pods/status"],
        },
    ]
    _, changed = spec["validations"]
    for ours in ("attempt", "cluster", "key", "stopped", "notice", "creator"):
        assert f'"tidegate.io/{ours}"' in changed["expression"]


def test_other_operators_are_looked_for_by_their_names() -> None:
    operators = ("system:serviceaccount:ray:operator",)
    api = AnApi(*gate_manifests(PORTAL, operators))
    assert GateWatch(api, operators=operators).state().is_in_place  # type: ignore[arg-type]
    assert "tidegate-gate is another one" in watch(api).state().complaint
    assert OPERATORS[0] not in str(gate_manifests(PORTAL, operators))

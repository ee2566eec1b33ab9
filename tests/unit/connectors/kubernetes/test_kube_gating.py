"""The gate as manifests, and whether a cluster has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from connectors.kubernetes.admission.gate_watch import (
    LOOKED_EVERY_S,
    TAKES_ANYWAY,
    TOO_OLD,
    GateState,
    GateWatch,
    is_part,
)
from connectors.kubernetes.admission.gating import (
    CONTROLLERS,
    PORTAL,
    TAKE,
    gate_manifests,
    path_of,
)
from connectors.kubernetes.client.api import Forbidden, NotFound
from connectors.kubernetes.options.options import OPERATORS

DEPLOY = Path(__file__).parents[4] / "deploy" / "kubernetes"
MASTERS = '(has(request.userInfo.groups) && "system:masters" in request.userInfo.groups)'
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
    """Planted: whatever names a controller among its owners is let through."""
    spec = {one["metadata"]["name"]: one["spec"] for one in gate_manifests() if is_validating(one)}
    for one in gate_manifests():
        for expression in expressions_of(one):
            # What an object says of its owners only takes rights away, or helps who has all.
            parts = expression.split("(has(object.metadata.ownerReferences)")
            assert all(part.endswith(("!", f"{MASTERS} && ")) for part in parts[:-1])
    for name in ("tidegate-gate", "tidegate-pods"):
        (new,) = [
            one["expression"]
            for one in spec[name]["validations"]
            if "written by Tidegate alone" in one["message"]
            and "request.userInfo.username in" in one["expression"]
        ]
        for account in (*CONTROLLERS, *OPERATORS):
            assert f'"{account}"' in new
        for ours in ("attempt", "cluster", "key", "stopped", "notice"):
            assert f'!("tidegate.io/{ours}" in variables.' in new


def test_who_acts_for_the_cluster_is_named() -> None:
    """Against: every `system:` account outside of teams' namespaces, so that one of any other
    namespace with rights in a team's opened its gates and said to be its controller; no Kueue in
    the policy of Workloads; an exempt account left out."""
    exempt, operator = "system:serviceaccount:monitoring:agent", "system:serviceaccount:ray:op"
    told = [
        (one["metadata"]["name"], expression)
        for one in gate_manifests(PORTAL, (operator,), (exempt,))
        for expression in expressions_of(one)
    ]
    starts = {
        name
        for _, expression in told
        for name in re.findall(r'startsWith\("([^"]*)"\)', expression)
    }
    assert starts == {"system:serviceaccount:kube-system:", "system:node:"}
    by_cluster = (
        f'{MASTERS} || request.userInfo.username in ["system:kube-controller-manager", '
        '"system:kube-scheduler", "system:serviceaccount:kueue-system:kueue-controller-manager", '
        f'"{operator}"] || request.userInfo.username in ["{exempt}"] || '
        'request.userInfo.username.startsWith("system:serviceaccount:kube-system:") || '
        'request.userInfo.username.startsWith("system:node:")'
    )
    assert sorted(name for name, expression in told if by_cluster in expression) == [
        # In a queue or not (in both policies), as it was submitted, started, an owner.
        *("tidegate-gate",) * 5,
        # In a queue or not, an owner, started.
        *("tidegate-pods",) * 3,
        "tidegate-take",
        # Admitted, and our gate.
        *("tidegate-workloads",) * 2,
    ]


def expressions_of(manifest: dict[str, Any]) -> list[str]:
    found = (*manifest["spec"].get("matchConditions", ()), *manifest["spec"].get("validations", ()))
    return [one["expression"] for one in found]


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
    _, changed, *_ = spec["validations"]
    for ours in ("attempt", "cluster", "key", "stopped", "notice", "creator"):
        assert f'"tidegate.io/{ours}"' in changed["expression"]


def test_other_operators_are_looked_for_by_their_names() -> None:
    operators = ("system:serviceaccount:ray:operator",)
    api = AnApi(*gate_manifests(PORTAL, operators))
    assert GateWatch(api, operators=operators).state().is_in_place  # type: ignore[arg-type]
    assert "tidegate-gate is another one" in watch(api).state().complaint
    assert OPERATORS[0] not in str(gate_manifests(PORTAL, operators))


def test_exempt_accounts_are_looked_for_by_their_names() -> None:
    exempt = ("system:serviceaccount:monitoring:agent",)
    api = AnApi(*gate_manifests(exempt=exempt))
    assert GateWatch(api, exempt=exempt).state().is_in_place  # type: ignore[arg-type]
    assert "tidegate-gate is another one and 4 more" in watch(api).state().complaint


def test_where_it_is_refused_the_policy_that_takes_it_is_not_there() -> None:
    """Planted: the policy is not looked for. What is to be refused is taken, and nobody told."""
    refusing = [one for one in gate_manifests() if one["metadata"]["name"] != TAKE]

    def state(*objects: dict[str, Any], takes_unlabelled: bool) -> GateState:
        api = AnApi(*objects)
        return GateWatch(api, takes_unlabelled=takes_unlabelled).state()  # type: ignore[arg-type]

    assert state(*refusing, takes_unlabelled=False) == GateState(is_in_place=True)
    assert state(*gate_manifests(), takes_unlabelled=True) == GateState(is_in_place=True)
    missing = state(*refusing, takes_unlabelled=True)
    assert not missing.is_in_place
    assert "MutatingAdmissionPolicy tidegate-take is missing and 1 more." in missing.complaint
    # All is gated, and nobody is asked to apply what has to go.
    taken = state(*gate_manifests(), takes_unlabelled=False)
    assert taken == GateState(is_in_place=True, complaint=TAKES_ANYWAY)
    _, *others = gate_manifests()
    both = state(*others, takes_unlabelled=False)
    assert not both.is_in_place
    assert "MutatingAdmissionPolicy tidegate-gate is missing. An adm" in both.complaint


def test_what_has_no_queue_is_taken_or_refused_by_the_same_words() -> None:
    """Planted: another condition in one of them. Something is neither taken nor refused."""
    by_name = {(one["kind"], one["metadata"]["name"]): one["spec"] for one in gate_manifests()}
    taking = by_name["MutatingAdmissionPolicy", TAKE]
    in_no_queue, not_let_through = (
        one["expression"].removeprefix("!") for one in taking["matchConditions"][1:]
    )
    refused = f"!variables.isNew || {in_no_queue} || {not_let_through[1:-1]}"
    for name in ("tidegate-gate", "tidegate-pods"):
        spec = by_name["ValidatingAdmissionPolicy", name]
        assert refused in [one["expression"] for one in spec["validations"]]
    gating = by_name["MutatingAdmissionPolicy", "tidegate-gate"]
    assert gating["matchConditions"][1]["expression"] == f"{in_no_queue} || !{not_let_through}"
    kinds = [rule["resources"] for rule in taking["matchConstraints"]["resourceRules"]]
    assert kinds == [
        *(rule["resources"] for rule in gating["matchConstraints"]["resourceRules"]),
        ["pods"],
    ]

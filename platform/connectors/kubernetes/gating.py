"""The gate: what people give to Kueue beside the portal waits without holding quota.

Admission policies, which the API server carries out by itself, also while the portal is away. What
is created with the label of a queue in a team's namespace by anybody but the portal's account gets
Kueue's own annotation that keeps it from admission, and the name of who created it. Nobody but the
portal takes that away, moves a workload to another queue, makes an inactive Workload active, says
our admission check's Ready or writes the annotations that are ours. Nobody but Kueue says that a
workload is admitted or starts what waits suspended in a queue, and no queue in a team's namespace
leads to another team's quota. What the portal has submitted is changed by nobody but the portal and
the cluster's own controllers.

Whoever may write admission policies can change whatever the API server stores, so the portal may
not: an administrator applies them (deploy/kubernetes/gate.yaml, which says the same as this
module), and the portal looks at each inventory whether they are in place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.api import Forbidden, KubeApi, NotFound
from connectors.kubernetes.naming import (
    ADMISSION_CHECK,
    ASKED,
    ATTEMPT,
    CLUSTER,
    CONTROLLER,
    CREATOR,
    KEY,
    NOTICE,
    QUEUE_LABEL,
    STOPPED,
    TEAM,
)
from connectors.kubernetes.options import OPERATORS

Object = dict[str, Any]

API = "admissionregistration.k8s.io/v1"
GATE = "kueue.x-k8s.io/admission-gated-by"
#: What of the gate is ours; others may have their own beside it.
OUR_GATE = CONTROLLER
PORTAL = "system:serviceaccount:tidegate-system:portal"
MANIFEST = "deploy/kubernetes/gate.yaml"
WHOAMI_PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
LOOKED_EVERY_S = 30.0

_GATED = (
    ("batch", ("v1",), ("jobs",)),
    ("jobset.x-k8s.io", ("v1alpha2",), ("jobsets",)),
    ("kubeflow.org", ("v1", "v2beta1"), ("pytorchjobs", "mpijobs")),
    ("trainer.kubeflow.org", ("v1alpha1",), ("trainjobs",)),
    ("ray.io", ("v1",), ("rayjobs", "rayclusters")),
)
#: The accounts that make Jobs and Pods of what was created before. What they copy from templates
#: are people's words all the same; whose it is, is told by its owners then.
CONTROLLERS = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:job-controller",
)
_PODS = ("", ("v1",), ("pods",))
_KUEUE = "kueue.x-k8s.io"
_KUEUE_VERSIONS = ("v1beta1", "v1beta2")
_OURS = (CREATOR, STOPPED, KEY, NOTICE, ASKED)
#: The start of the names of all teams' namespaces, see `naming.team_namespace`.
_TEAMS = "tg-"
_PLURALS: Mapping[str, str] = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}

TOO_OLD = (
    "This Kubernetes has no MutatingAdmissionPolicy (admissionregistration.k8s.io/v1), so that "
    "jobs submitted beside the portal are not gated when they are created. Kueue's admission check "
    "alone holds them: each holds its quota in Kueue while it waits, also from jobs that could "
    "run, and who submitted it is not known."
)


def gate_manifests(
    portal: str = PORTAL, operators: Sequence[str] = OPERATORS
) -> tuple[Object, ...]:
    """All policies with their bindings, for the portal that signs in as `portal` on a cluster whose
    operators sign in as `operators`."""
    return (
        _policy("MutatingAdmissionPolicy", "tidegate-gate", _gating(portal)),
        _binding("MutatingAdmissionPolicyBinding", "tidegate-gate"),
        _policy("ValidatingAdmissionPolicy", "tidegate-gate", _gate_rules(portal, operators)),
        _binding("ValidatingAdmissionPolicyBinding", "tidegate-gate"),
        _policy("ValidatingAdmissionPolicy", "tidegate-pods", _pod_rules(portal, operators)),
        _binding("ValidatingAdmissionPolicyBinding", "tidegate-pods"),
        _policy("ValidatingAdmissionPolicy", "tidegate-workloads", _workload_rules(portal)),
        _binding("ValidatingAdmissionPolicyBinding", "tidegate-workloads"),
        _policy("ValidatingAdmissionPolicy", "tidegate-queues", _queue_rules(portal)),
        _binding("ValidatingAdmissionPolicyBinding", "tidegate-queues"),
    )


def _policy(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _binding(kind: str, name: str) -> Object:
    of_teams = {"matchExpressions": [{"key": TEAM, "operator": "Exists"}]}
    spec: Object = {"policyName": name, "matchResources": {"namespaceSelector": of_teams}}
    if kind.startswith("Validating"):
        spec["validationActions"] = ["Deny"]
    return _policy(kind, name, spec)


def _rule(
    group: str, versions: Sequence[str], resources: Sequence[str], *operations: str
) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "operations": list(operations),
        "resources": list(resources),
    }


def _rules(
    group: str, versions: Sequence[str], resources: Sequence[str], *operations: str
) -> list[Object]:
    """Of the resources, and of what changes them by way of their status."""
    statuses = [f"{one}/status" for one in resources]
    return [
        _rule(group, versions, resources, *operations),
        _rule(group, versions, statuses, "UPDATE"),
    ]


def _not_the_portal(portal: str) -> Object:
    return {"name": "not-the-portal", "expression": f'request.userInfo.username != "{portal}"'}


_ANNOTATIONS = "(has({0}.metadata.annotations) ? {0}.metadata.annotations : {{}})"
#: Kinds say it at one of two places.
_SUSPENDED = (
    "((has({0}.spec.suspend) && {0}.spec.suspend) || (has({0}.spec.runPolicy) && "
    "has({0}.spec.runPolicy.suspend) && {0}.spec.runPolicy.suspend))"
)
_LABELS = "(has({0}.metadata.labels) ? {0}.metadata.labels : {{}})"


def _gating(portal: str) -> Object:
    """Ours is added to the gates that are there already."""
    there = f'has(object.metadata.annotations) && "{GATE}" in object.metadata.annotations'
    value = f'object.metadata.annotations["{GATE}"]'
    gates = (
        f'string({there} && {value} != "" ? '
        f'({value}.split(",").exists(one, one == "{OUR_GATE}") ? {value} : '
        f'{value} + ",{OUR_GATE}") : "{OUR_GATE}")'
    )
    return {
        "matchConstraints": {"resourceRules": [_rule(*each, "CREATE") for each in _GATED]},
        "matchConditions": [
            _not_the_portal(portal),
            {
                "name": "in-a-queue",
                "expression": "has(object.metadata.labels) && "
                f'"{QUEUE_LABEL}" in object.metadata.labels',
            },
        ],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {
                    "expression": "Object{metadata: Object.metadata{annotations: {"
                    f'"{GATE}": {gates}, '
                    f'"{CREATOR}": request.userInfo.username'
                    "}}}"
                },
            }
        ],
    }


def _variables() -> list[Object]:
    old = "oldObject != null ? {} : {{}}"
    return [
        {"name": "isNew", "expression": "oldObject == null"},
        {"name": "annotations", "expression": _ANNOTATIONS.format("object")},
        {"name": "before", "expression": old.format(_ANNOTATIONS.format("oldObject"))},
        {"name": "labels", "expression": _LABELS.format("object")},
        {"name": "labelsBefore", "expression": old.format(_LABELS.format("oldObject"))},
    ]


def _validation(expression: str, message: str) -> Object:
    return {"expression": expression, "message": message, "reason": "Forbidden"}


def _same(names: Sequence[str], now: str, before: str) -> str:
    """That these annotations or labels are what they were."""
    listed = ", ".join(f'"{name}"' for name in names)
    return (
        f"[{listed}].all(one, (one in {now}) == (one in {before}) "
        f"&& (!(one in {now}) || {now}[one] == {before}[one]))"
    )


def _by_controllers(operators: Sequence[str]) -> str:
    """That a controller does it, or somebody who could take the policy away as well."""
    listed = ", ".join(f'"{name}"' for name in (*CONTROLLERS, *operators))
    return (
        f"request.userInfo.username in [{listed}] || (has(request.userInfo.groups) && "
        '"system:masters" in request.userInfo.groups)'
    )


def _is_nobodys(*more: str) -> str:
    """That something new says nothing that only we say."""
    return " && ".join(
        [
            *(f'!("{label}" in variables.labels)' for label in (ATTEMPT, CLUSTER)),
            *(f'!("{name}" in variables.annotations)' for name in (STOPPED, KEY, NOTICE, ASKED)),
            *more,
        ]
    )


def _pod_rules(portal: str, operators: Sequence[str]) -> Object:
    ours = (
        _same(_OURS, "variables.annotations", "variables.before")
        + " && "
        + _same((ATTEMPT, CLUSTER), "variables.labels", "variables.labelsBefore")
    )
    return {
        "matchConstraints": {"resourceRules": _rules(*_PODS, "CREATE", "UPDATE")},
        "matchConditions": [_not_the_portal(portal)],
        "failurePolicy": "Fail",
        "variables": _variables(),
        "validations": [
            _validation(
                f"!variables.isNew || {_by_controllers(operators)} || ({_is_nobodys()})",
                "labels and annotations of tidegate.io are written by Tidegate alone",
            ),
            _validation(
                f"variables.isNew || ({ours})",
                "labels and annotations of tidegate.io are written by Tidegate alone",
            ),
        ],
    }


_OPENED_BY_US = "only Tidegate opens this gate: the job starts when its team has room for it"
#: Kueue, and whoever makes Pods of it, suspends and starts it, under names that every cluster gives
#: them itself: they are Kubernetes' own, or accounts outside of teams' namespaces.
_BY_CLUSTER = (
    '(has(request.userInfo.groups) && "system:masters" in request.userInfo.groups) || '
    '(request.userInfo.username.startsWith("system:") && '
    f'!request.userInfo.username.startsWith("system:serviceaccount:{_TEAMS}"))'
)


def _stays_gated() -> str:
    """That our gate is there if it was."""
    gates = 'variables.{0}["' + GATE + '"].split(",").exists(one, one == "' + OUR_GATE + '")'
    is_gated = '("' + GATE + '" in variables.{0} && ' + gates + ")"
    return f"variables.isNew || !{is_gated.format('before')} || {is_gated.format('annotations')}"


def _gate_rules(portal: str, operators: Sequence[str]) -> Object:
    same_queue = _same((QUEUE_LABEL,), "variables.labels", "variables.labelsBefore")
    same_labels = _same((ATTEMPT, CLUSTER), "variables.labels", "variables.labelsBefore")
    suspended_before = _SUSPENDED.format("oldObject")
    return {
        "matchConstraints": {
            "resourceRules": [rule for each in _GATED for rule in _rules(*each, "CREATE", "UPDATE")]
        },
        "matchConditions": [_not_the_portal(portal)],
        "failurePolicy": "Fail",
        "variables": [
            *_variables(),
            {"name": "waits", "expression": _SUSPENDED.format("object")},
            {"name": "waited", "expression": f"oldObject != null && {suspended_before}"},
        ],
        "validations": [
            _validation(
                _stays_gated(),
                _OPENED_BY_US,
            ),
            _validation(
                f"variables.isNew || {same_queue}",
                "the queue of a job is chosen when it is created: delete it and create it again",
            ),
            _validation(
                f"variables.isNew || {_same(_OURS, 'variables.annotations', 'variables.before')}",
                "annotations of tidegate.io are written by Tidegate alone",
            ),
            _validation(
                f"variables.isNew || {same_labels}",
                "labels of tidegate.io are written by Tidegate alone",
            ),
            _validation(
                f'variables.isNew || !("{ATTEMPT}" in variables.labelsBefore) || '
                f"object.spec == oldObject.spec || {_BY_CLUSTER}",
                "what Tidegate has submitted is changed by Tidegate alone",
            ),
            _validation(
                f'!variables.waited || variables.waits || !("{QUEUE_LABEL}" in '
                f"variables.labelsBefore) || {_BY_CLUSTER}",
                "what is in a queue is started by Kueue alone",
            ),
            _validation(
                f"!variables.isNew || {_by_controllers(operators)} || ("
                + _is_nobodys(
                    f'(!("{CREATOR}" in variables.annotations) || '
                    f'variables.annotations["{CREATOR}"] == request.userInfo.username)'
                )
                + ")",
                "labels and annotations of tidegate.io are written by Tidegate alone",
            ),
        ],
    }


def _workload_rules(portal: str) -> Object:
    ready = (
        "(has({0}.status) && has({0}.status.admissionChecks) && "
        "{0}.status.admissionChecks.exists(one, "
        f'one.name == "{ADMISSION_CHECK}" && one.state == "Ready"))'
    )
    admitted = (
        "(has({0}.status) && has({0}.status.conditions) && {0}.status.conditions.exists(one, "
        'one.type == "Admitted" && one.status == "True"))'
    )
    inactive = "(has({0}.spec.active) && !{0}.spec.active)"
    return {
        "matchConstraints": {
            "resourceRules": _rules(_KUEUE, _KUEUE_VERSIONS, ("workloads",), "CREATE", "UPDATE")
        },
        "matchConditions": [_not_the_portal(portal)],
        "failurePolicy": "Fail",
        "variables": _variables(),
        "validations": [
            _validation(
                f"variables.isNew || !{inactive.format('oldObject')} || "
                f"{inactive.format('object')}",
                "only Tidegate makes it active again: when its team has room for it",
            ),
            _validation(
                f"variables.isNew || !{ready.format('object')} || {ready.format('oldObject')}",
                "only Tidegate says that this admission check is Ready",
            ),
            # Kueue starts what is said to be admitted, whatever its checks say.
            _validation(
                f"variables.isNew || !{admitted.format('object')} || "
                f"{admitted.format('oldObject')} || {_BY_CLUSTER}",
                "what is in a queue is admitted by Kueue alone",
            ),
            # Kueue copies from the job what we have opened there.
            _validation(f"{_stays_gated()} || {_BY_CLUSTER}", _OPENED_BY_US),
            # One that is new had none: those who may create Workloads do not say who they are.
            _validation(
                _same(_OURS, "variables.annotations", "variables.before"),
                "annotations of tidegate.io are written by Tidegate alone",
            ),
        ],
    }


def _queue_rules(portal: str) -> Object:
    return {
        "matchConstraints": {
            "resourceRules": [_rule(_KUEUE, _KUEUE_VERSIONS, ("localqueues",), "CREATE", "UPDATE")]
        },
        "matchConditions": [_not_the_portal(portal)],
        "failurePolicy": "Fail",
        "validations": [
            _validation(
                "object.spec.clusterQueue == object.metadata.namespace",
                "a queue in the namespace of a team leads to the quota of that team",
            )
        ],
    }


def path_of(manifest: Mapping[str, Any]) -> str:
    """Where the API server has the policy or binding."""
    return f"/apis/{API}/{_PLURALS[manifest['kind']]}/{manifest['metadata']['name']}"


@dataclass(frozen=True, slots=True)
class GateState:
    """Whether natives are gated when they are created; `complaint` is why they are not, or what
    else is wrong."""

    is_in_place: bool
    complaint: str = ""


class GateWatch:
    """Looks whether the gate is in place, now and then; for several threads at once."""

    def __init__(
        self,
        api: KubeApi,
        monotonic_s: Callable[[], float] = time.monotonic,
        *,
        operators: Sequence[str] = OPERATORS,
    ) -> None:
        self._api = api
        self._operators = operators
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._portal = ""
        self._looked_s = -float("inf")
        self._state = GateState(is_in_place=False)

    def state(self) -> GateState:
        """What was found at the last look, which is not long ago. Raises ConnectorError."""
        with self._lock:
            if self._monotonic_s() - self._looked_s >= LOOKED_EVERY_S:
                self._state = self._look()
                self._looked_s = self._monotonic_s()
            return self._state

    @property
    def last_state(self) -> GateState:
        """What was found at the last look, however long ago."""
        return self._state

    def _look(self) -> GateState:
        if not self._portal:
            self._portal = _own_name(self._api)
        if "mutatingadmissionpolicies" not in _served(self._api):
            return GateState(is_in_place=False, complaint=TOO_OLD)
        wrong = []
        for manifest in gate_manifests(self._portal, self._operators):
            what = f"{manifest['kind']} {manifest['metadata']['name']}"
            try:
                found = self._api.get(path_of(manifest))
            except NotFound:
                wrong.append(f"{what} is missing")
                continue
            except Forbidden as error:
                return GateState(is_in_place=False, complaint=_told([f"{what}: {error}"]))
            if not is_part(manifest["spec"], found.get("spec")):
                wrong.append(f"{what} is another one")
        if not wrong:
            return GateState(is_in_place=True)
        return GateState(is_in_place=False, complaint=_told(wrong, self._portal))


def _told(wrong: Sequence[str], portal: str = PORTAL) -> str:
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    named = "" if portal == PORTAL else f", with {portal} in place of {PORTAL}"
    return (
        "Jobs submitted beside the portal are not all gated when they are created: "
        f"{wrong[0]}{more}. An administrator of the cluster applies {MANIFEST}{named}. Until then "
        "Kueue's admission check alone holds them, and each holds its quota in Kueue while it "
        "waits."
    )


def is_part(wanted: object, found: object) -> bool:
    """Whether all of `wanted` is in `found`, which may have more fields: the server's defaults."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and is_part(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(found, list | tuple)
            and len(wanted) == len(found)
            and all(is_part(*each) for each in zip(wanted, found, strict=True))
        )
    return wanted == found


def _own_name(api: KubeApi) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        told = api.create(WHOAMI_PATH, body)
    except NotFound:
        return PORTAL
    return str(((told.get("status") or {}).get("userInfo") or {}).get("username") or PORTAL)


def _served(api: KubeApi) -> frozenset[str]:
    """The resources of the version of admission policies that we know."""
    try:
        told = api.get(f"/apis/{API}")
    except NotFound:
        return frozenset()
    return frozenset(str(one.get("name")) for one in told.get("resources") or ())

"""The gate: native workloads in Kueue wait without holding quota.

The gate consists of admission policies, which the API server enforces even while the portal is
away. They apply to the namespaces of teams:

- A workload created by any account but the portal's gets Kueue's annotation against admission, and
  the name of its creator.
- A workload without the label of a queue gets the team's queue (policy `TAKE`). Without that policy
  it is refused. `_is_let_through` lists the exceptions.
- Only the portal removes the gate, moves a workload to another queue or activates an inactive
  Workload. Only the portal sets our admission check to Ready or writes our annotations.
- Only Kueue admits a workload, or starts a workload that waits suspended in a queue.
- No queue in a team's namespace uses another team's quota.
- Only the portal and the cluster's own controllers change what the portal has submitted.
- Every exempt account is named (`_by_cluster`). Only Kubernetes' own accounts are exempt by the
  beginning of their names.

An account that can write admission policies can change whatever the API server stores, so the
portal has no such right. An administrator applies them from deploy/kubernetes/gate.yaml, which has
the same content as this module. The portal checks at each inventory whether they are in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.kubernetes.objects.naming import (
    ADMISSION_CHECK,
    ADMISSION_GATE,
    ASKED,
    ATTEMPT,
    CLUSTER,
    CONTROLLER,
    CREATOR,
    KEY,
    LOCAL_QUEUE,
    NOTICE,
    OF_ATTEMPT,
    QUEUE_LABEL,
    STOPPED,
    TEAM,
)
from connectors.kubernetes.options.options import OPERATORS

Object = dict[str, Any]

API = "admissionregistration.k8s.io/v1"
GATE = "kueue.x-k8s.io/admission-gated-by"
#: Our entry in the gate; others may have entries of their own.
OUR_GATE = CONTROLLER
PORTAL = "system:serviceaccount:tidegate-system:portal"
#: The policy that puts workloads without the label of a queue into the team's queue. Without the
#: policy they are refused.
TAKE = "tidegate-take"

_GATED = (
    ("batch", ("v1",), ("jobs",)),
    ("jobset.x-k8s.io", ("v1alpha2",), ("jobsets",)),
    ("kubeflow.org", ("v1", "v2beta1"), ("pytorchjobs", "mpijobs")),
    ("trainer.kubeflow.org", ("v1alpha1",), ("trainjobs",)),
    ("ray.io", ("v1",), ("rayjobs", "rayclusters")),
)
#: The accounts that create Jobs and Pods for existing objects. They copy user text from templates;
#: the owners of the copies identify the author.
CONTROLLERS = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:job-controller",
)
#: Owners that are no objects of a gated kind, so their dependents were never admitted.
_UNGATED_OWNERS = ("CronJob", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet")
#: Kueue admits an object whose controller is of such a kind, without verifying that claim.
_GATED_OWNERS = (
    *("Job", "JobSet", "PyTorchJob", "MPIJob", "TrainJob", "RayJob", "RayCluster"),
    *("AppWrapper", "LeaderWorkerSet", "StatefulSet"),
)
PODS = ("", ("v1",), ("pods",))
_KUEUE = "kueue.x-k8s.io"
_KUEUE_VERSIONS = ("v1beta1", "v1beta2")
#: Labels that only the portal, and controllers on its behalf, may write.
_OUR_LABELS = (ATTEMPT, CLUSTER, OF_ATTEMPT)
_OURS = (CREATOR, STOPPED, KEY, NOTICE, ASKED)
#: Kubernetes' own components that write to teams' namespaces, and Kueue by its own manifests.
SYSTEM = (
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "system:serviceaccount:kueue-system:kueue-controller-manager",
)
#: Prefixes of Kubernetes' other own accounts: controllers and nodes.
_SYSTEM_PREFIXES = ("system:serviceaccount:kube-system:", "system:node:")
_PLURALS: Mapping[str, str] = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}


def gate_manifests(
    portal: str = PORTAL, operators: Sequence[str] = OPERATORS, exempt: Sequence[str] = ()
) -> tuple[Object, ...]:
    """Return all policies with their bindings.

    The portal signs in as `portal`, and the operators of the cluster as `operators`. The accounts
    in `exempt` need no queue.
    """
    accounts = _Accounts(portal, operators, exempt)
    return (
        policy("MutatingAdmissionPolicy", "tidegate-gate", _gating(accounts)),
        binding("MutatingAdmissionPolicyBinding", "tidegate-gate"),
        policy("ValidatingAdmissionPolicy", "tidegate-gate", _gate_rules(accounts)),
        binding("ValidatingAdmissionPolicyBinding", "tidegate-gate"),
        policy("ValidatingAdmissionPolicy", "tidegate-pods", _pod_rules(accounts)),
        binding("ValidatingAdmissionPolicyBinding", "tidegate-pods"),
        policy("ValidatingAdmissionPolicy", "tidegate-workloads", _workload_rules(accounts)),
        binding("ValidatingAdmissionPolicyBinding", "tidegate-workloads"),
        policy("ValidatingAdmissionPolicy", "tidegate-queues", _queue_rules(portal)),
        binding("ValidatingAdmissionPolicyBinding", "tidegate-queues"),
        policy("MutatingAdmissionPolicy", TAKE, _taking(accounts)),
        binding("MutatingAdmissionPolicyBinding", TAKE),
    )


@dataclass(frozen=True, slots=True)
class _Accounts:
    """The accounts that the policies name."""

    portal: str
    operators: Sequence[str]
    exempt: Sequence[str]


def policy(kind: str, name: str, spec: Object) -> Object:
    """Return a policy, or a binding, with this spec."""
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def binding(kind: str, name: str) -> Object:
    """Return the binding of a policy to the namespaces of all teams."""
    of_teams = {"matchExpressions": [{"key": TEAM, "operator": "Exists"}]}
    spec: Object = {"policyName": name, "matchResources": {"namespaceSelector": of_teams}}
    if kind.startswith("Validating"):
        spec["validationActions"] = ["Deny"]
    return policy(kind, name, spec)


def resource_rule(
    group: str, versions: Sequence[str], resources: Sequence[str], *operations: str
) -> Object:
    """Return the rule that a policy judges these operations."""
    return {
        "apiGroups": [group],
        "apiVersions": list(versions),
        "operations": list(operations),
        "resources": list(resources),
    }


def _rules(
    group: str, versions: Sequence[str], resources: Sequence[str], *operations: str
) -> list[Object]:
    """Return rules for the resources, and for changes through their status."""
    statuses = [f"{one}/status" for one in resources]
    return [
        resource_rule(group, versions, resources, *operations),
        resource_rule(group, versions, statuses, "UPDATE"),
    ]


def _not_the_portal(portal: str) -> Object:
    return {"name": "not-the-portal", "expression": f'request.userInfo.username != "{portal}"'}


_ANNOTATIONS = "(has({0}.metadata.annotations) ? {0}.metadata.annotations : {{}})"
#: The field is at one of two places, depending on the kind.
_SUSPENDED = (
    "((has({0}.spec.suspend) && {0}.spec.suspend) || (has({0}.spec.runPolicy) && "
    "has({0}.spec.runPolicy.suspend) && {0}.spec.runPolicy.suspend))"
)
_LABELS = "(has({0}.metadata.labels) ? {0}.metadata.labels : {{}})"


_IN_QUEUE = (
    f'(has(object.metadata.labels) && "{QUEUE_LABEL}" in object.metadata.labels && '
    f'object.metadata.labels["{QUEUE_LABEL}"] != "")'
)
BY_MASTERS = '(has(request.userInfo.groups) && "system:masters" in request.userInfo.groups)'
#: Extended resources have a domain in their names. This is only for Pods: other kinds have no
#: containers.
_ASKS_DEVICES = (
    "(has(object.spec.resourceClaims) && size(object.spec.resourceClaims) > 0) || "
    "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
    ".exists(one, has(one.resources) && has(one.resources.limits) && "
    'one.resources.limits.exists(name, name.contains("/")))'
)


def listed(names: Sequence[str]) -> str:
    """Return a list of texts as the policies write it."""
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _by_cluster(accounts: _Accounts) -> str:
    """Return the condition that Kueue or another named account of the cluster makes the request.

    These accounts create, suspend and start Pods of queued workloads. All of them are named: a
    service account of another namespace belongs to a user. It may have rights in a team's namespace
    without being its controller.
    """
    prefixes = (f'request.userInfo.username.startsWith("{one}")' for one in _SYSTEM_PREFIXES)
    return " || ".join(
        (
            BY_MASTERS,
            f"request.userInfo.username in {listed((*SYSTEM, *accounts.operators))}",
            f"request.userInfo.username in {listed(accounts.exempt)}",
            *prefixes,
        )
    )


def _has_controller(kinds: Sequence[str]) -> str:
    """Return the condition that the object names an object of one of the kinds as controller."""
    return (
        "(has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(one, "
        f"has(one.controller) && one.controller && one.kind in {listed(kinds)}))"
    )


def _is_let_through(accounts: _Accounts) -> str:
    """Return the condition that a new object needs no queue.

    That holds for parts of admitted objects, for objects of exempt accounts, and for Pods without
    GPUs from the cluster's named accounts.

    The request itself proves the account. The owners that the object names only restrict further.
    The exception is accounts that could remove the policy anyway, because an operator may sign in
    as one.
    """
    return (
        f"request.userInfo.username in {listed(accounts.exempt)} || "
        f"(request.userInfo.username in {listed((*CONTROLLERS, *accounts.operators))} && "
        f"!{_has_controller(_UNGATED_OWNERS)}) || "
        f"({BY_MASTERS} && {_has_controller(_GATED_OWNERS)}) || "
        f'(request.kind.kind == "Pod" && ({_by_cluster(accounts)}) && !({_ASKS_DEVICES}))'
    )


def _taking(accounts: _Accounts) -> Object:
    """Return the policy that puts a workload without the label of a queue into its team's queue."""
    label = f'labels: {{"{QUEUE_LABEL}": "{LOCAL_QUEUE}"}}'
    expression = f"Object{{metadata: Object.metadata{{{label}}}}}"
    return {
        "matchConstraints": {
            "resourceRules": [resource_rule(*each, "CREATE") for each in (*_GATED, PODS)]
        },
        "matchConditions": [
            _not_the_portal(accounts.portal),
            {"name": "in-no-queue", "expression": f"!{_IN_QUEUE}"},
            {"name": "not-let-through", "expression": f"!({_is_let_through(accounts)})"},
        ],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "IfNeeded",
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": expression},
            }
        ],
    }


def _in_a_queue(accounts: _Accounts) -> Object:
    """Return the refusal of workloads that the absent policy `TAKE` would put into a queue."""
    return validation(
        f"!variables.isNew || {_IN_QUEUE} || {_is_let_through(accounts)}",
        "nothing runs in the namespace of a team outside of its queue: add the label "
        f"{QUEUE_LABEL}: {LOCAL_QUEUE}",
    )


def _no_false_owner(accounts: _Accounts) -> Object:
    """Return the refusal of false owners: Kueue admits an object whose controller is in a queue."""
    return validation(
        f"!variables.isNew || {_by_cluster(accounts)} || !{_has_controller(_GATED_OWNERS)}",
        "what is part of a job is made by the controller of the job alone",
    )


def _gating(accounts: _Accounts) -> Object:
    """Return the policy that adds our gate to the existing gates."""
    there = f'has(object.metadata.annotations) && "{GATE}" in object.metadata.annotations'
    value = f'object.metadata.annotations["{GATE}"]'
    gates = (
        f'string({there} && {value} != "" ? '
        f'({value}.split(",").exists(one, one == "{OUR_GATE}") ? {value} : '
        f'{value} + ",{OUR_GATE}") : "{OUR_GATE}")'
    )
    return {
        "matchConstraints": {"resourceRules": [resource_rule(*each, "CREATE") for each in _GATED]},
        "matchConditions": [
            _not_the_portal(accounts.portal),
            # This holds whichever of the two policies runs first.
            {
                "name": "in-a-queue",
                "expression": f"{_IN_QUEUE} || !({_is_let_through(accounts)})",
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


def validation(expression: str, message: str) -> Object:
    """Return the refusal, with `message`, of requests for which `expression` does not hold."""
    return {"expression": expression, "message": message, "reason": "Forbidden"}


def _same(names: Sequence[str], now: str, before: str) -> str:
    """Return the condition that these annotations or labels are unchanged."""
    listed = ", ".join(f'"{name}"' for name in names)
    return (
        f"[{listed}].all(one, (one in {now}) == (one in {before}) "
        f"&& (!(one in {now}) || {now}[one] == {before}[one]))"
    )


def _by_controllers(operators: Sequence[str]) -> str:
    """Return the condition that a controller, or an account that could remove the policy, acts."""
    named = listed((*CONTROLLERS, *operators))
    return (
        f"request.userInfo.username in {named} || (has(request.userInfo.groups) && "
        '"system:masters" in request.userInfo.groups)'
    )


def _is_nobodys(*more: str) -> str:
    """Return the condition that a new object has none of our own labels and annotations."""
    return " && ".join(
        [
            *(f'!("{label}" in variables.labels)' for label in _OUR_LABELS),
            *(f'!("{name}" in variables.annotations)' for name in (STOPPED, KEY, NOTICE, ASKED)),
            *more,
        ]
    )


def _pod_rules(accounts: _Accounts) -> Object:
    gated = (
        "(has({0}.spec.schedulingGates) && "
        f'{{0}}.spec.schedulingGates.exists(one, one.name == "{ADMISSION_GATE}"))'
    )
    ours = (
        _same(_OURS, "variables.annotations", "variables.before")
        + " && "
        + _same(_OUR_LABELS, "variables.labels", "variables.labelsBefore")
    )
    return {
        "matchConstraints": {"resourceRules": _rules(*PODS, "CREATE", "UPDATE")},
        "matchConditions": [_not_the_portal(accounts.portal)],
        "failurePolicy": "Fail",
        "variables": _variables(),
        "validations": [
            validation(
                f"!variables.isNew || {_by_controllers(accounts.operators)} || ({_is_nobodys()})",
                "labels and annotations of tidegate.io are written by Tidegate alone",
            ),
            validation(
                f"variables.isNew || ({ours})",
                "labels and annotations of tidegate.io are written by Tidegate alone",
            ),
            _in_a_queue(accounts),
            _no_false_owner(accounts),
            validation(
                f"variables.isNew || !{gated.format('oldObject')} || {gated.format('object')} || "
                f"{_by_cluster(accounts)}",
                "what is in a queue is started by Kueue alone",
            ),
        ],
    }


_OPENED_BY_US = "only Tidegate opens this gate: the job starts when its team has room for it"


def _stays_gated() -> str:
    """Return the condition that our gate is still there if it was before."""
    gates = 'variables.{0}["' + GATE + '"].split(",").exists(one, one == "' + OUR_GATE + '")'
    is_gated = '("' + GATE + '" in variables.{0} && ' + gates + ")"
    return f"variables.isNew || !{is_gated.format('before')} || {is_gated.format('annotations')}"


def _gate_rules(accounts: _Accounts) -> Object:
    same_queue = _same((QUEUE_LABEL,), "variables.labels", "variables.labelsBefore")
    same_labels = _same(_OUR_LABELS, "variables.labels", "variables.labelsBefore")
    suspended_before = _SUSPENDED.format("oldObject")
    return {
        "matchConstraints": {
            "resourceRules": [rule for each in _GATED for rule in _rules(*each, "CREATE", "UPDATE")]
        },
        "matchConditions": [_not_the_portal(accounts.portal)],
        "failurePolicy": "Fail",
        "variables": [
            *_variables(),
            {"name": "waits", "expression": _SUSPENDED.format("object")},
            {"name": "waited", "expression": f"oldObject != null && {suspended_before}"},
        ],
        "validations": [
            validation(
                _stays_gated(),
                _OPENED_BY_US,
            ),
            validation(
                f"variables.isNew || {same_queue}",
                "the queue of a job is chosen when it is created: delete it and create it again",
            ),
            validation(
                f"variables.isNew || {_same(_OURS, 'variables.annotations', 'variables.before')}",
                "annotations of tidegate.io are written by Tidegate alone",
            ),
            validation(
                f"variables.isNew || {same_labels}",
                "labels of tidegate.io are written by Tidegate alone",
            ),
            validation(
                f'variables.isNew || !("{ATTEMPT}" in variables.labelsBefore) || '
                f"object.spec == oldObject.spec || {_by_cluster(accounts)}",
                "what Tidegate has submitted is changed by Tidegate alone",
            ),
            validation(
                f'!variables.waited || variables.waits || !("{QUEUE_LABEL}" in '
                f"variables.labelsBefore) || {_by_cluster(accounts)}",
                "what is in a queue is started by Kueue alone",
            ),
            validation(
                f"!variables.isNew || {_by_controllers(accounts.operators)} || ("
                + _is_nobodys(
                    f'(!("{CREATOR}" in variables.annotations) || '
                    f'variables.annotations["{CREATOR}"] == request.userInfo.username)'
                )
                + ")",
                "labels and annotations of tidegate.io are written by Tidegate alone",
            ),
            _in_a_queue(accounts),
            _no_false_owner(accounts),
        ],
    }


def _workload_rules(accounts: _Accounts) -> Object:
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
        "matchConditions": [_not_the_portal(accounts.portal)],
        "failurePolicy": "Fail",
        "variables": _variables(),
        "validations": [
            validation(
                f"variables.isNew || !{inactive.format('oldObject')} || "
                f"{inactive.format('object')}",
                "only Tidegate makes it active again: when its team has room for it",
            ),
            validation(
                f"variables.isNew || !{ready.format('object')} || {ready.format('oldObject')}",
                "only Tidegate says that this admission check is Ready",
            ),
            # Kueue starts a workload whose status says admitted, whatever its checks say.
            validation(
                f"variables.isNew || !{admitted.format('object')} || "
                f"{admitted.format('oldObject')} || {_by_cluster(accounts)}",
                "what is in a queue is admitted by Kueue alone",
            ),
            # Kueue copies the opened gate from the job.
            validation(f"{_stays_gated()} || {_by_cluster(accounts)}", _OPENED_BY_US),
            # A new Workload had no annotations: accounts that may create Workloads must not set
            # ours.
            validation(
                _same(_OURS, "variables.annotations", "variables.before"),
                "annotations of tidegate.io are written by Tidegate alone",
            ),
        ],
    }


def _queue_rules(portal: str) -> Object:
    return {
        "matchConstraints": {
            "resourceRules": [
                resource_rule(_KUEUE, _KUEUE_VERSIONS, ("localqueues",), "CREATE", "UPDATE")
            ]
        },
        "matchConditions": [_not_the_portal(portal)],
        "failurePolicy": "Fail",
        "validations": [
            validation(
                "object.spec.clusterQueue == object.metadata.namespace",
                "a queue in the namespace of a team leads to the quota of that team",
            )
        ],
    }


def path_of(manifest: Mapping[str, Any]) -> str:
    """Return the path of the policy or binding on the API server."""
    return f"/apis/{API}/{_PLURALS[manifest['kind']]}/{manifest['metadata']['name']}"

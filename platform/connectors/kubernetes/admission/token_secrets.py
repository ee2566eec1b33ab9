"""The Secrets with which jobs reach the portal: who may mount them, and what a cluster lacks.

The Secret of an attempt has a token of its owner. A person who creates Pods in a namespace could
mount each Secret there. So an admission policy lets only the Pods of the attempt's own Job name it.
Without the policy, the portal creates no such Secret.

An administrator applies deploy/kubernetes/job-tokens.yaml, which has the same policy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from connectors.kubernetes.admission.gate_watch import is_part
from connectors.kubernetes.admission.gating import (
    BY_MASTERS,
    CONTROLLERS,
    PODS,
    Object,
    binding,
    listed,
    path_of,
    policy,
    resource_rule,
    validation,
)
from connectors.kubernetes.client.api import Forbidden, KubeApi, NotFound
from connectors.kubernetes.objects.naming import PREFIX, TOKEN_ENDING

MANIFEST = "deploy/kubernetes/job-tokens.yaml"
POLICY = "tidegate-tokens"
REVIEWS_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
LOOKED_EVERY_S = 30.0
_DEBUGGING = ("", ("v1",), ("pods/ephemeralcontainers",))


def token_manifests() -> tuple[Object, ...]:
    """Return the policy and its binding."""
    kind = "ValidatingAdmissionPolicy"
    return policy(kind, POLICY, _rules()), binding(f"{kind}Binding", POLICY)


def _rules() -> Object:
    volumes = "(has(object.spec.volumes) ? object.spec.volumes : [])"
    containers = (
        "(object.spec.containers + "
        "(has(object.spec.initContainers) ? object.spec.initContainers : []) + "
        "(has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : []))"
    )
    by_its_job = (
        f"((request.userInfo.username in {listed(CONTROLLERS)} || {BY_MASTERS}) && "
        "has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(owner, "
        'has(owner.controller) && owner.controller && owner.kind == "Job" && '
        'owner.apiVersion == "batch/v1" && '
        f'owner.name + "{TOKEN_ENDING}" == one.secret.secretName))'
    )
    in_volume = (
        f"{volumes}.all(one, !(has(one.secret) && has(one.secret.secretName) && "
        f"{_is_token('one.secret.secretName')}) || {by_its_job})"
    )
    otherwise = (
        f"{volumes}.all(one, !(has(one.projected) && has(one.projected.sources) && "
        "one.projected.sources.exists(source, has(source.secret) && has(source.secret.name) && "
        f"{_is_token('source.secret.name')})) && !(has(one.csi) && "
        "has(one.csi.nodePublishSecretRef) && has(one.csi.nodePublishSecretRef.name) && "
        f"{_is_token('one.csi.nodePublishSecretRef.name')}))"
    )
    in_environment = (
        f"{containers}.all(one, !(has(one.env) && one.env.exists(each, has(each.valueFrom) && "
        "has(each.valueFrom.secretKeyRef) && has(each.valueFrom.secretKeyRef.name) && "
        f"{_is_token('each.valueFrom.secretKeyRef.name')})) && !(has(one.envFrom) && "
        "one.envFrom.exists(each, has(each.secretRef) && has(each.secretRef.name) && "
        f"{_is_token('each.secretRef.name')})))"
    )
    message = "the token of a job is for the Pods of that job alone"
    return {
        "matchConstraints": {
            "resourceRules": [
                resource_rule(*PODS, "CREATE"),
                # A container for debugging could read what the Pod mounts.
                resource_rule(*_DEBUGGING, "UPDATE"),
            ]
        },
        "failurePolicy": "Fail",
        "validations": [
            validation(expression, message) for expression in (in_volume, otherwise, in_environment)
        ],
    }


def _is_token(name: str) -> str:
    return f'({name}.startsWith("{PREFIX}") && {name}.endsWith("{TOKEN_ENDING}"))'


class TokenWatch:
    """Checks now and then whether jobs can have their tokens; for several threads at once."""

    def __init__(self, api: KubeApi, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._looked_s = -float("inf")
        self._unguarded = ""

    def unguarded(self) -> str:
        """Return why others could mount the Secret of a job; "" where none can.

        The answer is at most `LOOKED_EVERY_S` old. Raises ConnectorError.
        """
        with self._lock:
            if self._monotonic_s() - self._looked_s >= LOOKED_EVERY_S:
                self._unguarded = self._look()
                self._looked_s = self._monotonic_s()
            return self._unguarded

    def refusal(self) -> str:
        """Return why jobs get no tokens, and what helps; "" if they do. Raises ConnectorError."""
        why = self.unguarded()
        if not why and not self._may_create():
            why = "the portal's account may not create Secrets"
        return f"{why}; an administrator of the cluster applies {MANIFEST}" if why else ""

    def _look(self) -> str:
        for manifest in token_manifests():
            what = f"{manifest['kind']} {POLICY}"
            try:
                found = self._api.get(path_of(manifest))
            except NotFound:
                return f"{what} is missing"
            except Forbidden:
                return f"the portal's account may not read {what}"
            if not is_part(manifest["spec"], found.get("spec")):
                return f"{what} is another one"
        return ""

    def _may_create(self) -> bool:
        attributes = {"verb": "create", "group": "", "resource": "secrets"}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = self._api.create(REVIEWS_PATH, body)
        return bool((answer.get("status") or {}).get("allowed"))

"""The Secret of a job's private variables: what it is, and where none is created."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders.kubernetes_builders import CLUSTER_ID, a_kube_workload, some_options
from connectors.errors import ClusterUnavailable
from connectors.kubernetes.admission.gating import path_of
from connectors.kubernetes.admission.token_secrets import (
    LOOKED_EVERY_S,
    REVIEWS_PATH,
    TokenWatch,
    token_manifests,
)
from connectors.kubernetes.attempts.submitting import Submitter
from connectors.kubernetes.client.api import Conflict, Forbidden, KubeRefused, NotFound
from connectors.kubernetes.manifests.building import objects_for
from connectors.kubernetes.objects.naming import token_name

TOKENS = Path(__file__).parents[4] / "deploy" / "kubernetes" / "job-tokens.yaml"
PRIVATE = {"TIDEGATE_SERVER": "https://inside.test", "TIDEGATE_TOKEN": "tgj_1"}
ADVICE = "; an administrator of the cluster applies deploy/kubernetes/job-tokens.yaml"
NO_RIGHT = Forbidden(
    403, "Forbidden", 'secrets is forbidden: User "portal" cannot create resource "secrets"'
)


class AnApi:
    """Has the policy, creates what it is given, and refuses Secrets with `error`."""

    def __init__(self) -> None:
        self.policies = {path_of(one): dict(one) for one in token_manifests()}
        self.error: KubeRefused | None = None
        self.may_create = True
        self.created: list[str] = []
        self.asked = 0

    def get(self, path: str) -> dict[str, Any]:
        self.asked += 1
        if path not in self.policies:
            raise NotFound(404, "NotFound", "there is none")
        return self.policies[path]

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == REVIEWS_PATH:
            assert body["spec"]["resourceAttributes"]["resource"] == "secrets"
            return {"status": {"allowed": self.may_create}}
        if body["kind"] == "Secret" and self.error is not None:
            raise self.error
        self.created.append(body["kind"])
        return {**body, "metadata": {**body["metadata"], "uid": "1"}}


class NoCaches:
    """Has no nodes, and forgets what was created."""

    def nodes(self) -> tuple[()]:
        return ()

    def took(self, found: dict[str, Any]) -> None:
        pass


def submit(api: AnApi, **options: Any) -> list[str]:
    """The kinds of the objects that the submission of a job with a token creates."""
    chosen = some_options(portal_url="https://inside.test", **options)
    caches: Any = NoCaches()
    submitter = Submitter(api, caches, chosen, CLUSTER_ID, TokenWatch(api))  # type: ignore[arg-type]
    assert submitter.submit(replace(a_kube_workload(), private_environment=PRIVATE)) == "1"
    return api.created


def test_what_an_administrator_applies_is_what_is_looked_for() -> None:
    """Against: another policy in the file than the one that is looked for."""
    role, binding, *policies = yaml.safe_load_all(TOKENS.read_text())
    assert tuple(policies) == token_manifests()
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [(rule["resources"][0], rule["verbs"]) for rule in role["rules"]] == [
        ("secrets", ["create"]),
        ("validatingadmissionpolicies", ["get"]),
    ]


def test_the_secret_has_the_variables_and_only_the_container_mounts_it() -> None:
    """Planted: a mount that the Pod cannot start without."""
    workload = replace(a_kube_workload(), private_environment=PRIVATE)
    objects = objects_for(workload, some_options(), cluster_id=CLUSTER_ID)
    assert objects.secret is not None
    assert objects.secret["metadata"]["name"] == token_name(workload.key)
    assert (objects.secret["stringData"], objects.secret["immutable"]) == (PRIVATE, True)
    assert "tgj_1" not in str((objects.main, *objects.others))
    spec = objects.main["spec"]["template"]["spec"]
    (volume,) = (one["secret"] for one in spec["volumes"] if "secret" in one)
    assert volume == {
        "secretName": token_name(workload.key),
        "optional": True,
        "defaultMode": 0o444,
    }
    plain = objects_for(a_kube_workload(), some_options(), cluster_id=CLUSTER_ID)
    assert plain.secret is None
    assert "private" not in str(plain.main)


@pytest.mark.parametrize("options", [{}, {"scheduler": "volcano"}])
def test_it_is_created_after_the_job(options: dict[str, Any]) -> None:
    """Its owner is there first. Planted: none with another scheduler than Kueue."""
    created = submit(AnApi(), **options)
    assert (created[0], created[-1]) == ("Job", "Secret")


def test_none_is_created_where_others_could_mount_it_or_the_account_may_not() -> None:
    """The job runs without. Planted: the right to create Secrets was enough."""
    open_to_all = AnApi()
    open_to_all.policies.clear()
    without = submit(open_to_all)
    forbidden = AnApi()
    forbidden.error = NO_RIGHT
    assert submit(forbidden) == without
    assert "Secret" not in without
    assert "Secret" not in submit(AnApi(), kind="jobset")


def test_a_passing_refusal_is_tried_again() -> None:
    """Planted: every refusal of the Secret let the job run without it."""
    api = AnApi()
    api.error = Conflict(409, "Conflict", "try again")
    with pytest.raises(ClusterUnavailable, match="try again"):
        submit(api)


def test_what_a_cluster_lacks_is_told_with_what_helps() -> None:
    """Planted: a policy with another rule counted as the policy."""
    api = AnApi()
    clock = [0.0]
    watch = TokenWatch(api, lambda: clock[0])  # type: ignore[arg-type]
    assert watch.refusal() == ""
    api.may_create = False
    assert watch.refusal() == f"the portal's account may not create Secrets{ADVICE}"
    assert api.asked == 2
    (path, *_) = api.policies
    api.policies[path] = {**api.policies[path], "spec": {}}
    clock[0] = LOOKED_EVERY_S
    assert watch.refusal() == f"ValidatingAdmissionPolicy tidegate-tokens is another one{ADVICE}"
    del api.policies[path]
    clock[0] *= 2
    assert watch.refusal() == f"ValidatingAdmissionPolicy tidegate-tokens is missing{ADVICE}"

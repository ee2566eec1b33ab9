"""Jobs on a real Kubernetes reach the portal with a token that nobody else in the cluster reads."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from django.conf import LazySettings
from django.db import connection

from builders.app_server import serving
from builders.connector_builders import eventually
from builders.kube_loop import KubernetesLoop
from builders.kube_natives import Person, a_native_job, a_pod_spec, new_slug
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_company, a_grant, a_user
from conformance.rigs import KubernetesRig
from connectors.kubernetes.admission.gating import path_of
from connectors.kubernetes.admission.token_secrets import token_manifests
from connectors.kubernetes.client.api import Forbidden, KubeApi, NotFound
from connectors.kubernetes.objects.naming import team_namespace, token_name, workload_name
from connectors.kubernetes.objects.resources import JOB, POD, SECRET
from jobs.actions.job_tokens import TOKEN_PREFIX
from jobs.models import Job
from kube_bed import KubeBed
from tenants.roles import Role

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.kube]

TOKENS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "job-tokens.yaml"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def company(monkeypatch: pytest.MonkeyPatch) -> Company:
    """A company whose namespaces no other test uses."""
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    company = a_company(new_slug())
    company.cluster.nodes.all().delete()
    return company


@pytest.fixture
def address(company: Company, settings: LazySettings) -> Iterator[str]:
    """The portal's for Pods, which is another one than that of the settings."""
    settings.PUBLIC_URL = "http://127.0.0.1:1"
    with serving() as address:
        yield address


@pytest.fixture
def loop(kubernetes_rig: KubernetesRig, company: Company, address: str) -> KubernetesLoop:
    kubernetes_rig.options["portal_url"] = address
    kubernetes_rig.connector = kubernetes_rig.open()
    return KubernetesLoop(company.cluster, kubernetes_rig, company.nlp)


def apply_tokens(admin: KubeApi, rig: KubernetesRig, namespace: str) -> Iterator[None]:
    """The manifests of an administrator, with the right to create Secrets in `namespace` alone.

    Others test what is not known without that right.
    """
    role, binding, *_ = yaml.safe_load_all(TOKENS.read_text())
    creating, reading = role["rules"]
    subjects = binding["subjects"]
    made: list[tuple[str, dict[str, Any]]] = []
    for kind, where, rule in (
        ("Role", f"namespaces/{namespace}/", creating),
        ("ClusterRole", "", reading),
    ):
        name = {"name": "tests-tokens"} | ({"namespace": namespace} if where else {})
        head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": name}
        of = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "tests-tokens"}
        plural = f"{RBAC}/{where}{kind.lower()}"
        made += [
            (f"{plural}s/tests-tokens", {**head, "kind": kind, "rules": [rule]}),
            (
                f"{plural}bindings/tests-tokens",
                {**head, "kind": f"{kind}Binding", "roleRef": of, "subjects": subjects},
            ),
        ]
    made += [(path_of(one), one) for one in token_manifests()]
    for path, body in made:
        admin.apply(path, body, force=True, manager="test")
    eventually(lambda: "may not create" in rig.connector.inventory().portal_refusal or reopen(rig))
    yield
    for path, _ in reversed(made):
        admin.delete(path)


def reopen(rig: KubernetesRig) -> None:
    """Forget what was found out about the policy."""
    rig.connector = rig.open()


@pytest.fixture
def namespace(loop: KubernetesLoop, company: Company, kube_bed: KubeBed) -> str:
    name = team_namespace(company.nlp.path.rstrip("/"))
    kube_bed.wait_for_namespace(name)
    return name


@pytest.fixture
def tokens(admin: KubeApi, loop: KubernetesLoop, namespace: str) -> Iterator[None]:
    yield from apply_tokens(admin, loop.rig, namespace)


def with_token(name: str) -> dict[str, Any]:
    """A Pod as somebody else writes it, to read the Secret of a job."""
    spec = a_pod_spec(gpus=0, selector=False)
    spec["volumes"] = [{"name": "token", "secret": {"secretName": name}}]
    return spec


def a_pod(namespace: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "thief", "namespace": namespace, **metadata},
        "spec": spec,
    }


def test_a_job_submits_a_job_and_nobody_else_reads_its_token(
    loop: KubernetesLoop,
    company: Company,
    namespace: str,
    tokens: None,
    admin: KubeApi,
    kube_bed: KubeBed,
    tmp_path: Path,
) -> None:
    """The token stands in no Pod and no Job, and other Pods may not mount it.

    Against: the token among the Pod's own variables; no policy, so that any Pod of the namespace
    mounted the Secret; a Secret without an owner, which stayed for ever.
    """
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    go_on = loop.rig.scratch / "go-on"
    script = (
        "#!/bin/sh\nsbatch --gpus=1 --hold -J second --wrap 'echo hi'\n"
        "squeue --me -h -o '%j %T' | sort\necho \"$TIDEGATE_CHECKPOINT_URL\"\n"
        f"while ! [ -e {go_on} ]; do sleep 0.1; done\n"
    )
    job = a_job(company.nlp, bob, company.pool, script=script, name="first", launch="batch")
    loop.until(job, "running", "failed")
    attempt = job.attempts.get()
    second = eventually(
        lambda: (loop.observe(), Job.objects.filter(name="second").first())[1],
        told=lambda: loop.rig.log(attempt.key),
    )
    assert (second.user, second.team, second.state) == (bob, company.nlp, "held")

    name = token_name(attempt.key)
    whole = JOB.path(namespace, workload_name(attempt.key))
    secret = admin.get(SECRET.path(namespace, name))
    assert set(secret["data"]) == {"TIDEGATE_SERVER", "TIDEGATE_TOKEN"}
    (owner,) = secret["metadata"]["ownerReferences"]
    assert owner["uid"] == admin.get(whole)["metadata"]["uid"]
    shown = [admin.get(whole), *admin.list(POD.collection(namespace)).items]
    assert len(shown) == 2
    assert TOKEN_PREFIX not in json.dumps(shown)

    # Another person of the team, who may create whatever Pods: none of them, in no way.
    person = Person(admin, kube_bed.admin_kubeconfig, tmp_path, namespace)
    spec = with_token(name)
    projected, named, whole_of_it = (copy.deepcopy(spec) for _ in range(3))
    projected["volumes"] = [
        {"name": "token", "projected": {"sources": [{"secret": {"name": name}}]}}
    ]
    key = {"secretKeyRef": {"name": name, "key": "TIDEGATE_TOKEN"}}
    named["containers"][0]["env"] = [{"name": "A", "valueFrom": key}]
    whole_of_it["containers"][0]["envFrom"] = [{"secretRef": {"name": name}}]
    for other in (named, whole_of_it):
        del other["volumes"]
    false_owner = {**owner, "controller": True}
    for thief in (
        *(a_pod(namespace, one) for one in (spec, projected, named, whole_of_it)),
        a_pod(namespace, spec, ownerReferences=[false_owner]),
    ):
        with pytest.raises(Forbidden, match="for the Pods of that job alone"):
            person.submit(thief)
    # What is not of a job stays as it was.
    person.api.try_create(POD.collection(namespace), a_pod(namespace, with_token("own-token")))
    # Nor does a container for debugging in the Pod that mounts it.
    secured = shown[1]["spec"]["containers"][0]["securityContext"]
    stolen = named["containers"][0]["env"]
    debugging = {"name": "debug", "image": "x", "env": stolen, "securityContext": secured}
    with pytest.raises(Forbidden, match="for the Pods of that job alone"):
        admin.merge_patch(
            f"{POD.path(namespace, shown[1]['metadata']['name'])}/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [debugging]}},
        )
    # The Pods of a Job of theirs are refused when they are made.
    theirs = a_native_job("theirs", gpus=0, queue=None)
    theirs["spec"]["template"]["spec"] = spec
    uid = person.submit(theirs)["metadata"]["uid"]

    def is_refused() -> bool:
        events = admin.list(f"/api/v1/namespaces/{namespace}/events").items
        told = [one["message"] for one in events if one["involvedObject"]["uid"] == uid]
        return any("for the Pods of that job alone" in one for one in told)

    eventually(is_refused)
    admin.delete(JOB.path(namespace, "theirs"), propagation="Background")

    go_on.touch()
    loop.until(job, "succeeded", "failed")
    said = loop.rig.log(attempt.key).splitlines()
    assert UUID(said[0].removeprefix("Submitted batch job ")) == second.pk
    assert said[1:3] == ["first RUNNING", "second PENDING"]
    assert said[3].startswith(loop.rig.options["portal_url"])
    loop.connector.forget(attempt.key)

    def is_gone() -> bool:
        try:
            admin.get(SECRET.path(namespace, name))
        except NotFound:
            return True
        return False

    eventually(is_gone)


def test_without_the_policy_a_job_runs_and_has_no_token(
    loop: KubernetesLoop, company: Company, namespace: str, admin: KubeApi
) -> None:
    """The right to create Secrets alone is not enough, and the cluster's page says what is missing.

    Against: a submission that failed where no Secret could be created.
    """
    refusal = loop.connector.inventory().portal_refusal
    assert refusal == (
        "the portal's account may not read ValidatingAdmissionPolicy tidegate-tokens; an "
        "administrator of the cluster applies deploy/kubernetes/job-tokens.yaml"
    )
    assert f"Jobs there get no access to the portal: {refusal}." in (
        loop.connector.inventory().complaints
    )
    bob = a_user(company.organization, "bob")
    job = a_job(company.nlp, bob, company.pool, script="squeue || exit 5", launch="batch")
    loop.until(job, "succeeded", "failed")
    assert (job.state, job.exit_code) == ("failed", 5)
    assert loop.rig.log(job.attempts.get().key) == (
        "squeue: error: jobs on this cluster have no access to the portal.\n"
    )

"""Manifests that their clusters are asked about before a job of them is queued."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from builders.api_callers import by_token
from builders.connector_builders import change_kind
from builders.portal_builders import Company, a_cluster_node, a_company
from clusters.models import Cluster
from connectors.kinds import ManifestTrial, TrialFinding
from connectors.protocol import Workload
from jobs.models import Job
from jobs.whatif import manifest_trials
from jobs.whatif.heavy_answers import TRIALS
from primitives.clock import SystemClock
from tenants.models import User

TEAM = "ai-company/research/nlp"
TEXT = (Path(__file__).parents[2] / "recordings" / "manifests" / "job.yaml").read_text()
REFUSAL = ManifestTrial((TrialFinding(("spec", "template", "spec"), "no such Pod"),))


class Asked:
    """The clusters' answers, by kubeconfig, and what they were asked."""

    def __init__(self) -> None:
        self.answers: dict[str, ManifestTrial] = {}
        self.workloads: list[Workload] = []
        self.within_s: list[float] = []

    def __call__(
        self, options: Mapping[str, Any], pk: str, workload: Workload, within_s: float
    ) -> ManifestTrial:
        self.workloads.append(workload)
        self.within_s.append(within_s)
        return self.answers.get(options["kubeconfig"], ManifestTrial())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Asked:
    settings.KUBECONFIGS = ("/etc/x", "/etc/y")
    found = Asked()
    change_kind(monkeypatch, "kubernetes", try_manifest=found)
    return found


@pytest.fixture
def company(db: None) -> Company:
    company = a_company()
    options = {"kubeconfig": "/etc/x", "pools": {"h100": {"node_selector": {}}}}
    Cluster.objects.update(kind="kubernetes", options=options, seen_at=SystemClock().now())
    return company


def submit(user: User, *, is_plan: bool = False, **more: Any) -> Any:
    path = "jobs?dry_run=true" if is_plan else "jobs"
    headers = {"Idempotency_Key": more.pop("key")} if "key" in more else {}
    return by_token(user).post(path, {"team": TEAM, "manifest": TEXT, **more}, **headers)


def warnings_of(answer: Any) -> list[tuple[str, str]]:
    notes = answer.json()["notes"]
    return [(one["text"], one["detail"]) for one in notes if one["verdict"] == "warning"]


def test_a_refusal_of_the_only_cluster_refuses_the_request(
    company: Company, bob: User, asked: Asked
) -> None:
    """The field's line and path are named, and nothing is queued.

    Planted: a note with the refusal, and the job was queued.
    """
    asked.answers["/etc/x"] = REFUSAL
    answer = submit(bob)
    assert answer.status_code == 400, answer.content
    assert answer.json()["errors"] == [
        {
            "pointer": "/manifest",
            "detail": "line 12: cluster local: spec.template.spec: no such Pod",
            "code": "refused",
        }
    ]
    assert not Job.objects.exists()
    plan = submit(bob, is_plan=True).json()
    assert (plan["fits"], plan["would_start_now"]) == (False, False)
    assert plan["explanation"]["sentence"] == (
        "It would be refused and could run nowhere: line 12: cluster local: spec.template.spec: no "
        "such Pod."
    )
    (workload, _) = asked.workloads
    assert (workload.pool, workload.team, workload.is_manifest) == ("h100", TEAM, True)
    assert [slot.mgpu for slot in workload.slots] == [3_000]


def test_another_cluster_remains(company: Company, bob: User, asked: Asked) -> None:
    """Planted: a refusal of any cluster refused the request."""
    options = {"kubeconfig": "/etc/y", "pools": {"h100": {"node_selector": {}}}}
    other = Cluster.objects.create(
        name="other", kind="kubernetes", options=options, seen_at=SystemClock().now()
    )
    a_cluster_node(other, company.pool)
    asked.answers["/etc/x"] = REFUSAL
    answer = submit(bob)
    assert answer.status_code == 201, answer.content
    assert warnings_of(answer) == [
        ("cluster local: spec.template.spec", "no such Pod; name another cluster")
    ]
    assert submit(bob, cluster="local").status_code == 400
    assert warnings_of(submit(bob, cluster="other")) == []


def test_a_cluster_that_does_not_answer_loses_no_request(
    company: Company, bob: User, settings: Any, tmp_path: Path
) -> None:
    """Its kubeconfig names a port where nothing listens.

    Against: the failure of the connection as that of the request.
    """
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(A_KUBECONFIG))
    settings.KUBECONFIGS = (str(kubeconfig),)
    options = {"kubeconfig": str(kubeconfig), "pools": {"h100": {"node_selector": {}}}}
    Cluster.objects.update(options=options)
    answer = submit(bob)
    assert answer.status_code == 201, answer.content
    ((text, detail),) = warnings_of(answer)
    assert text == "cluster local"
    assert detail.startswith("Not everything was checked there: the API server cannot be reached")
    assert detail.endswith("What its namespace refuses shows when the job starts.")


def test_a_cluster_that_is_known_to_be_away_is_not_asked(
    company: Company, bob: User, asked: Asked
) -> None:
    """Planted: each plan waited for its time-out."""
    Cluster.objects.update(failing_since=SystemClock().now())
    answer = submit(bob)
    assert answer.status_code == 201, answer.content
    assert asked.workloads == []
    assert warnings_of(answer) == [
        (
            "cluster local",
            "Not everything was checked there: it does not answer at present. What its namespace "
            "refuses shows when the job starts.",
        )
    ]


def test_a_repeated_request_gets_its_first_answer(
    company: Company, bob: User, asked: Asked
) -> None:
    """The cluster would refuse it now, and is not asked.

    Planted: a trial for each repeat.
    """
    key = str(uuid4())
    first = submit(bob, key=key)
    asked.answers["/etc/x"] = REFUSAL
    again = submit(bob, key=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json()["id"] == first.json()["id"]
    assert len(asked.workloads) == 1


def test_a_few_manifests_are_tried_at_once(company: Company, bob: User, asked: Asked) -> None:
    """Planted: trials without a bound, in every thread of the web processes."""
    other = connection.copy()
    with other.cursor() as cursor:
        for slot in TRIALS.slots:
            cursor.execute("SELECT pg_advisory_lock(%s)", [slot])
        try:
            answer = submit(bob)
        finally:
            # The pool would give the connection to others with them.
            cursor.execute("SELECT pg_advisory_unlock_all()")
    other.close()
    assert answer.status_code == 201, answer.content
    assert warnings_of(answer) == [
        (
            "cluster local",
            "Not everything was checked there: three other manifests are being tried. What its "
            "namespace refuses shows when the job starts.",
        )
    ]
    assert asked.workloads == []
    assert warnings_of(submit(bob)) == []
    assert len(asked.workloads) == 1


def test_all_clusters_of_a_manifest_have_one_deadline(
    company: Company, bob: User, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a deadline for each cluster alone."""
    now_s = iter([100.0, 104.0, 112.0])
    options = {"kubeconfig": "/etc/y", "pools": {"h100": {"node_selector": {}}}}
    other = Cluster.objects.create(
        name="other", kind="kubernetes", options=options, seen_at=SystemClock().now()
    )
    a_cluster_node(other, company.pool)
    monkeypatch.setattr(manifest_trials, "monotonic", lambda: next(now_s))
    answer = submit(bob)
    assert answer.status_code == 201, answer.content
    assert asked.within_s == [8.0]
    assert [text for text, _ in warnings_of(answer)] == ["cluster other"]
    assert "the trial took longer than 12 s" in warnings_of(answer)[0][1]


A_KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "a", "user": {"token": "t"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "current-context": "a",
}

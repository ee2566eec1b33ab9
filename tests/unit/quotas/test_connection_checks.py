"""Checks of connections to clusters over REST."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.connector_builders import change_kind
from builders.portal_builders import NOW, a_company, a_pool, an_actor, an_organization
from clusters.models import Cluster, ClusterNode
from connectors.errors import ClusterUnavailable
from connectors.local.identity import give_root
from tenants.roles import Role

pytestmark = pytest.mark.django_db
NODES = {"count": 2, "gpus": 8, "pool": "h100", "prefix": "n-"}


def platform() -> Caller:
    return by_token(an_actor(None, Role.PLATFORM_ADMIN).user)


def options(root: Path, **nodes: Any) -> dict[str, Any]:
    return {"root": str(root), "nodes": {**NODES, **nodes}}


def test_a_new_cluster_is_asked_and_nothing_is_stored(tmp_path: Path) -> None:
    """Planted: the root prepared by the check, so that it belongs to no cluster that exists."""
    a_pool("h100")
    root = tmp_path / "root"
    answer = platform().post("clusters/check", {"kind": "local", "options": options(root)})
    assert (answer.status_code, answer.json()) == (
        200,
        {
            "is_answered": True,
            "message": "",
            "api_version": "",
            "pools": [
                {
                    "pool": "h100",
                    "device": "gpu",
                    "nodes": 2,
                    "nodes_healthy": 2,
                    "capacity_mgpu": 16_000,
                    "healthy_mgpu": 16_000,
                }
            ],
        },
    )
    assert not root.exists()
    assert not Cluster.objects.exists()
    assert not ClusterNode.objects.exists()
    assert not AuditEvent.objects.filter(subject_kind="cluster").exists()


def test_nodes_of_a_missing_pool_are_named(tmp_path: Path) -> None:
    answer = platform().post("clusters/check", {"kind": "local", "options": options(tmp_path)})
    assert answer.json()["pools"] == []
    assert answer.json()["message"] == (
        "2 nodes are left out because their pool does not exist here: h100. Create the pool and "
        "they count from the next answer on."
    )


def test_the_root_of_another_cluster_is_refused(tmp_path: Path) -> None:
    give_root(tmp_path, "01a1fd00-0000-7000-8000-000000000009")
    answer = platform().post("clusters/check", {"kind": "local", "options": options(tmp_path)})
    assert answer.json()["is_answered"] is False
    assert "is the folder of another cluster" in answer.json()["message"]


def test_bad_options_are_refused_at_their_field(tmp_path: Path) -> None:
    bad = options(tmp_path, gpus=-1)
    answer = platform().post("clusters/check", {"kind": "local", "options": bad})
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/options/nodes/gpus"]


def test_a_known_cluster_is_asked_with_its_own_or_other_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Planted: stored options used although others are given; the others stored."""
    company = a_company()
    cluster = company.cluster
    give_root(tmp_path, str(cluster.pk))
    Cluster.objects.filter(pk=cluster.pk).update(options=options(tmp_path), seen_at=NOW)
    path, admin = f"clusters/{cluster.pk}/check", platform()
    own = admin.post(path, {}).json()["pools"]
    other = admin.post(path, {"options": options(tmp_path, count=5)}).json()["pools"]
    assert [pool["nodes"] for pool in (*own, *other)] == [2, 5]
    cluster.refresh_from_db()
    assert cluster.options == options(tmp_path)

    def silent(*_: object) -> None:
        raise ClusterUnavailable("no answer within 3 s")

    change_kind(monkeypatch, "local", open=silent)
    assert admin.post(path, {}).json() == {
        "is_answered": False,
        "message": "no answer within 3 s",
        "api_version": "",
        "pools": [],
    }


def test_only_platform_administrators_check(tmp_path: Path) -> None:
    company = a_company()
    someone = by_token(an_actor(an_organization(), Role.ORGANIZATION_ADMIN).user)
    body = {"kind": "local", "options": options(tmp_path)}
    assert someone.post("clusters/check", body).status_code == 403
    assert someone.post(f"clusters/{company.cluster.pk}/check", {}).status_code == 403

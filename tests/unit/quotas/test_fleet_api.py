"""Pools, clusters and nodes over REST."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import Caller, as_nobody, by_token
from builders.portal_builders import (
    NOW,
    a_cluster,
    a_cluster_node,
    a_company,
    a_pool,
    a_quota,
    a_user,
    an_actor,
    an_organization,
)
from clusters.models import Cluster, ClusterNode, Pool
from clusters.outside import Holder, OutsideUse, record_outside_use
from primitives.clock import SystemClock
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db
NODES = {"count": 2, "gpus": 8, "pool": "h100", "prefix": "n-"}


def caller(node: Node | None, role: Role) -> Caller:
    return by_token(an_actor(node, role).user)


def platform() -> Caller:
    return caller(None, Role.PLATFORM_ADMIN)


def somebody() -> Caller:
    return by_token(a_user(an_organization()))


def test_a_pool_is_overcommitted_when_more_is_guaranteed_than_is_healthy() -> None:
    pool, cluster = a_pool(), a_cluster()
    first, second = an_organization(), an_organization()
    a_quota(first, pool, 10)
    quota = a_quota(second, pool, 6)
    for name in ("n1", "n2"):
        a_cluster_node(cluster, pool, name)
    someone, admin = somebody(), platform()

    def flags() -> tuple[int, int | None, bool]:
        (item,) = admin.get("pools").json()["items"]
        (other,) = someone.get("pools").json()["items"]
        assert other == {**item, "guaranteed_mgpu": None}
        return item["capacity_mgpu"], item["guaranteed_mgpu"], item["is_overcommitted"]

    assert flags() == (16_000, 16_000, False)
    quota.guaranteed_mgpu = 6_001
    quota.save()
    assert flags() == (16_000, 16_001, True)
    quota.guaranteed_mgpu = 6_000
    quota.save()
    ClusterNode.objects.filter(name="n2").update(is_schedulable=False)
    assert flags() == (8_000, 16_000, True)
    ClusterNode.objects.update(is_schedulable=True)
    Cluster.objects.update(is_enabled=False)
    assert flags() == (0, 16_000, True)


def test_the_capacity_of_a_pool_says_as_of_when_while_a_cluster_does_not_answer() -> None:
    """Planted: the latest answer instead of the oldest; disabled clusters counted."""
    now = SystemClock().now()
    pool, other = a_pool("h100"), a_pool("a100")
    fresh, silent, older, disabled = (
        a_cluster(name) for name in ("fresh", "silent", "older", "disabled")
    )
    for cluster, age_s in ((fresh, 0), (silent, 600), (older, 900), (disabled, 1_200)):
        a_cluster_node(cluster, pool, "n1")
        Cluster.objects.filter(pk=cluster.pk).update(
            seen_at=now - timedelta(seconds=age_s), is_enabled=cluster is not disabled
        )
    a_cluster_node(fresh, other, "n2")

    someone = somebody()

    def as_of() -> dict[str, str | None]:
        items = someone.get("pools").json()["items"]
        return {item["name"]: item["capacity_as_of"] for item in items}

    assert as_of() == {"h100": f"{now - timedelta(seconds=900):%Y-%m-%dT%H:%M:%SZ}", "a100": None}
    Cluster.objects.filter(pk__in=[silent.pk, older.pk]).update(seen_at=now)
    assert as_of() == {"h100": None, "a100": None}


def test_a_pool_of_cores_is_added_and_keeps_its_devices_once_it_is_used() -> None:
    """Mutants: a core weighs as much as a GPU; what was counted in GPUs is read as cores."""
    admin = platform()
    added = admin.post("pools", {"name": "cpu", "device": "cpu"}).json()
    assert (added["device"], added["weight"]) == ("cpu", 10)
    path = f"pools/{added['id']}"
    assert admin.patch(path, {"device": "gpu"}).json()["device"] == "gpu"
    assert admin.patch(path, {"device": "cpu", "weight": 5}).json()["weight"] == 5
    assert admin.patch(path, {"device": "tpu"}).status_code == 400
    pool = Pool.objects.get(name="cpu")
    a_quota(an_organization(), pool, 10)
    a_cluster_node(a_cluster(), pool)
    refused = admin.patch(path, {"device": "gpu"})
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "cpu has nodes and quotas that count its cores; add another pool for other devices.",
    )
    assert admin.patch(path, {"device": "cpu", "weight": 6}).json()["weight"] == 6
    with pytest.raises(IntegrityError, match="pool_has_known_devices"), transaction.atomic():
        Pool.objects.update(device="tpu")


def test_a_pool_is_added_and_changed_by_platform_admins() -> None:
    admin = platform()

    added = admin.post("pools", {"name": "a100-80g", "description": "older", "weight": 600})
    path = f"pools/{added.json()['id']}"
    changed = admin.patch(path, {"weight": 650})

    assert (added.status_code, changed.status_code) == (201, 200)
    assert added.json() == {
        "id": added.json()["id"],
        "name": "a100-80g",
        "description": "older",
        "device": "gpu",
        "weight": 600,
        "archived_at": None,
        "aliases": [],
        "capacity_mgpu": 0,
        "capacity_as_of": None,
        "guaranteed_mgpu": 0,
        "is_overcommitted": False,
        "features": [],
    }
    assert changed.json() == {**added.json(), "weight": 650}
    assert admin.get(path).json() == changed.json()
    assert admin.post("pools", {"name": "a100-80g"}).status_code == 409
    assert list(AuditEvent.objects.order_by("pk").values_list("action", flat=True)) == [
        "pool.created",
        "pool.changed",
    ]


def test_a_pool_says_what_its_nodes_have() -> None:
    pool, cluster = a_pool(), a_cluster()
    for features, state in (
        (["nvlink", "ib"], "idle"),
        (["nvlink"], "idle"),
        ([], "idle"),
        (["old"], "gone"),
    ):
        node = a_cluster_node(cluster, pool, is_schedulable=False)
        node.features, node.state = features, state
        node.save()
    a_pool("bare")
    found = {one["name"]: one["features"] for one in somebody().get("pools").json()["items"]}
    assert found == {"bare": [], "h100": ["ib", "nvlink"]}


def test_a_post_with_a_key_adds_one_pool() -> None:
    admin = platform()

    answers = [admin.post("pools", {"name": "l40"}, Idempotency_Key="k") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize(
    ("failing_since", "stored", "shown"),
    [
        (NOW, "/srv/tg: refused by 10.0.0.7", f"Not reachable since {NOW:%Y-%m-%d %H:%M:%S} UTC."),
        (
            None,
            "1 nodes are listed twice for one pool; the first entry counts: n1.",
            "Something there is not as it should be. An administrator can see the details.",
        ),
        (None, "", ""),
    ],
)
def test_a_clusters_own_words_are_for_those_who_manage_clusters(
    failing_since: datetime | None, stored: str, shown: str
) -> None:
    cluster = a_cluster()
    Cluster.objects.update(failing_since=failing_since, message=stored)
    administrator = an_actor(None, Role.PLATFORM_ADMIN).user
    others = [
        somebody(),
        caller(an_organization(), Role.ORGANIZATION_ADMIN),
        caller(an_organization(), Role.AUDITOR),
        by_token(administrator, ["read"]),
    ]

    def messages(who: Caller) -> list[str]:
        (item,) = who.get("clusters").json()["items"]
        return [item["message"], who.get(f"clusters/{cluster.pk}").json()["message"]]

    assert messages(by_token(administrator)) == [stored, stored]
    assert [messages(who) for who in others] == [[shown, shown]] * 4


def test_who_is_outside_is_for_those_who_manage_clusters() -> None:
    """All see how much of a cluster is held by nobody's workloads; only they see by whom."""
    cluster, pool = a_cluster(), a_pool()
    a_cluster_node(cluster, pool, "n1")
    record_outside_use(
        cluster,
        OutsideUse(
            observed_at=int(NOW.timestamp()),
            by_node={("n1", "h100"): 3_000},
            holders=[Holder("root", "tg-x", "h100", "unknown_account", 3_000, 2)],
            pending=4,
            pending_mgpu=9_000,
        ),
    )
    counts = {"running": 2, "running_mgpu": 3_000, "pending": 4, "pending_mgpu": 9_000}
    holder = {
        "account": "root",
        "user": "tg-x",
        "pool": "h100",
        "reason": "unknown_account",
        "mgpu": 3_000,
        "workloads": 2,
    }

    def outside(who: Caller) -> dict[str, Any]:
        (item,) = who.get("clusters").json()["items"]
        assert item == who.get(f"clusters/{cluster.pk}").json()
        assert item["pools"][0]["outside_mgpu"] == 3_000
        found: dict[str, Any] = item["outside"]
        return found

    assert outside(platform()) == {**counts, "holders": [holder]}
    assert outside(somebody()) == {**counts, "holders": None}
    assert outside(caller(an_organization(), Role.ORGANIZATION_ADMIN)) == {
        **counts,
        "holders": None,
    }


def test_options_without_secrets_are_shown_to_those_who_manage_clusters() -> None:
    """Against: local left out of the kinds without secrets, as it was. Planted: the words of no
    options for who may not read them; the variant for everybody."""
    cluster = a_cluster("kube", kind="kubernetes")
    cluster.options = {
        "kubeconfig": "/etc/tidegate/kube",
        "mode": "shared",
        "pools": {
            "h100": {"node_selector": {"gpu": "h100"}, "image": "docker.io/library/job:1"},
            "a100": {"node_selector": {"gpu": "a100"}},
        },
    }
    cluster.save()
    slurm = a_cluster("slurm", kind="slurm")
    slurm.options = {"tag_secret": "0123456789abcdef", "containers": "pyxis"}
    slurm.save()
    local = a_cluster("local")
    local.options = {"root": "/srv/local", "nodes": NODES, "use_real_gpus": False}
    local.save()

    shown = {one["name"]: one for one in platform().get("clusters").json()["items"]}
    assert shown["kube"]["options"] == cluster.options
    assert shown["slurm"]["options"] is None
    assert shown["local"]["options"] == local.options
    images = [
        {"pool": "a100", "image": None},
        {"pool": "h100", "image": "docker.io/library/job:1"},
    ]
    assert (shown["kube"]["runs_images"], shown["kube"]["default_images"]) == (True, images)
    assert (shown["slurm"]["runs_images"], shown["slurm"]["default_images"]) == (True, [])

    other = somebody().get(f"clusters/{cluster.pk}").json()
    assert (other["options"], other["default_images"]) == (None, images)
    assert shown["kube"]["words"]["variant"] == "Kueue, shared mode"
    assert "also while this portal is away" in other["words"]["limits"]
    assert other["words"] == {**shown["kube"]["words"], "variant": ""}

    cluster.options = {"pools": {}, "allowed_registries": []}
    cluster.save()
    wrong = somebody().get(f"clusters/{cluster.pk}").json()
    assert (wrong["runs_images"], wrong["default_images"]) == (False, [])


def test_a_cluster_is_added_seen_and_disabled(tmp_path: Path) -> None:
    admin, pool = platform(), a_pool()
    options = {"root": str(tmp_path / "local"), "nodes": NODES, "use_real_gpus": False}

    added = admin.post("clusters", {"name": "local", "kind": "local", "options": options})

    assert added.status_code == 201
    cluster_id = added.json()["id"]
    assert added.json() == {
        "id": cluster_id,
        "name": "local",
        "kind": "local",
        "kind_label": "Local",
        "words": {
            "variant": "",
            "account": "Account",
            "unknown_account": "the account is no team's",
            "unknown_user": "the user is not mapped",
            "limits": "The cluster enforces the quotas too, as accounts and limits of its own.",
            "limit_objects": "accounts, members and limits",
            "subjects": {},
        },
        "has_users": False,
        "keeps_limits": False,
        "is_enabled": True,
        "archived_at": None,
        "state": "never_seen",
        "seen_at": None,
        "stale_after_s": 15,
        "message": "",
        "api_version": "",
        "isolation": "",
        "nodes_refusal": "",
        "eviction_refusal": "on clusters of kind local what runs on a drained node goes on to its "
        "end",
        "pools": [],
        "outside": {
            "running": 0,
            "running_mgpu": 0,
            "pending": 0,
            "pending_mgpu": 0,
            "holders": [],
        },
        "runs_images": False,
        "default_images": [],
        "options": options,
    }
    cluster = Cluster.objects.get()
    a_cluster_node(cluster, pool, "n1")
    a_cluster_node(cluster, pool, "n2", is_schedulable=False)
    ClusterNode.objects.create(
        cluster=cluster,
        pool=pool,
        name="n3",
        capacity_mgpu=8_000,
        is_schedulable=False,
        state="gone",
        seen_at=SystemClock().now(),
    )
    Cluster.objects.update(seen_at=SystemClock().now())
    seen = admin.get(f"clusters/{cluster_id}").json()
    assert seen["state"] == "reachable"
    assert seen["pools"] == [
        {
            "pool": "h100",
            "device": "gpu",
            "capacity_mgpu": 16_000,
            "healthy_mgpu": 8_000,
            "outside_mgpu": 0,
            "nodes": 2,
            "nodes_healthy": 1,
        }
    ]
    Cluster.objects.update(seen_at=SystemClock().now() - timedelta(seconds=60))
    assert somebody().get("clusters").json()["items"][0]["state"] == "unreachable"

    disabled = admin.patch(f"clusters/{cluster_id}", {"is_enabled": False})

    assert disabled.json()["is_enabled"] is False
    assert Cluster.objects.get().options == options
    assert "root" not in str(list(AuditEvent.objects.values_list("detail", flat=True)))


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"kind": "slurmish"}, "/kind"),
        ({"options": {"root": "relative"}}, "/options/root"),
        ({"options": {"root": "/tmp/x", "colour": 1}}, "/options/colour"),
        ({"options": {"root": "/tmp/x", "nodes": {**NODES, "count": 0}}}, "/options/nodes/count"),
        ({"options": []}, "/options"),
        ({"options": None}, "/options"),
        ({"name": "Local"}, "/name"),
        ({"name": "a.b"}, "/name"),
        ({"name": "-a"}, "/name"),
        ({"name": "a\n"}, "/name"),
        ({"name": "١"}, "/name"),
        ({"name": "x" * 64}, "/name"),
        ({"is_enabled": "yes"}, "/is_enabled"),
        ({"extra": 1}, "/extra"),
    ],
)
def test_nasty_clusters_are_refused(change: dict[str, Any], pointer: str, tmp_path: Path) -> None:
    body = {
        "name": "local",
        "kind": "local",
        "options": {"root": str(tmp_path), "nodes": NODES},
        **change,
    }

    answer = platform().post("clusters", body)

    assert answer.status_code == 400, answer.content
    assert [error["pointer"] for error in answer.json()["errors"]] == [pointer]
    assert not Cluster.objects.exists()


def test_bad_options_do_not_replace_good_ones() -> None:
    cluster = a_cluster()
    admin = platform()

    answer = admin.patch(f"clusters/{cluster.pk}", {"options": {"root": "relative"}})

    assert answer.status_code == 400
    cluster.refresh_from_db()
    assert cluster.options == {}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "H100"},
        {"name": "h100."},
        {"name": "h100\x00"},
        {"name": 5},
        {"name": "x" * 64},
        {"name": "ok", "weight": 0},
        {"name": "ok", "weight": 1_000_001},
        {"name": "ok", "weight": "1"},
        {"name": "ok", "weight": 10**29},
        {"name": "ok", "description": "x" * 201},
        {"name": "ok", "capacity_mgpu": 1},
        b"[1]",
    ],
    ids=lambda body: repr(body)[:40],
)
def test_nasty_pools_are_refused(body: Any) -> None:
    answer = platform().post("pools", body)

    assert answer.status_code == 400, answer.content
    assert not Pool.objects.exists()


@pytest.mark.parametrize(
    "role", [role for role in Role if role is not Role.PLATFORM_ADMIN], ids=lambda role: role.value
)
def test_nobody_else_changes_the_fleet(role: Role, tmp_path: Path) -> None:
    company = a_company()
    someone = caller(company.organization, role)
    new = {"name": "new", "kind": "local", "options": {"root": str(tmp_path), "nodes": NODES}}

    answers = [
        someone.post("pools", {"name": "new"}),
        someone.patch(f"pools/{company.pool.pk}", {"weight": 5}),
        someone.post("clusters", new),
        someone.patch(f"clusters/{company.cluster.pk}", {"is_enabled": False}),
    ]

    assert [answer.status_code for answer in answers] == [403] * 4
    assert (Pool.objects.get().weight, Cluster.objects.get().is_enabled) == (1_000, True)


def test_a_platform_admins_narrow_token_changes_nothing() -> None:
    pool = a_pool()
    user = an_actor(None, Role.PLATFORM_ADMIN).user

    answer = by_token(user, ["read", "quotas"]).patch(f"pools/{pool.pk}", {"weight": 5})

    assert answer.status_code == 403


def test_nodes_are_listed_by_cluster_and_name() -> None:
    h100, a100 = a_pool("h100"), a_pool("a100")
    east, west = a_cluster("east"), a_cluster("west")
    for cluster, pool, name in (
        (west, h100, "n1"),
        (east, h100, "n2"),
        (east, a100, "n1"),
        (east, h100, "n1"),
    ):
        a_cluster_node(cluster, pool, name)
    someone = somebody()

    def found(query: str) -> list[tuple[str, str, str]]:
        answer = someone.get(f"nodes{query}")
        assert answer.status_code == 200, answer.content
        items = answer.json()["items"]
        return [(item["cluster"], item["name"], item["pool"]) for item in items]

    whole = [
        ("east", "n1", "a100"),
        ("east", "n1", "h100"),
        ("east", "n2", "h100"),
        ("west", "n1", "h100"),
    ]
    assert found("") == whole
    assert found("?cluster=east&pool=h100") == whole[1:3]
    first = someone.get("nodes?limit=2").json()
    assert found("?" + first["next"].partition("?")[2]) == whole[2:]


def test_a_node_was_last_seen_when_its_cluster_was_unless_it_is_gone() -> None:
    pool, cluster = a_pool(), a_cluster()
    Cluster.objects.update(seen_at=NOW + timedelta(hours=1))
    a_cluster_node(cluster, pool, "here")
    a_cluster_node(cluster, pool, "lost", is_schedulable=False)
    ClusterNode.objects.filter(name="lost").update(state="gone")

    items = somebody().get("nodes").json()["items"]

    assert [(item["name"], item["seen_at"]) for item in items] == [
        ("here", "2026-11-21T13:00:00Z"),
        ("lost", "2026-11-21T12:00:00Z"),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "pools?x=1",
        "clusters?limit=0",
        "clusters?cursor=zzz",
        "nodes?cluster=nope",
        "nodes?pool=nope",
        "nodes?pool=%00",
        "nodes?cluster=a&cluster=b",
        "nodes?cursor=WyJhIl0",
    ],
)
def test_nasty_queries_are_refused(path: str) -> None:
    answer = somebody().get(path)

    assert answer.status_code == 400, answer.content
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_what_does_not_exist_is_not_found() -> None:
    admin = platform()

    for path in (f"pools/{uuid4()}", f"clusters/{uuid4()}"):
        assert admin.get(path).status_code == 404
        assert admin.patch(path, {}).status_code == 404
    assert admin.get("pools/h100").status_code == 404


def test_without_credentials_nothing_is_served() -> None:
    assert [as_nobody().get(path).status_code for path in ("pools", "clusters", "nodes")] == [
        401,
        401,
        401,
    ]


def test_lists_take_the_same_queries_for_any_size(django_assert_num_queries: Any) -> None:
    """Token with grants; then pools, capacity, its age, features, guaranteed; clusters, shares,
    quarantine; nodes."""
    pool, cluster = a_pool(), a_cluster()
    a_cluster_node(cluster, pool)
    someone = somebody()
    someone.get("pools")  # marks the token as used

    def look() -> None:
        with django_assert_num_queries(7):
            someone.get("pools")
        with django_assert_num_queries(4):
            someone.get("clusters")
        with django_assert_num_queries(2):
            someone.get("nodes")

    look()
    for number in range(20):
        a_cluster_node(a_cluster(f"c{number}"), a_pool(f"p{number}"))
    look()

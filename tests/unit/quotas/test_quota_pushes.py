"""A push is asked for over REST, carried out by the observer, and its result is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.connector_builders import change_kind
from builders.loop_builders import Fenced
from builders.portal_builders import (
    NOW,
    Company,
    a_cluster,
    a_cluster_node,
    a_company,
    a_grant,
    a_pool,
    a_team,
    a_user,
    an_actor,
    an_organization,
)
from clusters.models import Cluster, ClusterNode
from connectors.entitlements import Change, ChangeKind, Entitlements, Share, Terms
from connectors.errors import ClusterUnavailable, WorkloadRejected
from jobs.execution.dispatch import handlers
from outbox.delivery import deliver_due
from outbox.models import Message
from outbox.quarantine import begin_quarantine
from primitives.clock import SystemClock
from quotas.entitlements import entitlements_on
from quotas.models import (
    AcceptedDifference,
    ClusterUser,
    Quota,
    QuotaChange,
    QuotaPush,
    QuotaPushKind,
    QuotaPushStatus,
)
from quotas.pushes import is_check_due, push_shard, request_check, save_outcome
from tenants.roles import Role
from webapi.paging import encode_cursor

pytestmark = pytest.mark.django_db


def a_change(name: str = "org_nlp", before: int = 8, after: int = 4, **more: Any) -> Change:
    return Change(
        *(ChangeKind.LOWER, "account", name),
        before={"gpus": before, "fairshare": 1},
        after={"gpus": after, "fairshare": 2},
        **more,
    )


@dataclass
class AControl:
    """Differs by `differences`; an applied one differs no more. Raises what `failures` holds for
    a subject, once."""

    differences: list[Change] = field(default_factory=list)
    failures: dict[str, Exception] = field(default_factory=dict)
    applied: list[str] = field(default_factory=list)
    wanted: Entitlements | None = None

    def changes(self, wanted: Entitlements) -> tuple[Change, ...]:
        self.wanted = wanted
        if "" in self.failures:
            raise self.failures[""]
        return tuple(self.differences)

    def apply(self, change: Change) -> None:
        if change.subject in self.failures:
            raise self.failures.pop(change.subject)
        self.applied.append(change.subject)
        self.differences.remove(change)


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> AControl:
    made = AControl()
    change_kind(monkeypatch, "slurm", control_entitlements=lambda connector: made)
    return made


@pytest.fixture
def cluster() -> Cluster:
    made = a_cluster("hpc1", kind="slurm")
    a_cluster_node(made, a_pool())
    return made


@pytest.fixture
def root() -> Caller:
    return by_token(an_actor(None, Role.PLATFORM_ADMIN, "root").user)


def path(cluster: Cluster, push: str = "") -> str:
    return f"clusters/{cluster.pk}/quota-pushes" + (f"/{push}" if push else "")


def deliver(cluster: Cluster, *, later: timedelta = timedelta(0)) -> None:
    clock: Callable[[], Any] = lambda: SystemClock().now() + later  # noqa: E731
    observer = Fenced("observer")
    deliver_due(
        handlers(observer, clock, lambda cluster: None),  # type: ignore[arg-type, return-value]
        shard=push_shard(cluster.pk),
        clock=clock,
        fence=observer.fence,
    )


def ask(root: Caller, cluster: Cluster, kind: str, **more: Any) -> dict[str, Any]:
    """The request after it was carried out."""
    answer = root.send("POST", path(cluster), {"kind": kind, **more})
    assert answer.status_code == 201, answer.json()
    assert (answer.json()["status"], answer.json()["changes"]) == ("waiting", [])
    deliver(cluster)
    shown = root.get(path(cluster, answer.json()["id"]))
    assert shown.status_code == 200
    result: dict[str, Any] = shown.json()
    return result


def results(push: dict[str, Any]) -> list[tuple[str, str]]:
    return [(change["subject"], change["result"]) for change in push["changes"]]


def test_a_dry_run_shows_and_a_push_does(control: AControl, cluster: Cluster, root: Caller) -> None:
    control.differences = [a_change("a"), a_change("b", is_blocked=True, note="in use")]
    dry = ask(root, cluster, "dry_run")
    assert (dry["status"], dry["change_count"], dry["requested_by"]) == ("done", 2, "root")
    assert dry["changes"][0] == {
        "kind": "lower",
        "subject": "account a",
        "before": {"gpus": 8, "fairshare": 1},
        "after": {"gpus": 4, "fairshare": 2},
        "note": "",
        "result": "planned",
    }
    assert results(dry) == [("account a", "planned"), ("account b", "waits")]
    assert control.applied == []
    done = ask(root, cluster, "push")
    assert results(done) == [("account a", "done"), ("account b", "waits")]
    assert (done["status"], done["error"]) == (
        "done",
        "1 of 2 differences could not be changed now; each says what it needs.",
    )
    assert control.applied == ["account a"]
    assert sorted(AuditEvent.objects.values_list("action", flat=True)) == [
        *("quota_push.dry_run", "quota_push.push"),
    ]
    listed = root.get(path(cluster)).json()["items"]
    assert [item["kind"] for item in listed] == ["push", "dry_run"]
    assert "changes" not in listed[0]


def test_a_refusal_ends_a_push(control: AControl, cluster: Cluster, root: Caller) -> None:
    control.differences = [a_change("a"), a_change("b"), a_change("c")]
    control.failures["account b"] = WorkloadRejected("no such parent")
    push = ask(root, cluster, "push")
    assert (push["status"], push["error"]) == ("failed", "no such parent")
    assert results(push) == [
        ("account a", "done"),
        ("account b", "refused: no such parent"),
        ("account c", "not tried"),
    ]


def test_a_push_waits_for_its_cluster_and_loses_nothing(
    control: AControl, cluster: Cluster, root: Caller
) -> None:
    control.differences = [a_change("a"), a_change("b")]
    control.failures["account b"] = ClusterUnavailable("no database")
    push = ask(root, cluster, "push")
    assert (push["status"], push["error"], push["done_at"]) == ("waiting", "no database", None)
    assert results(push) == [("account a", "done")]
    deliver(cluster, later=timedelta(minutes=1))
    push = root.get(path(cluster, push["id"])).json()
    assert (push["status"], push["error"]) == ("done", "")
    assert results(push) == [("account a", "done"), ("account b", "done")]
    assert control.applied == ["account a", "account b"]


def test_a_push_is_given_up_after_a_while(
    control: AControl, cluster: Cluster, root: Caller
) -> None:
    control.failures[""] = ClusterUnavailable("no database")
    push = ask(root, cluster, "push")
    assert push["status"] == "waiting"
    deliver(cluster, later=timedelta(minutes=16))
    push = root.get(path(cluster, push["id"])).json()
    assert (push["status"], push["error"]) == (
        "failed",
        "This could not be done within 15 minutes of the request; ask again. Last obstacle: "
        "no database",
    )
    assert not Message.objects.filter(done_at=None).exists()


def test_a_stored_push_is_not_carried_out_when_it_is_old(
    control: AControl, cluster: Cluster, root: Caller
) -> None:
    """The portal was away, and the cluster answers at once."""
    control.differences = [a_change("a")]
    answer = root.send("POST", path(cluster), {"kind": "push"})
    deliver(cluster, later=timedelta(minutes=16))
    push = root.get(path(cluster, answer.json()["id"])).json()
    assert (push["status"], push["error"], push["changes"]) == (
        *("failed", "This could not be done within 15 minutes of the request; ask again."),
        [],
    )
    assert control.applied == []
    assert not Message.objects.filter(done_at=None).exists()


def test_nothing_is_pushed_in_quarantine_and_a_check_is_made(
    control: AControl, cluster: Cluster, root: Caller
) -> None:
    control.differences = [a_change("a")]
    quarantine, _ = begin_quarantine("restored", since=NOW, now=NOW)
    push = ask(root, cluster, "push")
    assert (push["status"], push["error"]) == (
        *("waiting", "Tidegate is in quarantine; no limit is changed."),
    )
    assert ask(root, cluster, "check")["status"] == "done"
    assert control.applied == []
    quarantine.ended_at = NOW
    quarantine.save()
    deliver(cluster, later=timedelta(minutes=1))
    push = root.get(path(cluster, push["id"])).json()
    assert (push["status"], push["error"], control.applied) == ("done", "", ["account a"])


@pytest.mark.parametrize("kind", ["check", "push"])
def test_nothing_is_compared_before_the_nodes_are_known(
    control: AControl, cluster: Cluster, root: Caller, kind: str
) -> None:
    control.differences = [a_change("a")]
    cluster.nodes.all().delete()
    push = ask(root, cluster, kind)
    assert (push["status"], push["error"]) == (
        *("waiting", "hpc1 has not reported its nodes yet, so no team's share of it is known"),
    )
    a_cluster_node(cluster, a_pool())
    Cluster.objects.filter(pk=cluster.pk).update(seen_at=None)
    deliver(cluster, later=timedelta(minutes=1))
    assert root.get(path(cluster, push["id"])).json()["status"] == "waiting"
    assert control.wanted is None
    Cluster.objects.filter(pk=cluster.pk).update(seen_at=NOW)
    deliver(cluster, later=timedelta(minutes=2))
    assert root.get(path(cluster, push["id"])).json()["status"] == "done"


def test_what_is_accepted_is_no_difference_until_it_changes(
    control: AControl, cluster: Cluster, root: Caller
) -> None:
    gone = Change(ChangeKind.DELETE, "account", "old", before={"parent": "root"}, note="left")
    control.differences = [a_change("a"), a_change("b"), gone]
    accepted = ask(root, cluster, "accept", subjects=["account a", "account old"])
    assert results(accepted) == [("account a", "accepted"), ("account old", "accepted")]
    assert results(ask(root, cluster, "check")) == [("account b", "planned")]
    # One of the two values of a has changed, on the cluster or in the tree: it alone is shown.
    for changed in (
        replace(a_change("a"), before={"gpus": 9, "fairshare": 1}),
        replace(a_change("a"), after={"gpus": 3, "fairshare": 2}),
    ):
        control.differences[0] = changed
        (shown, _) = ask(root, cluster, "check")["changes"]
        assert set(shown["after"]) == {"gpus"}
    # Back at what was accepted: that was some time ago, and is shown again.
    control.differences = [a_change("a")]
    (shown,) = ask(root, cluster, "check")["changes"]
    assert set(shown["after"]) == {"gpus"}
    assert AcceptedDifference.objects.count() == 1
    everything = ask(root, cluster, "accept")
    assert results(everything) == [("account a", "accepted")]
    assert results(ask(root, cluster, "push")) == []
    assert control.applied == []


def test_who_accepts_what_is_no_difference_is_told(
    control: AControl, cluster: Cluster, root: Caller
) -> None:
    control.differences = [a_change("a")]
    nothing = ask(root, cluster, "accept", subjects=["account A"])
    assert (nothing["status"], results(nothing), nothing["error"]) == (
        "failed",
        [],
        'There is no difference named "account A"; a comparison lists all differences.',
    )
    some = ask(root, cluster, "accept", subjects=["account a", *(f"x{n}" for n in range(7))])
    assert (some["status"], results(some)) == ("done", [("account a", "accepted")])
    assert some["error"].startswith('There is no difference named "x0", "x1",')
    assert some["error"].endswith(' "x4" and 2 more; a comparison lists all differences.')


def test_what_was_let_stand_is_listed_and_can_be_taken_back(
    control: AControl, cluster: Cluster, root: Caller
) -> None:
    gone = Change(ChangeKind.DELETE, "account", "old", before={"parent": "root"})
    control.differences = [a_change("a"), gone]
    ask(root, cluster, "accept")
    address = f"clusters/{cluster.pk}/accepted-differences"
    first = root.get(f"{address}?limit=2").json()
    assert [
        (item["subject"], item["before"], item["after"], item["accepted_by"])
        for item in first["items"]
    ] == [
        ("account old", {"parent": "root"}, {}, "root"),
        ("account a", {"fairshare": 1}, {"fairshare": 2}, "root"),
    ]
    (last,) = root.get(first["next"].removeprefix("/api/v1/")).json()["items"]
    assert (last["before"], last["after"]) == ({"gpus": 8}, {"gpus": 4})
    elsewhere = f"clusters/{a_cluster('here').pk}/accepted-differences"
    assert root.send("DELETE", f"{elsewhere}/{last['id']}").status_code == 404
    assert results(ask(root, cluster, "check")) == []
    assert root.send("DELETE", f"{address}/{last['id']}").status_code == 204
    assert root.send("DELETE", f"{address}/{last['id']}").status_code == 404
    (shown,) = ask(root, cluster, "check")["changes"]
    assert shown["after"] == {"gpus": 4}
    assert AuditEvent.objects.get(action="quota_push.unaccept").detail == {
        "cluster": "hpc1",
        "subject": "account a",
        "setting": "gpus",
    }


def test_changed_options_are_compared_at_once(
    cluster: Cluster, root: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_kind(
        monkeypatch,
        "slurm",
        check_trusted=lambda options, given: None,
        check_options=lambda options: None,
    )
    address = f"clusters/{cluster.pk}"
    for _ in "12":
        # What waits already is enough.
        assert root.send("PATCH", address, {"options": {"url": "x"}}).status_code == 200
    (item,) = root.get(path(cluster)).json()["items"]
    assert (item["kind"], item["status"], item["requested_by"]) == ("check", "waiting", None)
    deliver(cluster)
    for body in ({"is_enabled": True}, {"is_enabled": False, "options": {"url": "y"}}):
        assert root.send("PATCH", address, body).status_code == 200
    assert QuotaPush.objects.count() == 1


@pytest.mark.parametrize("key", ["0197a000-0000-7000-8000-000000000001", "1.5", "-1", "9" * 19])
def test_a_cursor_of_another_list_is_refused(cluster: Cluster, root: Caller, key: str) -> None:
    answer = root.get(f"clusters/{cluster.pk}/accepted-differences?cursor={encode_cursor([key])}")
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "/cursor")


def test_who_may_ask_for_what(control: AControl, cluster: Cluster, root: Caller) -> None:
    local = a_cluster("here")
    answer = root.send("POST", path(local), {"kind": "push"})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "A local cluster has no limits of its own. The portal alone enforces the quotas there, so "
        "there is nothing to push.",
    )
    assert root.send("POST", path(cluster), {"kind": "shove"}).status_code == 400
    assert (
        root.send("POST", path(cluster), {"kind": "push", "subjects": ["account a"]}).status_code
        == 400
    )
    for _ in range(10):
        assert root.send("POST", path(cluster), {"kind": "check"}).status_code == 201
    assert root.send("POST", path(cluster), {"kind": "check"}).status_code == 409
    of_other = QuotaPush.objects.create(cluster=local, kind="check", requested_at=NOW)
    assert root.get(path(cluster, str(of_other.pk))).status_code == 404
    Cluster.objects.filter(pk=cluster.pk).update(is_enabled=False)
    assert root.send("POST", path(cluster), {"kind": "check"}).status_code == 409


def test_the_same_request_twice_is_one(control: AControl, cluster: Cluster, root: Caller) -> None:
    first, second = (
        root.send("POST", path(cluster), {"kind": "push"}, Idempotency_Key="k1") for _ in "12"
    )
    assert first.json()["id"] == second.json()["id"]
    assert QuotaPush.objects.count() == 1


def test_a_check_is_due_when_time_passed_or_something_changed(cluster: Cluster) -> None:
    company = a_company()
    now = datetime.now(UTC)
    assert is_check_due(cluster, now=now)
    push = request_check(cluster, now=now)
    assert not is_check_due(cluster, now=now)
    assert not is_check_due(cluster, now=now + timedelta(minutes=11))
    save_outcome(push, QuotaPushStatus.DONE, [], now=now)
    assert not is_check_due(cluster, now=now + timedelta(minutes=9))
    assert is_check_due(cluster, now=now + timedelta(minutes=10))
    change = QuotaChange.objects.create(
        quota=Quota.objects.filter(node=company.nlp)[0], at=now, after={}, reason="r"
    )
    assert not is_check_due(cluster, now=now)
    QuotaChange.objects.create(
        quota=change.quota, at=now + timedelta(seconds=1), after={}, reason="r"
    )
    assert is_check_due(cluster, now=now)
    QuotaPush.objects.update(requested_at=now + timedelta(hours=1))
    assert not is_check_due(cluster, now=now)
    assert not is_check_due(a_cluster("here"), now=now)
    cluster.is_enabled = False
    assert not is_check_due(cluster, now=now)


def test_a_check_is_due_when_a_user_was_mapped(cluster: Cluster) -> None:
    now = SystemClock().now()
    push = request_check(cluster, now=now - timedelta(minutes=1))
    save_outcome(push, QuotaPushStatus.DONE, [], now=now)
    assert not is_check_due(cluster, now=now)
    ClusterUser.objects.create(cluster=cluster, user=a_user(None), name="ana")
    assert is_check_due(cluster, now=now)


def test_a_check_is_due_when_there_is_a_new_team(cluster: Cluster) -> None:
    """Until then a plan says that its jobs would start where it is not set up."""
    company = a_company()
    # The clock of the product has whole seconds.
    now = datetime.now(UTC)
    push = request_check(cluster, now=now)
    save_outcome(push, QuotaPushStatus.DONE, [], now=now)
    assert not is_check_due(cluster, now=now)
    a_team(company.organization)
    assert is_check_due(cluster, now=now)


def test_a_check_is_due_when_somebody_got_a_role(cluster: Cluster) -> None:
    company = a_company()
    bob = a_user(company.organization, "bob")
    # The clock of the product has whole seconds: the company may be of the next one.
    now = datetime.now(UTC)
    push = request_check(cluster, now=now)
    save_outcome(push, QuotaPushStatus.DONE, [], now=now)
    assert not is_check_due(cluster, now=now)
    a_grant(bob, Role.RESEARCHER, company.nlp)
    assert is_check_due(cluster, now=now)


def test_checks_by_themselves_are_not_kept_for_ever(cluster: Cluster) -> None:
    asked = QuotaPush.objects.create(
        cluster=cluster,
        kind=QuotaPushKind.CHECK,
        requested_at=NOW,
        requested_by=a_user(None),
    )
    for _ in range(52):
        request_check(cluster, now=NOW)
    assert QuotaPush.objects.filter(requested_by=None).count() == 50
    assert QuotaPush.objects.filter(pk=asked.pk).exists()


def test_an_end_belongs_to_what_ended(cluster: Cluster) -> None:
    for status, done_at in (("waiting", NOW), ("done", None)):
        with pytest.raises(IntegrityError, match="quota_push_has_an_end"), transaction.atomic():
            QuotaPush.objects.create(
                cluster=cluster, kind="check", requested_at=NOW, status=status, done_at=done_at
            )


@pytest.fixture
def company() -> Company:
    return a_company()


def shares(cluster: Cluster, pool: str = "h100") -> dict[str, Share]:
    return {node.path: node.shares[pool] for node in entitlements_on(cluster).nodes}


def test_entitlements_on_the_only_cluster(company: Company) -> None:
    Quota.objects.filter(node=company.nlp).update(borrow_limit_mgpu=4_500, weight=3)
    Quota.objects.filter(node=company.vision).delete()
    assert shares(company.cluster) == {
        "ai-company": Share(0, None),
        "ai-company/production": Share(0, None),
        "ai-company/production/inference": Share(16, None),
        "ai-company/research": Share(0, None),
        "ai-company/research/nlp": Share(8, 12),
        "ai-company/research/vision": Share(0, None),
    }
    wanted = entitlements_on(company.cluster)
    assert (wanted.organizations, wanted.grace_s) == (frozenset({"ai-company"}), 300)
    assert {node.path: node.weight for node in wanted.nodes}["ai-company/research/nlp"] == 3
    assert [node.path for node in wanted.nodes if node.is_team] == [
        "ai-company/production/inference",
        "ai-company/research/nlp",
        "ai-company/research/vision",
    ]


def test_each_cluster_of_a_pool_has_the_whole_guarantee(company: Company) -> None:
    """Wherever the arbiter places it, it starts there: also where nodes are drained at the moment,
    and where more is guaranteed than the cluster can hold."""
    other = a_cluster("second", kind="slurm")
    a_cluster_node(other, company.pool, capacity_mgpu=8_000)
    a_cluster_node(other, company.pool, capacity_mgpu=8_000, is_schedulable=False)
    Quota.objects.filter(node=company.nlp).update(borrow_limit_mgpu=0)
    nlp, inference = "ai-company/research/nlp", "ai-company/production/inference"
    for cluster in (company.cluster, other):
        assert shares(cluster)[nlp] == Share(8, 8)
        assert shares(cluster)[inference] == Share(16, None)


def test_terms_are_every_nodes_own_and_what_nobody_is_guaranteed_is_told(company: Company) -> None:
    """Spare is what the pool has on all its clusters, drained nodes with it, above what its
    organizations are guaranteed."""
    Quota.objects.filter(node=company.research).update(borrow_limit_mgpu=4_500)
    Quota.objects.filter(node=company.nlp).update(lend_limit_mgpu=1_000)
    Quota.objects.filter(node=company.vision).delete()
    other = a_cluster("second", kind="slurm")
    a_cluster_node(other, company.pool, capacity_mgpu=5_000, is_schedulable=False)
    gone = a_cluster_node(other, company.pool, capacity_mgpu=8_000, is_schedulable=False)
    ClusterNode.objects.filter(pk=gone.pk).update(state="gone")
    wanted = entitlements_on(company.cluster)
    assert {node.path: node.terms["h100"] for node in wanted.nodes} == {
        "ai-company": Terms(32_000),
        "ai-company/production": Terms(16_000),
        "ai-company/production/inference": Terms(16_000),
        "ai-company/research": Terms(16_000, None, 4_500),
        "ai-company/research/nlp": Terms(8_000, 1_000),
        "ai-company/research/vision": Terms(0),
    }
    assert wanted.spare_mgpu == {"h100": 5_000}
    Quota.objects.filter(node=company.organization).update(guaranteed_mgpu=99_000)
    assert entitlements_on(company.cluster).spare_mgpu == {"h100": 0}


def test_an_organization_without_quota_has_no_accounts_and_is_known(company: Company) -> None:
    a_company("rival", nodes=1)
    Quota.objects.filter(node__path__startswith="rival/").delete()
    wanted = entitlements_on(company.cluster)
    assert {node.path.partition("/")[0] for node in wanted.nodes} == {"ai-company"}
    assert wanted.organizations == {"ai-company", "rival"}
    # Nor may it use a pool in which another has quota, on a cluster with both.
    rival = Quota.objects.create(
        node=a_team(an_organization("third")), pool=a_pool("a100"), guaranteed_mgpu=0
    )
    a_cluster_node(company.cluster, rival.pool)
    first = entitlements_on(company.cluster).nodes[0]
    assert (first.path, first.shares["a100"]) == ("ai-company", Share(0, 0))
    assert first.terms["a100"] == Terms(0, None, 0)


def test_users_are_those_who_may_submit_and_are_known_there(company: Company) -> None:
    people = {
        "ana": (Role.RESEARCHER, company.nlp),
        "leo": (Role.DEPARTMENT_ADMIN, company.research),
        "fin": (Role.FINANCE, company.organization),
        "adm": (Role.PLATFORM_ADMIN, None),
        "off": (Role.RESEARCHER, company.nlp),
        "unmapped": (Role.RESEARCHER, company.nlp),
    }
    for name, (role, node) in people.items():
        user = a_user(None if node is None else company.organization, name)
        a_grant(user, role, node)
        if name == "off":
            user.is_active = False
            user.save()
        if name != "unmapped":
            ClusterUser.objects.create(cluster=company.cluster, user=user, name=f"u-{name}")
    users = {node.path: node.users for node in entitlements_on(company.cluster).nodes}
    assert users == {
        "ai-company": (),
        "ai-company/production": (),
        "ai-company/production/inference": ("u-adm",),
        "ai-company/research": (),
        "ai-company/research/nlp": ("u-adm", "u-ana", "u-leo"),
        "ai-company/research/vision": ("u-adm", "u-leo"),
    }

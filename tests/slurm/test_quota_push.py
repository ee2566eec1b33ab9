"""The quota tree pushed to a real Slurm, and what somebody changes there by hand."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any

import pytest
from django.db import connection

from audit.models import AuditEvent
from builders.connector_builders import eventually
from builders.loop_builders import Fenced, a_job
from builders.portal_builders import (
    Company,
    a_cluster,
    a_cluster_node,
    a_company,
    a_grant,
    a_user,
)
from builders.slurm_loop import SlurmLoop
from clusters.registration import Administrator
from conformance.rigs import SlurmRig
from connectors.slurm.accounting import NO_LIMIT
from connectors.slurm.connector import open_slurm
from jobs.execution.dispatch import handlers
from jobs.loops.observer import run_observer
from outbox.delivery import deliver_due
from outbox.models import Message
from primitives.clock import SystemClock
from quotas.models import ClusterUser, Quota, QuotaPush, QuotaPushKind, QuotaPushStatus
from quotas.pushes import push_shard, request_push
from slurm_bed import SlurmBed
from tenants.models import RoleGrant, User
from tenants.roles import Role

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.writes_slurm_accounts,
]


@dataclass
class Pushing:
    """A small company whose tree is pushed to the bed under names that nobody else has: research
    with 16 GPUs, of which nlp and vision have 8 each, and a user of nlp. Every call to the
    accounting takes this Slurm a fifth of a second and more, so most tests share their names and
    begin with what the one before has left, made equal to the tree again."""

    bed: SlurmBed
    rig: SlurmRig
    company: Company
    prefix: str
    borrow: str
    observer: Any
    loop: SlurmLoop
    admin: Administrator
    bob: User
    unix: str

    def push(self, kind: str = "push", subjects: list[str] | None = None) -> QuotaPush:
        """One request, carried out."""
        push = self.ask(kind, subjects)
        self.deliver()
        push.refresh_from_db()
        return push

    def ask(self, kind: str, subjects: list[str] | None = None) -> QuotaPush:
        return request_push(
            self.loop.cluster,
            QuotaPushKind(kind),
            subjects=subjects or [],
            by=self.admin,
            now=SystemClock().now(),
        )

    def deliver(self) -> None:
        clock = SystemClock().now
        deliver_due(
            handlers(self.observer, clock, lambda cluster: self.loop.connector),
            shard=push_shard(self.loop.cluster.pk),
            clock=clock,
            fence=self.observer.fence,
        )

    def account(self, path: str) -> str:
        return self.prefix + path.replace("/", "_")

    def qos(self, path: str) -> str:
        return f"g-{self.account(path)}"

    def sacctmgr(self, *words: str) -> None:
        self.bed.run(["sacctmgr", "-i", *words])

    def shows(self, path: str, fields: str, user: str = "") -> list[str]:
        """Fields of an association by sacctmgr."""
        words = ["sacctmgr", "-nP", "show", "assoc", f"account={self.account(path)}"]
        lines = self.bed.run([*words, f"format=user,{fields}"]).splitlines()
        return next(line.split("|")[1:] for line in lines if line.split("|")[0] == user)

    def users(self, path: str) -> set[str]:
        words = ["sacctmgr", "-nP", "show", "assoc", f"account={self.account(path)}"]
        return {name for name in self.bed.run([*words, "format=user"]).splitlines() if name}

    def guaranteed(self, path: str) -> str:
        words = ["sacctmgr", "-nP", "show", "qos", self.qos(path), "format=grptres"]
        return self.bed.run(words).strip()

    def limit_in_force(self, path: str) -> str:
        """What the controller itself allows the account, "N" for no limit."""
        told = self.bed.run(["scontrol", "show", "assoc_mgr", "flags=assoc"])
        (mine,) = (
            part
            for part in told.split("ClusterName=")
            if f" Account={self.account(path)} UserName= " in part
        )
        limits = mine.partition("GrpTRES=")[2].partition("\n")[0]
        return limits.partition("gres/gpu:h100=")[2].partition("(")[0]

    def sbatch(self, path: str, command: str, *words: str) -> str:
        """The state-bearing number of a job that the UNIX user submits by hand."""
        told = self.bed.run(
            [
                *("runuser", "-u", self.unix, "--", "sbatch", "--parsable", "-D", "/tmp"),
                *("-o", "/dev/null", "-A", self.account(path), "--gres=gpu:h100:1", "--mem=10"),
                *(*words, "--wrap", command),
            ]
        )
        return told.strip()

    def state(self, job: str) -> str:
        return self.bed.run(["squeue", "-h", "-t", "all", "-j", job, "-o", "%T %q"]).strip()


def a_pushing(bed: SlurmBed, prefix: str) -> Pushing:
    company = a_company()
    company.cluster.nodes.all().delete()
    Quota.objects.filter(node__in=(company.inference, company.production)).delete()
    company.inference.delete()
    company.production.delete()
    rig = SlurmRig(bed)
    rig.options |= {
        "account_prefix": prefix,
        "borrow_qos": f"{prefix}borrow",
        "cluster_name": bed.cluster,
    }
    rig.connector = open_slurm(rig.options, "test")
    loop = SlurmLoop(company.cluster, rig)
    root = a_user(None, "root")
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    unix = bed.users[2]
    ClusterUser.objects.create(cluster=loop.cluster, user=bob, name=unix)
    return Pushing(
        *(bed, rig, company, prefix, f"{prefix}borrow", Fenced("observer"), loop),
        *(Administrator(root.pk, root.login), bob, unix),
    )


def clean(bed: SlurmBed, prefix: str) -> None:
    """Take everything with these names off the bed."""
    # What the tests of a module share ends after the last of them has given back the lock.
    with bed.account_writing():
        _clean(bed, prefix)


def _clean(bed: SlurmBed, prefix: str) -> None:
    shown = bed.run(["sacctmgr", "-nP", "show", "account", "format=account"])
    accounts = [name for name in shown.splitlines() if name.startswith(prefix)]
    if accounts:
        bed.run(["scancel", f"--account={','.join(accounts)}"])
        eventually(lambda: not bed.run(["squeue", "-h", "-A", ",".join(accounts)]).strip())
        give_other_defaults(bed, prefix)
        bed.run(["sacctmgr", "-i", "delete", "account", ",".join(accounts)])
    shown = bed.run(["sacctmgr", "-nP", "show", "qos", "format=name"])
    if names := [name for name in shown.splitlines() if prefix in name]:
        bed.run(["sacctmgr", "-i", "delete", "qos", ",".join(names)])


def give_other_defaults(bed: SlurmBed, prefix: str) -> None:
    """Slurm keeps an account that is somebody's default."""
    shown = bed.run(["sacctmgr", "-nP", "show", "assoc", "format=user,account"])
    accounts: dict[str, list[str]] = {}
    for line in shown.splitlines():
        user, account = line.split("|")
        accounts.setdefault(user, []).append(account)
    for user, names in accounts.items():
        if user and any(name.startswith(prefix) for name in names):
            others = [name for name in names if not name.startswith(prefix)]
            if others:
                bed.run(
                    ["sacctmgr", "-i", "modify", "user", user, "set", f"defaultaccount={others[0]}"]
                )
            else:
                bed.run(["sacctmgr", "-i", "delete", "user", user])


@pytest.fixture
def fresh(slurm_bed: SlurmBed) -> Iterator[Pushing]:
    """Nothing of it is on the cluster."""
    made = a_pushing(slurm_bed, f"qp{secrets.token_hex(3)}-")
    yield made
    made.rig.close()
    clean(slurm_bed, made.prefix)


@pytest.fixture(scope="module")
def shared_prefix(slurm_bed: SlurmBed) -> Iterator[str]:
    prefix = f"qp{secrets.token_hex(3)}-"
    yield prefix
    clean(slurm_bed, prefix)


@pytest.fixture
def pushing(slurm_bed: SlurmBed, shared_prefix: str) -> Iterator[Pushing]:
    """The cluster is as the tree says."""
    made = a_pushing(slurm_bed, shared_prefix)
    pushed = made.push()
    assert (pushed.error, {change["result"] for change in pushed.changes} - {"done"}) == ("", set())
    yield made
    made.rig.close()


def told(push: QuotaPush) -> list[tuple[str, str]]:
    assert push.error == ""
    return [(change["kind"], change["subject"]) for change in push.changes]


def test_a_push_makes_the_cluster_as_the_tree_says(fresh: Pushing) -> None:
    """And a dry run says beforehand what it will do, and a second push does nothing."""
    Quota.objects.filter(node=fresh.company.research).update(borrow_limit_mgpu=4_000)
    Quota.objects.filter(node=fresh.company.nlp).update(borrow_limit_mgpu=2_000, weight=30)
    prefix, unix = fresh.prefix, fresh.unix
    dry = fresh.push("dry_run")
    assert told(dry) == [
        ("create", f"qos {prefix}borrow"),
        ("create", f"qos g-{prefix}ai-company_research_nlp"),
        ("create", f"qos g-{prefix}ai-company_research_vision"),
        ("create", f"account {prefix}ai-company"),
        ("create", f"account {prefix}ai-company_research"),
        ("create", f"account {prefix}ai-company_research_nlp"),
        ("create", f"account {prefix}ai-company_research_vision"),
        ("create", f"member {unix} of {prefix}ai-company_research_nlp"),
    ]
    nlp = next(
        change
        for change in dry.changes
        if change["subject"].endswith("ai-company_research_nlp")
        and change["subject"].startswith("account")
    )
    assert (nlp["before"], nlp["after"], nlp["result"]) == (
        {},
        {
            "parent": f"{prefix}ai-company_research",
            "fairshare": 30,
            "gres/gpu:h100": 10,
            "qos": sorted((fresh.qos("ai-company/research/nlp"), fresh.borrow)),
            "default_qos": fresh.qos("ai-company/research/nlp"),
        },
        "planned",
    )
    assert fresh.bed.run(["sacctmgr", "-nP", "show", "account", f"{prefix}ai-company"]) == ""

    done = fresh.push()
    assert told(done) == told(dry)
    assert {change["result"] for change in done.changes} == {"done"}
    assert fresh.shows("ai-company", "parentname,grptres") == ["root", ""]
    assert fresh.shows("ai-company/research", "parentname,grptres,fairshare") == [
        *(f"{prefix}ai-company", "gres/gpu:h100=20", "100"),
    ]
    assert fresh.shows("ai-company/research/nlp", "parentname,grptres,fairshare,defaultqos") == [
        *(f"{prefix}ai-company_research", "gres/gpu:h100=10", "30"),
        fresh.qos("ai-company/research/nlp"),
    ]
    assert fresh.shows("ai-company/research/vision", "grptres") == [""]
    assert fresh.guaranteed("ai-company/research/nlp") == "gres/gpu:h100=8"
    assert fresh.guaranteed("ai-company/research/vision") == "gres/gpu:h100=8"
    words = ["sacctmgr", "-nP", "show", "qos", fresh.borrow]
    assert fresh.bed.run([*words, "format=priority,flags,preemptmode,gracetime"]).strip() == (
        "10|NoReserve|requeue|00:05:00"
    )
    words = ["sacctmgr", "-nP", "show", "qos", fresh.qos("ai-company/research/nlp")]
    assert fresh.bed.run([*words, "format=priority,preempt"]).strip() == f"1000|{fresh.borrow}"
    assert fresh.users("ai-company/research/nlp") == {unix}
    assert fresh.users("ai-company/research/vision") == set()

    assert told(fresh.push()) == []
    assert told(fresh.push("check")) == []
    assert Message.objects.filter(kind="push_quota", done_at=None).count() == 0
    assert AuditEvent.objects.filter(action="quota_push.push", actor="root").count() == 2


def test_what_is_taken_is_taken_before_anything_is_given(pushing: Pushing) -> None:
    Quota.objects.filter(node=pushing.company.vision).update(borrow_limit_mgpu=0)
    Quota.objects.filter(node=pushing.company.nlp).update(borrow_limit_mgpu=0)
    pushing.push()
    nlp, vision = "ai-company/research/nlp", "ai-company/research/vision"
    pushing.sacctmgr("modify", "account", pushing.account(vision), "set", "GrpTRES=cpu=77")
    Quota.objects.filter(node=pushing.company.vision).update(guaranteed_mgpu=3_000)
    Quota.objects.filter(node=pushing.company.nlp).update(guaranteed_mgpu=13_000)
    pushed = pushing.push()
    assert told(pushed) == [
        ("lower", f"account {pushing.account(vision)}"),
        ("lower", f"qos {pushing.qos(vision)}"),
        ("raise", f"qos {pushing.qos(nlp)}"),
        ("raise", f"account {pushing.account(nlp)}"),
    ]
    assert [(change["before"], change["after"]) for change in pushed.changes] == [
        ({"gres/gpu:h100": before}, {"gres/gpu:h100": after})
        for before, after in ((8, 3), (8, 3), (8, 13), (8, 13))
    ]
    # The limit that somebody else set is still there, and so is the account's place.
    assert pushing.shows(vision, "grptres,parentname") == [
        *("cpu=77,gres/gpu:h100=3", f"{pushing.prefix}ai-company_research"),
    ]
    assert (pushing.guaranteed(vision), pushing.guaranteed(nlp)) == (
        *("gres/gpu:h100=3", "gres/gpu:h100=13"),
    )
    Quota.objects.filter(node=pushing.company.nlp).update(borrow_limit_mgpu=None)
    Quota.objects.filter(node=pushing.company.organization).update(borrow_limit_mgpu=0, weight=7)
    assert told(pushing.push()) == [
        ("lower", f"account {pushing.prefix}ai-company"),
        ("change", f"account {pushing.prefix}ai-company"),
        ("raise", f"account {pushing.account(nlp)}"),
    ]
    assert pushing.shows(nlp, "grptres") == [""]
    # Planted: cleared at once, of which slurmdbd 22.05 does not tell the controller: 13 were in
    # force. Later versions have no detour and no limit.
    none = str(NO_LIMIT) if pushing.rig.connector.inventory().api_version == "v0.0.38" else "N"
    assert pushing.limit_in_force(nlp) == none
    assert pushing.limit_in_force(vision) == "3"
    assert pushing.shows("ai-company", "grptres,fairshare,parentname") == [
        *("gres/gpu:h100=32", "7", "root"),
    ]
    assert told(pushing.push()) == []
    assert "detour" not in pushing.bed.run(["sacctmgr", "-nP", "show", "account"])


def test_a_change_by_hand_is_seen_and_overwritten_or_accepted(pushing: Pushing) -> None:
    nlp, vision = "ai-company/research/nlp", "ai-company/research/vision"
    on_account, on_qos = f"account {pushing.account(nlp)}", f"qos {pushing.qos(nlp)}"
    pushing.sacctmgr("modify", "qos", pushing.qos(nlp), "set", "GrpTRES=gres/gpu:h100=99")
    pushing.sacctmgr("modify", "account", pushing.account(nlp), "set", "fairshare=5")
    pushing.sacctmgr("delete", "user", pushing.unix, f"account={pushing.account(nlp)}")
    pushing.sacctmgr(
        *("add", "user", pushing.bed.users[3], f"account={pushing.account(vision)}"),
        f"cluster={pushing.bed.cluster}",
    )
    seen = pushing.push("check")
    assert told(seen) == [
        ("lower", on_qos),
        ("delete", f"member {pushing.bed.users[3]} of {pushing.account(vision)}"),
        ("change", on_account),
        ("create", f"member {pushing.unix} of {pushing.account(nlp)}"),
    ]
    assert pushing.guaranteed(nlp) == "gres/gpu:h100=99"

    accepted = pushing.push("accept", [on_account])
    assert [(change["subject"], change["result"]) for change in accepted.changes] == [
        (on_account, "accepted")
    ]
    assert len(told(pushing.push())) == 3
    assert pushing.guaranteed(nlp) == "gres/gpu:h100=8"
    assert pushing.users(nlp) == {pushing.unix}
    assert pushing.users(vision) == set()
    assert pushing.shows(nlp, "fairshare") == ["5"]
    assert told(pushing.push("check")) == []

    pushing.sacctmgr("modify", "account", pushing.account(nlp), "set", "fairshare=6")
    assert told(pushing.push("check")) == [("change", on_account)]
    pushing.sacctmgr("modify", "account", pushing.account(nlp), "set", "fairshare=5")
    assert told(pushing.push("check")) == [("change", on_account)]
    assert told(pushing.push()) == [("change", on_account)]
    assert pushing.shows(nlp, "fairshare") == ["100"]


def test_users_can_submit_where_they_may_and_our_jobs_start(pushing: Pushing) -> None:
    nlp = "ai-company/research/nlp"
    job = pushing.sbatch(nlp, "true")
    eventually(lambda: pushing.state(job) == f"COMPLETED {pushing.qos(nlp)}")
    with pytest.raises(AssertionError, match="Invalid account"):
        pushing.sbatch("ai-company/research/vision", "true")
    mine = a_job(pushing.company.nlp, pushing.bob, pushing.company.pool, gpus=8)
    lent = a_job(pushing.company.nlp, pushing.bob, pushing.company.pool, gpus=4)
    for each, qos in ((mine, pushing.qos(nlp)), (lent, pushing.borrow)):
        pushing.loop.until(each, "succeeded", "failed")
        assert (each.state, each.attempts.count()) == ("succeeded", 1)
        assert pushing.state(each.attempts.get().native_id or "") == f"COMPLETED {qos}"


def test_the_whole_guarantee_starts_on_one_of_two_clusters(pushing: Pushing) -> None:
    """Planted: the guarantee cut among the clusters by their capacity; 4 of 8 were allowed then,
    and the second job waited with QOSGrpGRES."""
    a_cluster_node(a_cluster("twin"), pushing.company.pool, capacity_mgpu=128_000)
    assert told(pushing.push()) == []
    nlp = "ai-company/research/nlp"
    assert pushing.guaranteed(nlp) == "gres/gpu:h100=8"
    jobs = [
        a_job(
            *(pushing.company.nlp, pushing.bob, pushing.company.pool),
            gpus=4,
            script="sleep 120",
            cluster=pushing.loop.cluster,
        )
        for _ in range(2)
    ]
    for job in jobs:
        pushing.loop.until(job, "running", "failed")
        native_id = job.attempts.get().native_id or ""
        assert pushing.state(native_id) == f"RUNNING {pushing.qos(nlp)}"


def test_what_is_guaranteed_starts_whatever_fills_its_qos(pushing: Pushing) -> None:
    """A job keeps the QoS it started with, and a guarantee may be raised and not pushed: what is
    guaranteed now goes with the borrowers' then. Planted: it kept its own and waited."""
    nlp = "ai-company/research/nlp"
    Quota.objects.filter(node=pushing.company.vision).update(guaranteed_mgpu=0)
    Quota.objects.filter(node=pushing.company.nlp).update(guaranteed_mgpu=16_000)
    first, second = (
        a_job(pushing.company.nlp, pushing.bob, pushing.company.pool, gpus=8, script="sleep 120")
        for _ in range(2)
    )
    for job, qos in ((first, pushing.qos(nlp)), (second, pushing.borrow)):
        pushing.loop.until(job, "running", "failed")
        attempt = job.attempts.get()
        assert attempt.guaranteed_mgpu == 8_000
        assert pushing.state(attempt.native_id or "") == f"RUNNING {qos}"


def test_nobody_is_shrunk_or_removed_while_jobs_run_without_a_word(pushing: Pushing) -> None:
    nlp = "ai-company/research/nlp"
    job = pushing.sbatch(nlp, "sleep 300", "--gres=gpu:h100:4")
    eventually(lambda: pushing.state(job).startswith("RUNNING"))
    Quota.objects.filter(node=pushing.company.nlp).update(guaranteed_mgpu=2_000)
    (lowered,) = pushing.push().changes
    assert lowered["note"] == (
        "4 gres/gpu:h100 are in use and run on; nothing starts before less than 2 are"
    )
    assert pushing.state(job).startswith("RUNNING")

    Quota.objects.filter(node=pushing.company.nlp).delete()
    RoleGrant.objects.filter(node=pushing.company.nlp).delete()
    pushing.company.nlp.delete()
    waits = pushing.push()
    assert [(change["subject"], change["result"]) for change in waits.changes] == [
        (f"account {pushing.account(nlp)}", "waits"),
        (f"qos {pushing.qos(nlp)}", "waits"),
    ]
    assert waits.changes[0]["note"] == f"in use, so it stays: job {job}"
    assert pushing.state(job).startswith("RUNNING")
    pushing.bed.run(["scancel", job])
    eventually(lambda: pushing.state(job).startswith("CANCELLED"))
    assert told(pushing.push()) == [
        ("delete", f"account {pushing.account(nlp)}"),
        ("delete", f"qos {pushing.qos(nlp)}"),
    ]
    assert told(pushing.push()) == []


def test_the_observer_compares_by_itself_and_carries_out_requests(pushing: Pushing) -> None:
    QuotaPush.objects.all().delete()
    Quota.objects.filter(node=pushing.company.nlp).update(guaranteed_mgpu=5_000)
    stopping = Event()

    def observe() -> None:
        try:
            run_observer(stopping, SystemClock())
        finally:
            connection.close()

    observer = Thread(target=observe)
    observer.start()
    try:
        eventually(lambda: QuotaPush.objects.filter(kind="check", status="done").exists())
        check = QuotaPush.objects.get()
        assert (check.requested_by, check.change_count) == (None, 1)
        push = pushing.ask("push")

        def is_done() -> bool:
            push.refresh_from_db()
            return push.status != QuotaPushStatus.WAITING

        eventually(is_done)
        nlp = "ai-company/research/nlp"
        assert told(push) == [("lower", f"qos {pushing.qos(nlp)}")]
        assert pushing.guaranteed(nlp) == "gres/gpu:h100=5"
    finally:
        stopping.set()
        observer.join(timeout=60)
    assert not observer.is_alive()


@pytest.mark.disturbs_slurm
def test_without_the_accounting_a_push_waits_and_says_why(pushing: Pushing) -> None:
    nlp = "ai-company/research/nlp"
    Quota.objects.filter(node=pushing.company.nlp).update(guaranteed_mgpu=5_000)
    with pushing.bed.without("dbd"):
        push = pushing.push()
        assert push.status == QuotaPushStatus.WAITING
        assert "7000" in push.error
        assert push.changes == []
    Message.objects.filter(kind="push_quota").update(due_at=SystemClock().now())

    def is_done() -> bool:
        Message.objects.filter(kind="push_quota").update(due_at=SystemClock().now())
        pushing.deliver()
        push.refresh_from_db()
        return push.status == QuotaPushStatus.DONE

    eventually(is_done)
    assert told(push) == [("lower", f"qos {pushing.qos(nlp)}")]
    assert pushing.guaranteed(nlp) == "gres/gpu:h100=5"

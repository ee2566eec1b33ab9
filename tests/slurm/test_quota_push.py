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
from builders.portal_builders import Company, a_company, a_grant, a_user
from builders.slurm_loop import SlurmLoop
from clusters.registration import Administrator
from conformance.rigs import SlurmRig
from connectors.slurm.connector import open_slurm
from jobs.agents import run_observer
from jobs.dispatch import handlers
from outbox.delivery import deliver_due
from outbox.models import Message
from primitives.clock import SystemClock
from quotas.models import ClusterUser, Quota, QuotaPush, QuotaPushKind, QuotaPushStatus
from quotas.pushes import push_shard, request_push
from slurm_bed import SlurmBed
from tenants.models import User
from tenants.roles import Role

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.writes_slurm_accounts,
]


@dataclass
class Pushing:
    """A company whose tree is pushed to the bed under names that nobody else has."""

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

    def _give_other_defaults(self) -> None:
        """Slurm keeps an account that is somebody's default."""
        shown = self.bed.run(["sacctmgr", "-nP", "show", "assoc", "format=user,account"])
        accounts: dict[str, list[str]] = {}
        for line in shown.splitlines():
            user, account = line.split("|")
            accounts.setdefault(user, []).append(account)
        for user, names in accounts.items():
            if user and any(name.startswith(self.prefix) for name in names):
                others = [name for name in names if not name.startswith(self.prefix)]
                if others:
                    self.sacctmgr("modify", "user", user, "set", f"defaultaccount={others[0]}")
                else:
                    self.sacctmgr("delete", "user", user)

    def clean(self) -> None:
        """Take everything of this test off the bed."""
        shown = self.bed.run(["sacctmgr", "-nP", "show", "account", "format=account"])
        accounts = [name for name in shown.splitlines() if name.startswith(self.prefix)]
        if accounts:
            self.bed.run(["scancel", f"--account={','.join(accounts)}"])
            eventually(lambda: not self.bed.run(["squeue", "-h", "-A", ",".join(accounts)]).strip())
            self._give_other_defaults()
            self.sacctmgr("delete", "account", ",".join(accounts))
        shown = self.bed.run(["sacctmgr", "-nP", "show", "qos", "format=name"])
        if names := [name for name in shown.splitlines() if self.prefix in name]:
            self.sacctmgr("delete", "qos", ",".join(names))


@pytest.fixture
def pushing(slurm_bed: SlurmBed) -> Iterator[Pushing]:
    company = a_company()
    company.cluster.nodes.all().delete()
    prefix = f"qp{secrets.token_hex(3)}-"
    rig = SlurmRig(slurm_bed)
    rig.options |= {
        "account_prefix": prefix,
        "borrow_qos": f"{prefix}borrow",
        "cluster_name": slurm_bed.cluster,
    }
    rig.connector = open_slurm(rig.options, "test")
    loop = SlurmLoop(company.cluster, rig)
    root = a_user(None, "root")
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    a_grant(bob, Role.RESEARCHER, company.production)
    unix = slurm_bed.users[2]
    ClusterUser.objects.create(cluster=loop.cluster, user=bob, name=unix)
    made = Pushing(
        *(slurm_bed, rig, company, prefix, f"{prefix}borrow", Fenced("observer"), loop),
        *(Administrator(root.pk, root.login), bob, unix),
    )
    yield made
    rig.close()
    made.clean()


def told(push: QuotaPush) -> list[tuple[str, str]]:
    assert push.error == ""
    return [(change["kind"], change["subject"]) for change in push.changes]


def test_a_push_makes_the_cluster_as_the_tree_says(pushing: Pushing) -> None:
    """And a dry run says beforehand what it will do, and a second push does nothing."""
    Quota.objects.filter(node=pushing.company.research).update(borrow_limit_mgpu=4_000)
    Quota.objects.filter(node=pushing.company.nlp).update(borrow_limit_mgpu=2_000, weight=30)
    prefix, unix = pushing.prefix, pushing.unix
    dry = pushing.push("dry_run")
    assert told(dry) == [
        ("create", f"qos {prefix}borrow"),
        ("create", f"qos g-{prefix}ai-company_production_inference"),
        ("create", f"qos g-{prefix}ai-company_research_nlp"),
        ("create", f"qos g-{prefix}ai-company_research_vision"),
        ("create", f"account {prefix}ai-company"),
        ("create", f"account {prefix}ai-company_production"),
        ("create", f"account {prefix}ai-company_research"),
        ("create", f"account {prefix}ai-company_production_inference"),
        ("create", f"account {prefix}ai-company_research_nlp"),
        ("create", f"account {prefix}ai-company_research_vision"),
        ("create", f"member {unix} of {prefix}ai-company_production_inference"),
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
            "qos": sorted((pushing.qos("ai-company/research/nlp"), pushing.borrow)),
            "default_qos": pushing.qos("ai-company/research/nlp"),
        },
        "planned",
    )
    assert pushing.bed.run(["sacctmgr", "-nP", "show", "account", f"{prefix}ai-company"]) == ""

    done = pushing.push()
    assert told(done) == told(dry)
    assert {change["result"] for change in done.changes} == {"done"}
    assert pushing.shows("ai-company", "parentname,grptres") == ["root", ""]
    assert pushing.shows("ai-company/research", "parentname,grptres,fairshare") == [
        *(f"{prefix}ai-company", "gres/gpu:h100=20", "100"),
    ]
    assert pushing.shows("ai-company/research/nlp", "parentname,grptres,fairshare,defaultqos") == [
        *(f"{prefix}ai-company_research", "gres/gpu:h100=10", "30"),
        pushing.qos("ai-company/research/nlp"),
    ]
    assert pushing.shows("ai-company/research/vision", "grptres") == [""]
    assert pushing.guaranteed("ai-company/research/nlp") == "gres/gpu:h100=8"
    assert pushing.guaranteed("ai-company/production/inference") == "gres/gpu:h100=16"
    words = ["sacctmgr", "-nP", "show", "qos", pushing.borrow]
    assert pushing.bed.run([*words, "format=priority,flags,preemptmode,gracetime"]).strip() == (
        "10|NoReserve|requeue|00:05:00"
    )
    words = ["sacctmgr", "-nP", "show", "qos", pushing.qos("ai-company/research/nlp")]
    assert pushing.bed.run([*words, "format=priority,preempt"]).strip() == f"1000|{pushing.borrow}"
    assert pushing.users("ai-company/research/nlp") == {unix}
    assert pushing.users("ai-company/research/vision") == set()

    assert told(pushing.push()) == []
    assert told(pushing.push("check")) == []
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
    assert pushing.shows("ai-company", "grptres,fairshare,parentname") == [
        *("gres/gpu:h100=32", "7", "root"),
    ]
    assert told(pushing.push()) == []
    assert "detour" not in pushing.bed.run(["sacctmgr", "-nP", "show", "account"])


def test_a_change_by_hand_is_seen_and_overwritten_or_accepted(pushing: Pushing) -> None:
    pushing.push()
    nlp, inference = "ai-company/research/nlp", "ai-company/production/inference"
    on_account, on_qos = f"account {pushing.account(nlp)}", f"qos {pushing.qos(nlp)}"
    pushing.sacctmgr("modify", "qos", pushing.qos(nlp), "set", "GrpTRES=gres/gpu:h100=99")
    pushing.sacctmgr("modify", "account", pushing.account(nlp), "set", "fairshare=5")
    pushing.sacctmgr("delete", "user", pushing.unix, f"account={pushing.account(inference)}")
    pushing.sacctmgr(
        *("add", "user", pushing.bed.users[3], f"account={pushing.account(nlp)}"),
        f"cluster={pushing.bed.cluster}",
    )
    seen = pushing.push("check")
    assert told(seen) == [
        ("lower", on_qos),
        ("delete", f"member {pushing.bed.users[3]} of {pushing.account(nlp)}"),
        ("change", on_account),
        ("create", f"member {pushing.unix} of {pushing.account(inference)}"),
    ]
    assert pushing.guaranteed(nlp) == "gres/gpu:h100=99"

    accepted = pushing.push("accept", [on_account])
    assert [(change["subject"], change["result"]) for change in accepted.changes] == [
        (on_account, "accepted")
    ]
    assert len(told(pushing.push())) == 3
    assert pushing.guaranteed(nlp) == "gres/gpu:h100=8"
    assert pushing.users(nlp) == {pushing.unix}
    assert pushing.users(inference) == {pushing.unix}
    assert pushing.shows(nlp, "fairshare") == ["5"]
    assert told(pushing.push("check")) == []

    pushing.sacctmgr("modify", "account", pushing.account(nlp), "set", "fairshare=6")
    assert told(pushing.push("check")) == [("change", on_account)]
    pushing.sacctmgr("modify", "account", pushing.account(nlp), "set", "fairshare=5")
    assert told(pushing.push("check")) == [("change", on_account)]
    assert told(pushing.push()) == [("change", on_account)]
    assert pushing.shows(nlp, "fairshare") == ["100"]


def test_users_can_submit_where_they_may_and_our_jobs_start(pushing: Pushing) -> None:
    pushing.push()
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


def test_nobody_is_shrunk_or_removed_while_jobs_run_without_a_word(pushing: Pushing) -> None:
    pushing.push()
    inference = "ai-company/production/inference"
    job = pushing.sbatch(inference, "sleep 300", "--gres=gpu:h100:4")
    eventually(lambda: pushing.state(job).startswith("RUNNING"))
    Quota.objects.filter(node=pushing.company.inference).update(guaranteed_mgpu=2_000)
    (lowered,) = pushing.push().changes
    assert lowered["note"] == (
        "4 gres/gpu:h100 are in use and run on; nothing starts before less than 2 are"
    )
    assert pushing.state(job).startswith("RUNNING")

    Quota.objects.filter(node=pushing.company.inference).delete()
    pushing.company.inference.delete()
    waits = pushing.push()
    assert [(change["subject"], change["result"]) for change in waits.changes] == [
        (f"account {pushing.account(inference)}", "waits"),
        (f"qos {pushing.qos(inference)}", "waits"),
    ]
    assert waits.changes[0]["note"] == f"in use, so it stays: job {job}"
    assert pushing.state(job).startswith("RUNNING")
    pushing.bed.run(["scancel", job])
    eventually(lambda: pushing.state(job).startswith("CANCELLED"))
    assert told(pushing.push()) == [
        ("delete", f"account {pushing.account(inference)}"),
        ("delete", f"qos {pushing.qos(inference)}"),
    ]
    assert told(pushing.push()) == []


def test_the_observer_compares_by_itself_and_carries_out_requests(pushing: Pushing) -> None:
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
        assert (check.requested_by, check.change_count) == (None, 12)
        push = pushing.ask("push")

        def is_done() -> bool:
            push.refresh_from_db()
            return push.status != QuotaPushStatus.WAITING

        eventually(is_done)
        assert (len(told(push)), pushing.guaranteed("ai-company/research/nlp")) == (
            *(12, "gres/gpu:h100=8"),
        )
    finally:
        stopping.set()
        observer.join(timeout=60)
    assert not observer.is_alive()


@pytest.mark.disturbs_slurm
def test_without_the_accounting_a_push_waits_and_says_why(pushing: Pushing) -> None:
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
    assert len(told(push)) == 12
    assert pushing.guaranteed("ai-company/research/nlp") == "gres/gpu:h100=8"

"""Records of cycles: what is kept, for how long, and what is told of it to whom."""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
from django.conf import LazySettings
from django.db import IntegrityError

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from arbiter.api.snapshot import PriorityClass as ArbiterClass
from arbiter.api.snapshot import Snapshot, TreeNode
from arbiter.cycle.decide import decide
from arbiter.replay.record import Record
from arbiter.replay.replay import by_rules_of
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.loop_builders import a_job
from builders.portal_builders import (
    NOW,
    Company,
    a_cluster_node,
    a_company,
    a_priority_class,
    a_quota,
)
from jobs.arbitration import recording
from jobs.arbitration.arbitration import Cycles
from jobs.arbitration.recording import forget_old_cycles, pack, unpack
from jobs.arbitration.snapshots import load_snapshot
from jobs.models import Attempt, Cycle, Job, JobState
from jobs.whatif import replaying
from primitives.errors import Conflict
from quotas.installation import arbiter_policy
from quotas.models import OrganizationPolicy, PriorityClass, Quota
from tenants.models import User

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(minutes=7)


@pytest.fixture
def company() -> Company:
    return a_company("ai-company")


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


def preempt(
    company: Company, cast: Cast, cycles: Cycles, *, borrows: User | None = None
) -> tuple[Job, Job]:
    """A job of inference (or the rival's) that has borrowed the GPUs of research, and bob's for
    which it goes."""
    team = company.inference if borrows is None else cast.rival_team
    borrower = a_job(
        team, borrows or cast.alice, company.pool, gpus=8, nodes=4, name="serve", now=NOW
    )
    cycles.run(NOW)
    Attempt.objects.update(state="running", started_at=NOW)
    Job.objects.update(state=JobState.RUNNING)
    company.cluster.seen_at = LATER
    company.cluster.save()
    lender = a_job(company.nlp, cast.bob, company.pool, gpus=8, name="train", now=LATER)
    assert cycles.run(LATER).victims == 1
    return borrower, lender


def a_cycle(at: datetime, *, stopped: bool = False, size: int = 10, body: bytes = b"") -> Cycle:
    return Cycle.objects.create(
        decided_at=at,
        epoch=1,
        version="1",
        started=[uuid4()],
        claimed=[],
        stopped=[uuid4()] if stopped else [],
        dropped=[],
        size=size,
        body=body,
    )


def test_a_cycle_that_decided_something_can_be_decided_again(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """Planted: the snapshot of after the plan (the job that started is no longer queued)."""
    job = a_job(company.nlp, cast.bob, company.pool, gpus=8, now=NOW)
    before = load_snapshot(NOW)
    cycles.run(NOW)
    cycle = Cycle.objects.get()
    assert (cycle.decided_at, cycle.epoch, cycle.size) == (NOW, 1, len(cycle.body))
    assert (cycle.started, cycle.claimed, cycle.stopped, cycle.dropped) == ([job.id], [], [], [])
    record = unpack(bytes(cycle.body))
    assert (record.snapshot, record.policy) == (before, arbiter_policy())
    assert record.plan == decide(before, Policy())


def test_a_cycle_that_decided_nothing_is_not_kept(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    a_job(company.nlp, cast.bob, company.pool, gpus=8, nodes=1_000, now=NOW)
    assert cycles.run(NOW).explained == 1
    assert not Cycle.objects.exists()


def test_a_record_of_nothing_cannot_be_stored() -> None:
    with pytest.raises(IntegrityError, match="cycle_decided_something"):
        Cycle.objects.create(
            decided_at=NOW, epoch=1, version="1", started=[], claimed=[], stopped=[], dropped=[],
            size=0, body=b"",
        )  # fmt: skip


def test_what_is_beyond_a_bound_goes_oldest_first_and_each_kind_for_itself(
    settings: LazySettings,
) -> None:
    """Planted: both kinds share one bound, so cycles that only start jobs push out the
    preemptions that people ask about."""
    settings.CYCLES_KEPT, settings.CYCLES_KEPT_MIB, settings.CYCLES_KEPT_DAYS = 2, 1, 30
    preempted = a_cycle(NOW - timedelta(days=3), stopped=True)
    cycles = [a_cycle(NOW - timedelta(minutes=minute)) for minute in range(4)]
    assert forget_old_cycles(now=NOW) == 2
    assert set(Cycle.objects.all()) == {preempted, *cycles[:2]}


def test_records_that_are_too_large_together_or_too_old_go(settings: LazySettings) -> None:
    settings.CYCLES_KEPT, settings.CYCLES_KEPT_MIB, settings.CYCLES_KEPT_DAYS = 9, 1, 30
    new = a_cycle(NOW, size=1 << 20)
    a_cycle(NOW - timedelta(minutes=1), size=1)
    a_cycle(NOW - timedelta(days=30, seconds=1), stopped=True)
    last = a_cycle(NOW - timedelta(days=30), stopped=True)
    assert forget_old_cycles(now=NOW) == 2
    assert set(Cycle.objects.all()) == {new, last}


def test_the_bounds_are_looked_at_every_few_records(
    company: Company,
    cast: Cast,
    cycles: Cycles,
    monkeypatch: pytest.MonkeyPatch,
    settings: LazySettings,
) -> None:
    monkeypatch.setattr(recording, "FORGET_EVERY", 2)
    settings.CYCLES_KEPT = 1
    kept = []
    for second in range(4):
        a_job(company.nlp, cast.bob, company.pool, gpus=1, now=NOW)
        cycles.run(NOW + timedelta(seconds=second))
        kept.append(Cycle.objects.count())
    assert kept == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"no zlib", "it is damaged"),
        (zlib.compress(b"[]"), "it is no record of a cycle"),
        (zlib.compress(b"{"), "it is damaged"),
        (zlib.compress(orjson.dumps({"format": 9})), "its format is 9"),
    ],
)
def test_a_record_that_cannot_be_read_says_why(body: bytes, sentence: str) -> None:
    with pytest.raises(Conflict, match=sentence):
        unpack(body)


def test_a_record_that_was_cut_off_is_refused(company: Company) -> None:
    snapshot = load_snapshot(NOW)
    body = pack(Record("1", Policy(), snapshot, decide(snapshot, Policy())))
    with pytest.raises(Conflict, match="it is cut off or too large"):
        unpack(body[:-5])


def test_why_a_job_was_preempted_is_told_with_the_numbers(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    borrower, lender = preempt(company, cast, cycles)
    (stopped, started) = by_token(cast.alice).get(f"jobs/{borrower.id}/decisions").json()["items"]
    assert stopped["sentence"] == (
        "32 GPUs were reclaimed from it for train of ai-company/research/nlp (8 GPUs), with 5 min"
        " of grace. 16 GPUs of it were borrowed. Its team was guaranteed 16 GPUs and had 32 in use."
        " The other job's team was guaranteed 8 GPUs and had 0 in use. 7 min of its work had no"
        " known checkpoint."
    )
    assert stopped["decision"] == "stopped"
    assert stopped["decided_at"] == "2026-11-21T12:07:00Z"
    assert stopped["grace_until"] == "2026-11-21T12:12:00Z"
    assert (stopped["mgpu"], stopped["guaranteed_mgpu"]) == (32_000, 16_000)
    assert stopped["beneficiary"]["id"] == str(lender.id)
    assert stopped["beneficiary"]["standings"] == [
        {"node": "ai-company/research/nlp", "guaranteed_mgpu": 8_000, "in_use_mgpu": 0},
        {"node": "ai-company/research", "guaranteed_mgpu": 16_000, "in_use_mgpu": 0},
        {"node": "ai-company", "guaranteed_mgpu": 32_000, "in_use_mgpu": 32_000},
    ]
    assert started["sentence"] == "It was started with 32 GPUs on local, 16 of them borrowed."


def test_a_claim_of_who_is_held_is_not_said_to_have_been_lost(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """Planted: one sentence for all that lose a claim."""
    _, lender = preempt(company, cast, cycles)
    assert by_token(cast.bob).post(f"jobs/{lender.id}/hold", {}).status_code == 200
    cycles.run(LATER + timedelta(seconds=1))
    dropped = by_token(cast.bob).get(f"jobs/{lender.id}/decisions").json()["items"][0]
    assert (dropped["decision"], dropped["sentence"]) == (
        "claim_dropped",
        "Its claim was dropped, as it no longer waits for GPUs: it was held or cancelled, or waits "
        "for something else first.",
    )


def test_a_claim_of_who_starts_on_other_gpus_is_not_said_to_have_been_lost(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """A node comes back before the grace is over. Planted: as above."""
    _, lender = preempt(company, cast, cycles)
    a_cluster_node(company.cluster, company.pool, "back")
    cycles.run(LATER + timedelta(seconds=1))
    items = by_token(cast.bob).get(f"jobs/{lender.id}/decisions").json()["items"]
    told = {one["decision"]: one["sentence"] for one in items}
    assert told["claim_dropped"] == "Its claim was dropped, as it could start on other GPUs."
    assert told["started"].startswith("It was started with 8 GPUs on local")


@pytest.mark.parametrize(
    ("of_nlp", "of_inference", "asked", "told"),
    [
        ((8,), (8, 8, 8), 8, "department ai-company/research was guaranteed 16 GPUs and had 8 in"),
        ((6, 4), (8, 8, 4, 2), 2, "team was guaranteed 8 GPUs and had 10 in use, 6 of them within"),
    ],
)
def test_both_sides_are_told_of_the_guarantee_that_gave_the_right(
    company: Company,
    cast: Cast,
    cycles: Cycles,
    of_nlp: tuple[int, ...],
    of_inference: tuple[int, ...],
    asked: int,
    told: str,
) -> None:
    """nlp, guaranteed 8 of the 16 GPUs of research, uses them all: what more it may take back is
    owed to its department. Of 6 and 4 only the 6 fit in its guarantee, and 2 more beside them.

    Planted: its team's standing in any case; the use compared in place of what is protected of it,
    and the highest node in which it fitted (the department in both)."""
    for team, user, sizes in (
        (company.nlp, cast.bob, of_nlp),
        (company.inference, cast.alice, of_inference),
    ):
        for size in sizes:
            a_job(team, user, company.pool, gpus=size, now=NOW)
    cycles.run(NOW)
    assert Job.objects.filter(state=JobState.QUEUED).count() == 0
    Attempt.objects.update(state="running", started_at=NOW)
    Job.objects.update(state=JobState.RUNNING)
    company.cluster.seen_at = LATER
    company.cluster.save()
    lender = a_job(company.nlp, cast.bob, company.pool, gpus=asked, now=LATER)
    cycles.run(LATER)
    (victim,) = Attempt.objects.exclude(reclaim=None)

    (claimed,) = by_token(cast.bob).get(f"jobs/{lender.id}/decisions").json()["items"]
    stopped = by_token(cast.alice).get(f"jobs/{victim.job_id}/decisions").json()["items"][0]

    assert f" UTC. Its {told} " in claimed["sentence"]
    assert f" in use. The other job's {told} " in stopped["sentence"]


def test_an_elastic_job_is_told_with_what_it_was_started_with(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """Planted: with the least, so that less than nothing of it was borrowed."""
    job = a_job(
        company.inference, cast.bob, company.pool, gpus=8, nodes=2, node_count_min=1, now=NOW
    )
    cycles.run(NOW)
    (started,) = by_token(cast.bob).get(f"jobs/{job.id}/decisions").json()["items"]
    assert (started["mgpu"], started["guaranteed_mgpu"]) == (16_000, 16_000)
    assert started["sentence"] == (
        "It was started with 16 GPUs on local, all inside its team's guarantee."
    )


def test_who_asked_for_the_gpus_is_told_whose_they_were_as_far_as_they_may_see(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """Bob may see the tree, and of others' jobs nothing.

    Planted: the victim's name to everybody of the organization.
    """
    borrower, lender = preempt(company, cast, cycles)
    (claimed,) = by_token(cast.bob).get(f"jobs/{lender.id}/decisions").json()["items"]
    assert claimed["sentence"] == (
        "8 GPUs were claimed for it on local: 1 job with 32 GPUs had to end by 2026-11-21 12:12:00"
        " UTC. Its team was guaranteed 8 GPUs and had 0 in use."
    )
    assert claimed["victims"] == [
        {
            "id": None,
            "name": None,
            "user": None,
            "team": "ai-company/production/inference",
            "mgpu": 32_000,
            "grace_s": 300,
            "right": "borrowed",
            "guaranteed_mgpu": None,
            "unsaved_s": None,
            "priority_class": None,
            "started_at": None,
        }
    ]
    (seen,) = by_token(cast.alice).get(f"jobs/{lender.id}/decisions").json()["items"]
    assert seen["victims"] == [
        {
            **claimed["victims"][0],
            "id": str(borrower.id),
            "name": "serve",
            "user": "alice",
            "guaranteed_mgpu": 16_000,
            "unsaved_s": 420,
            "priority_class": "normal",
            "started_at": "2026-11-21T12:00:00Z",
        }
    ]


def test_another_organization_is_never_named(company: Company, cast: Cast, cycles: Cycles) -> None:
    """Planted: the path of the beneficiary's team to everybody."""
    a_quota(cast.rival, company.pool, 0)
    a_priority_class(cast.rival)
    rival, _ = preempt(company, cast, cycles, borrows=cast.charlie)
    (stopped, _) = by_token(cast.charlie).get(f"jobs/{rival.id}/decisions").json()["items"]
    assert stopped["beneficiary"] == {
        "id": None,
        "name": None,
        "user": None,
        "team": None,
        "mgpu": 8_000,
        "standings": [],
    }
    assert stopped["sentence"] == (
        "32 GPUs were reclaimed from it for a job of another organization (8 GPUs), with 5 min of"
        " grace. 32 GPUs of it were borrowed. Its team was guaranteed 0 GPUs and had 32 in use."
        " 7 min of its work had no known checkpoint."
    )
    assert [one["node"] for one in stopped["standings"]] == ["rival-lab/team", "rival-lab"]


def test_a_job_that_is_foreign_or_not_in_the_asked_time_has_no_decisions(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    borrower, lender = preempt(company, cast, cycles)
    assert by_token(cast.bob).get(f"jobs/{borrower.id}/decisions").status_code == 404
    assert by_token(cast.charlie).get(f"jobs/{lender.id}/decisions").status_code == 404
    path = f"jobs/{borrower.id}/decisions"
    alice = by_token(cast.alice)
    early = alice.get(f"{path}?decided_at__lt=2026-11-21T12:07:00Z").json()["items"]
    late = alice.get(f"{path}?decided_at__gte=2026-11-21T12:07:00Z").json()["items"]
    assert [one["decision"] for one in early] == ["started"]
    assert [one["decision"] for one in late] == ["stopped"]
    assert [one["decision"] for one in alice.get(f"{path}?limit=1").json()["items"]] == ["stopped"]
    assert alice.get(f"{path}?limit=21").status_code == 400


def test_a_cycle_is_replayed_with_what_would_be_decided_today(
    company: Company, cast: Cast, cycles: Cycles, monkeypatch: pytest.MonkeyPatch
) -> None:
    borrower, lender = preempt(company, cast, cycles)
    root = by_token(cast.root)
    shown: list[dict[str, Any]] = root.get("cycles").json()["items"]
    assert [(one["started"], one["claimed"], one["stopped"]) for one in shown] == [
        (0, 1, 1),
        (1, 0, 0),
    ]
    cycle = root.get(f"cycles/{shown[0]['id']}").json()
    assert (cycle["queued"], cycle["running"]) == (1, 1)
    assert [one["decision"] for one in cycle["decisions"]] == ["claimed"]
    assert (cycle["is_same_policy"], cycle["difference_count"], cycle["differences"]) == (
        True,
        0,
        [],
    )

    monkeypatch.setattr(replaying, "arbiter_policy", lambda: Policy(reclaims_max=0))
    cycle = root.get(f"cycles/{shown[0]['id']}").json()
    assert (cycle["is_same_policy"], cycle["difference_count"]) == (False, 2)
    found = {one["job"]["name"]: one for one in cycle["differences"]}
    assert found["train"]["then"]["decision"] == "claimed"
    assert [job["id"] for job in found["train"]["then"]["other_jobs"]] == [str(borrower.id)]
    assert found["train"]["today"] == {
        "decision": "waits",
        "cluster": None,
        "nodes": [],
        "other_jobs": [],
        "code": "waiting_for_guarantee",
        "grace_s": None,
    }
    assert found["serve"]["then"]["decision"] == "stopped"
    assert found["serve"]["then"]["grace_s"] == 300
    assert [job["id"] for job in found["serve"]["then"]["other_jobs"]] == [str(lender.id)]
    assert (found["serve"]["today"]["decision"], found["serve"]["today"]["code"]) == ("waits", None)


def test_a_cycle_is_replayed_by_todays_ranks_of_the_organization(
    company: Company, cast: Cast, cycles: Cycles
) -> None:
    """Planted: the ranks that were recorded with the tree, so that the same is decided for ever."""
    Quota.objects.exclude(node=company.organization).update(guaranteed_mgpu=0)
    served = a_job(company.inference, cast.alice, company.pool, gpus=8, nodes=4, now=NOW)
    trained = a_job(company.nlp, cast.bob, company.pool, gpus=8, nodes=4, now=NOW)
    cycles.run(NOW)
    record = f"cycles/{Cycle.objects.get().pk}"
    root = by_token(cast.root)
    then = root.get(record).json()
    assert (then["is_same_policy"], then["differences"]) == (True, [])
    OrganizationPolicy.objects.update(rank=["ai-company/research", "ai-company/production"])
    today = root.get(record).json()
    assert (today["is_same_policy"], today["difference_count"]) == (False, 2)
    assert {
        one["job"]["id"]: (one["then"]["decision"], one["today"]["decision"])
        for one in today["differences"]
    } == {str(served.id): ("started", "waits"), str(trained.id): ("waits", "started")}


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (OrganizationPolicy, {"fair_share_half_life_s": 86_400}),
        (OrganizationPolicy, {"spare_order": "fair_share"}),
        (OrganizationPolicy, {"min_run_s": 1_200}),
        (OrganizationPolicy, {"preemptions_max": 3}),
        (OrganizationPolicy, {"skips_blocked_within_team": False}),
        (OrganizationPolicy, {"grace_period_s": 60}),
        (PriorityClass, {"team_cap_mgpu": 8_000}),
    ],
)
def test_a_rule_that_is_another_today_is_told(
    company: Company,
    cast: Cast,
    cycles: Cycles,
    model: type[OrganizationPolicy | PriorityClass],
    change: dict[str, Any],
) -> None:
    """Planted: the policy of the installation alone is compared."""
    a_job(company.nlp, cast.bob, company.pool, gpus=8, now=NOW)
    cycles.run(NOW)
    model.objects.update(**change)
    cycle = by_token(cast.root).get(f"cycles/{Cycle.objects.get().pk}").json()
    assert (cycle["is_same_policy"], cycle["difference_count"]) == (False, 0)


def test_what_is_gone_keeps_the_rules_that_were_recorded() -> None:
    """Planted: its rank is 0; a node that was moved since is replayed at its new place; a team or a
    class that is new is among them."""
    nodes = (TreeNode("o", None, min_run_s=60), TreeNode("a", "o", 2), TreeNode("b", "o", 1))
    classes = (ArbiterClass("high", 2), ArbiterClass("low", 1, grace_period_s=30))
    then = Snapshot(0, nodes, (), classes, (), frozenset(), (), ())
    now = (TreeNode("o", None, min_run_s=90), TreeNode("b", "new", 5), TreeNode("new", "o", 9))
    replayed = by_rules_of(then, now, [ArbiterClass("low", 0), ArbiterClass("new", 7)])
    assert replayed.nodes == (
        TreeNode("o", None, min_run_s=90),
        TreeNode("a", "o", 2),
        TreeNode("b", "o", 5),
    )
    assert replayed.priority_classes == (ArbiterClass("high", 2), ArbiterClass("low", 0))


def test_a_damaged_record_is_told_and_the_list_is_shown_all_the_same(cast: Cast) -> None:
    cycle = a_cycle(NOW)
    root = by_token(cast.root)
    answer = root.get(f"cycles/{cycle.pk}")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert answer.json()["detail"] == (
        "The record of this cycle cannot be read: it is cut off or too large."
    )
    assert [one["id"] for one in root.get("cycles").json()["items"]] == [str(cycle.pk)]


def test_a_record_of_a_tree_that_is_none_is_told_so(cast: Cast) -> None:
    """Planted: what the arbiter refuses to decide on breaks the answer."""
    nodes = (TreeNode("o", None), TreeNode("o/t", "gone"))
    snapshot = Snapshot(0, nodes, (), (), (), frozenset(), (), ())
    cycle = a_cycle(NOW, body=pack(Record("1", Policy(), snapshot, Plan(0))))
    answer = by_token(cast.root).get(f"cycles/{cycle.pk}")
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "The record of this cycle cannot be decided anew: tree node 'o/t' hangs below an unknown "
        "parent or below itself.",
    )

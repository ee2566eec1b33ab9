"""What people gave to a cluster beside the portal: whose it is and since when it counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders.native_builders import (
    T0,
    AControl,
    a_native,
    a_waiting_native,
    at,
    look,
    reasons,
    segments,
)
from builders.portal_builders import (
    NOW,
    Company,
    a_priority_class,
    a_user,
    an_organization,
)
from connectors.protocol import (
    NativeWorkload,
    RankSlot,
)
from jobs.models import Attempt, Job, JobEvent
from jobs.natives.natives import ADOPTED_MAX, attempt_id, job_id, plain_name
from quotas.models import ClusterUser, PriorityClass, Quota
from tenants.models import Node, User

pytestmark = pytest.mark.django_db


# Whose it is


def test_a_running_native_becomes_a_job_of_its_team(
    company: Company, control: AControl, bob: User
) -> None:
    use = look(company, control, a_native(time_limit_s=600, is_preemptible=True))
    job = Job.objects.get()
    attempt = job.attempts.get()
    assert (job.origin, job.state, job.team, job.user) == ("native", "running", company.nlp, bob)
    assert (job.name, job.script, job.mgpu, job.node_count) == ("train.sh", "", 8000, 1)
    assert (job.time_limit_s, job.is_preemptible, job.is_requeueable) == (600, True, False)
    assert (job.priority_class.name, job.attempt_number) == ("normal", 1)
    assert (job.submitted_at, job.started_at) == (NOW, NOW)
    assert attempt.id == attempt_id(company.cluster, a_native())
    assert (attempt.native_id, attempt.cluster_user, attempt.epoch) == ("7", "tg-bob", 0)
    assert attempt.slots == [{"node": "ai-company-000", "mgpu": 8000}]
    assert (attempt.mgpu, attempt.guaranteed_mgpu) == (8000, 8000)
    assert segments() == [(0, None, 8000, 0)]
    assert (use.by_node, use.holders, use.pending) == ({}, (), 0)
    assert list(JobEvent.objects.order_by("id").values_list("event", flat=True)) == [
        "submitted_on_cluster",
        "started",
    ]


@pytest.mark.usefixtures("bob")
def test_a_repeated_listing_changes_nothing(company: Company, control: AControl) -> None:
    look(company, control, a_native())
    before = list(Attempt.objects.values()), list(Job.objects.values())
    look(company, control, a_native(), at_s=2, previous_s=1)
    assert (list(Attempt.objects.values()), list(Job.objects.values())) == before
    assert JobEvent.objects.count() == 2


@pytest.mark.usefixtures("bob")
def test_a_number_that_is_given_again_is_another_job(company: Company, control: AControl) -> None:
    look(company, control, a_native())
    look(
        company,
        control,
        a_native(ended_s=5),
        a_native(submitted_s=9, started_s=9),
        at_s=10,
        previous_s=1,
    )
    assert list(Job.objects.order_by("id").values_list("state", flat=True)) == [
        "succeeded",
        "running",
    ]


@pytest.mark.usefixtures("bob")
def test_an_account_of_a_former_place_is_the_teams(company: Company, control: AControl) -> None:
    """Against: accounts looked up by present paths alone."""
    Quota.objects.filter(node=company.nlp).update(guaranteed_mgpu=0)
    Node.objects.filter(pk=company.nlp.pk).update(
        parent=company.organization, path="ai-company/nlp/", moved_at=NOW
    )
    look(company, control, a_native(), a_native("9", account="ai-company_nlp"))
    assert list(Job.objects.values_list("team", flat=True)) == [company.nlp.pk] * 2


def test_ids_follow_from_what_the_cluster_says(company: Company) -> None:
    """The job's is a version 7 of its submit time, so that lists have it in its place."""
    one = job_id(company.cluster, a_native())
    assert one == job_id(company.cluster, a_native(name="other", gpus=1))
    assert (one.version, one.variant, one.int >> 80) == (7, "specified in RFC 4122", T0 * 1000)
    assert one != job_id(company.cluster, a_native("9"))
    later = job_id(company.cluster, a_native(submitted_s=1))
    assert one < later
    assert attempt_id(company.cluster, a_native()).version == 5


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        (a_native(account="ai-company_research_nobody"), "unknown_account"),
        (a_native(account="ai-company_research"), "unknown_account"),
        (a_native(account="root"), "unknown_account"),
        (a_native(account="AI-company_research_nlp"), "unknown_account"),
        (a_native(account="ai-company/research/nlp"), "unknown_account"),
        (a_native(user="tg-stranger"), "unknown_user"),
        (a_native(user="tg-charlie"), "other_organization"),
        (a_native(user="tg-root"), "other_organization"),
    ],
)
@pytest.mark.usefixtures("bob")
def test_what_is_nobodys_is_held_outside(
    company: Company, control: AControl, native: NativeWorkload, reason: str
) -> None:
    for name, user in (
        ("tg-charlie", a_user(an_organization("other-company"), "charlie")),
        ("tg-root", a_user(None, "operator")),
    ):
        ClusterUser.objects.create(cluster=company.cluster, user=user, name=name)
    use = look(company, control, native)
    assert Job.objects.count() == 0
    assert use.by_node == {("ai-company-000", "h100"): 8000}
    assert reasons(use) == [(reason, 8000)]


@pytest.mark.usefixtures("bob")
def test_one_that_holds_gpus_of_several_pools_counts_for_nobody(
    company: Company, control: AControl
) -> None:
    parts = [
        replace(a_native(f"7 ({n})", nodes=(f"ai-company-00{n}",)), is_mixed=True) for n in (0, 1)
    ]
    use = look(company, control, *parts)
    assert reasons(use) == [("several_pools", 16_000)]
    assert use.by_node == {("ai-company-000", "h100"): 8000, ("ai-company-001", "h100"): 8000}
    assert Attempt.objects.count() == 0


@pytest.mark.usefixtures("bob")
def test_without_a_priority_class_nothing_is_counted(company: Company, control: AControl) -> None:
    PriorityClass.objects.all().delete()
    assert reasons(look(company, control, a_native())) == [("no_priority_class", 8000)]


@pytest.mark.parametrize(
    ("names", "expected"), [(["high", "normal", "low"], "normal"), (["high", "low"], "low")]
)
@pytest.mark.usefixtures("bob")
def test_it_has_the_class_of_those_who_name_none(
    company: Company, control: AControl, names: list[str], expected: str
) -> None:
    PriorityClass.objects.all().delete()
    for order, name in enumerate(reversed(names)):
        a_priority_class(company.organization, name, order=order)
    look(company, control, a_native())
    assert Job.objects.get().priority_class.name == expected


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("train", "train"),
        ("", "job 7"),
        ("\x1b[31mred\x00\n", "[31mred"),
        ("\u202egpj.exe", "gpj.exe"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("\ud800 x", "x"),
        ("x" * 5000, "x" * 200),
    ],
)
def test_names_are_anybodys_text(given: str, shown: str) -> None:
    assert plain_name(a_native(name=given)) == shown


@pytest.mark.usefixtures("bob")
def test_uneven_nodes_are_told_as_their_sum(company: Company, control: AControl) -> None:
    native = replace(
        a_native(), slots=(RankSlot("ai-company-000", 8000), RankSlot("ai-company-001", 2000))
    )
    look(company, control, native)
    job = Job.objects.get()
    assert (job.mgpu, job.node_count, job.type) == (10_000, 1, "distributed")
    assert [slot["mgpu"] for slot in job.attempts.get().slots] == [8000, 2000]


@pytest.mark.usefixtures("bob")
def test_what_waits_in_slurm_is_only_counted(company: Company, control: AControl) -> None:
    use = look(company, control, a_waiting_native(), a_waiting_native("9", user="tg-x", gpus=4))
    assert (use.pending, use.pending_mgpu, use.by_node, Job.objects.count()) == (2, 12_000, {}, 0)


def test_two_jobs_of_one_team_share_its_guarantee(
    company: Company, control: AControl, bob: User
) -> None:
    """The first to start has it until the arbiter says otherwise; what is over leaves it."""
    look(
        company,
        control,
        a_native("1", gpus=6, submitted_s=0),
        a_native("2", gpus=4, submitted_s=0, started_s=1, nodes=("ai-company-001",)),
        a_native("3", gpus=2, started_s=0, ended_s=1, nodes=("ai-company-002",)),
    )
    assert list(
        Attempt.objects.order_by("native_id").values_list("guaranteed_mgpu", flat=True)
    ) == [
        6000,
        2000,
        2000,
    ]


@pytest.mark.usefixtures("bob")
def test_so_many_at_once_and_the_others_next_time(
    company: Company, control: AControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ADOPTED_MAX == 500
    monkeypatch.setattr("jobs.natives.natives.ADOPTED_MAX", 2)
    natives = [a_native(str(number), gpus=1) for number in range(1, 4)]
    use = look(company, control, *natives)
    assert (Job.objects.count(), reasons(use)) == (2, [("not_yet_counted", 1000)])
    use = look(company, control, *natives, at_s=5, previous_s=1)
    assert (Job.objects.count(), use.holders) == (3, ())
    assert sorted(segments(), key=str) == [
        (0, None, 1000, 0),
        (0, None, 1000, 0),
        (5, None, 1000, 0),
    ]


# Since when it counts


@pytest.mark.usefixtures("bob")
def test_nobody_is_charged_for_time_in_which_it_was_outside(
    company: Company, control: AControl
) -> None:
    """Its user is mapped while it runs. Planted: charging from its start."""
    ClusterUser.objects.all().update(name="tg-other")
    look(company, control, a_native())
    ClusterUser.objects.all().update(name="tg-bob")
    look(company, control, a_native(), at_s=60, previous_s=59)
    job = Job.objects.get()
    assert (job.started_at, job.attempts.get().granted_at) == (NOW, at(60))
    assert segments() == [(60, None, 8000, 0)]
    assert JobEvent.objects.last().event == "counted_from_here"  # type: ignore[union-attr]


@pytest.mark.usefixtures("bob")
def test_what_ran_before_the_cluster_was_seen_counts_from_then(
    company: Company, control: AControl
) -> None:
    look(company, control, a_native(), a_native("9", ended_s=3), at_s=60, previous_s=None)
    assert segments() == [(60, None, 8000, 0)]


@pytest.mark.usefixtures("bob")
def test_what_began_while_nobody_looked_counts_from_its_start(
    company: Company, control: AControl
) -> None:
    look(company, control, a_native(started_s=10), at_s=600, previous_s=0)
    assert segments() == [(10, None, 8000, 0)]


@pytest.mark.usefixtures("bob")
def test_a_job_that_came_and_went_between_two_listings_is_charged(
    company: Company, control: AControl
) -> None:
    use = look(company, control, a_native(started_s=2, ended_s=4), at_s=5, previous_s=1)
    job = Job.objects.get()
    assert (job.state, job.ended_at, use.by_node) == ("succeeded", at(4), {})
    assert segments() == [(2, 4, 8000, 0)]
    look(company, control, a_native(started_s=2, ended_s=4), at_s=6, previous_s=5)
    assert Job.objects.count() == 1


@pytest.mark.usefixtures("bob")
def test_what_ended_outside_stays_outside(company: Company, control: AControl) -> None:
    """It ran unmapped, ended, and its user is mapped while it is still listed."""
    look(company, control, a_native(ended_s=4), at_s=10, previous_s=5)
    assert Job.objects.count() == 0

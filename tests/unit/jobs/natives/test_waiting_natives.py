"""Jobs that people gave to a cluster beside the portal, and that wait there for the arbiter."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from builders.gated_cluster import a_gated_native
from builders.portal_builders import NOW, a_user, an_organization
from builders.waiting_story import Story, events, segments
from connectors.natives import NativeSize, size_of
from connectors.protocol import Outcome, WorkloadPhase
from jobs.models import Attempt, Job, JobEvent, attempt_id
from jobs.natives.natives import job_id
from jobs.queue.withholding import withheld_jobs
from quotas.cluster_users import SOMEBODY
from quotas.models import Quota
from tenants.models import User, UserKind

pytestmark = pytest.mark.django_db


# It waits


def test_one_that_waits_is_a_queued_job_of_its_team(story: Story) -> None:
    native = a_gated_native(submitted_s=-5, gpus=4, ranks=2, time_limit_s=600)
    story.cluster.add(native)
    use = story.at(1).look()
    job = story.job()
    assert job.id == job_id(story.company.cluster, native)
    assert (job.state, job.team, job.pool) == ("queued", story.company.nlp, story.company.pool)
    assert (job.mgpu_per_node, job.node_count, job.mgpu) == (4000, 2, 8000)
    assert (job.name, job.type, job.script) == ("train", "distributed", "")
    assert (job.time_limit_s, job.is_requeueable, job.attempt_number) == (600, True, 0)
    assert (job.cluster, job.native_id) == (story.company.cluster, "uid-1")
    assert (job.priority_class.name, job.submitted_at) == ("normal", NOW - timedelta(seconds=5))
    assert Attempt.objects.count() == 0
    assert segments() == []
    assert (use.pending, use.holders) == (0, ())
    event = JobEvent.objects.get()
    assert (event.event, event.detail["user"]) == ("submitted_on_cluster", "somebody")


def test_a_repeated_listing_changes_nothing(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    before = list(Job.objects.values()), JobEvent.objects.count()
    story.at(2).look()
    assert (list(Job.objects.values()), JobEvent.objects.count()) == before
    assert story.cluster.calls == []


def test_who_is_not_known_is_one_user_of_the_organization_who_cannot_sign_in(story: Story) -> None:
    story.cluster.add(a_gated_native("uid-1"), a_gated_native("uid-2", user="else"))
    story.at(1).look()
    user = User.objects.get(username=SOMEBODY)
    assert (user.organization, user.kind) == (story.company.organization, UserKind.SERVICE)
    assert user.has_usable_password() is False
    assert {job.user for job in Job.objects.all()} == {user}
    assert withheld_jobs(NOW) == ()


def test_the_job_of_a_deactivated_person_waits_for_them(story: Story) -> None:
    """Planted: their jobs taken for those of somebody whom nobody knows; the user for these
    deactivated from the first, so that none of theirs starts."""
    bob = a_user(story.company.organization, "bob")
    User.objects.filter(pk=bob.pk).update(is_active=False)
    story.cluster.add(a_gated_native("uid-1", user="bob@ai-company"))
    story.at(1).look()
    job = Job.objects.get()
    assert job.user == bob
    assert [(one.job, one.code) for one in withheld_jobs(NOW)] == [
        (str(job.pk), "user_deactivated")
    ]


def test_who_signs_in_here_by_that_name_is_its_user(story: Story) -> None:
    bob = a_user(story.company.organization, "bob")
    a_user(an_organization("other"), "eve")
    story.cluster.add(
        a_gated_native("uid-1", user="bob@ai-company"), a_gated_native("uid-2", user="eve@other")
    )
    story.at(1).look()
    assert Job.objects.get(native_id="uid-1").user == bob
    assert Job.objects.get(native_id="uid-2").user.username == SOMEBODY


@pytest.mark.parametrize(
    ("ranks", "each", "count"),
    [
        ((8000,), 8000, 1),
        ((8000,) * 16, 8000, 16),
        ((0, 8000, 8000), 8000, 2),
        ((4000, 8000, 8000), 4000, 5),
        ((500, 750), 250, 5),
    ],
)
def test_uneven_ranks_are_counted_exactly(ranks: tuple[int, ...], each: int, count: int) -> None:
    assert size_of("h100", ranks) == NativeSize("h100", each, count)
    assert each * count == sum(ranks)


def test_what_belongs_to_no_team_waits_outside(story: Story) -> None:
    story.cluster.add(a_gated_native(account="default"), a_gated_native("uid-2", account=""))
    use = story.turn(1)
    assert Job.objects.count() == 0
    assert (use.pending, use.pending_mgpu) == (2, 16_000)
    assert story.cluster.asked("start") == []


def test_one_whose_pool_is_not_known_is_told_what_to_do(story: Story) -> None:
    story.cluster.add(a_gated_native(pool=""))
    use = story.turn(1)
    assert (Job.objects.count(), use.pending) == (0, 1)
    assert story.cluster.asked("start") == []
    (told,) = story.cluster.told
    assert told[:2] == ("uid-1", "unknown_account")
    assert "node selector of one kind of GPU" in told[2]


def test_one_that_asks_for_no_gpus_is_started_at_once(story: Story) -> None:
    story.cluster.add(a_gated_native(gpus=0))
    story.turn(1)
    assert (Job.objects.count(), story.cluster.asked("start")) == (0, ["uid-1"])
    story.turn(2)
    assert story.cluster.asked("start") == ["uid-1"]
    assert story.cluster.granted == {"uid-1": None}


def test_whose_it_is_may_be_unknown_for_a_while(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.cluster.away = True
    story.at(1).look()
    assert Job.objects.count() == 0
    story.cluster.away = False
    story.at(2).look()
    assert story.job().state == "queued"


def test_the_database_lets_only_those_wait_that_we_start(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    for values in ({"native_id": None}, {"cluster": None}, {"origin": "portal"}):
        with pytest.raises(IntegrityError, match="native"), transaction.atomic():
            Job.objects.update(**values)


# It runs


def test_it_is_started_when_it_is_granted_and_metered_while_it_runs(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.turn(1)
    assert story.cluster.asked("start") == ["uid-1"]
    attempt = Attempt.objects.get()
    assert (attempt.id, attempt.number) == (attempt_id(story.job().id, 1), 1)
    assert (attempt.state, attempt.native_id, attempt.epoch) == ("starting", "uid-1", 1)
    assert attempt.release_sent_at is not None
    story.turn(2)
    assert (story.job().state, story.states()) == ("running", [(1, "running", None)])
    assert segments() == [(1, None, 8000, 0)]
    story.at(9)
    story.cluster.finish("uid-1")
    story.turn(10)
    job = story.job()
    assert (job.state, job.end_reason) == ("succeeded", None)
    assert job.ended_at == NOW + timedelta(seconds=9)
    assert segments() == [(1, 9, 8000, 0)]
    assert story.cluster.asked("start") == ["uid-1"]
    assert events() == ["submitted_on_cluster", "granted", "started", "succeeded"]


def test_a_failed_one_stays_failed(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.turn(1)
    story.turn(2)
    story.cluster.finish("uid-1", Outcome.FAILED)
    story.turn(3)
    story.turn(4)
    assert (story.job().state, story.job().end_reason) == ("failed", "exit_code")
    assert story.cluster.asked("start") == ["uid-1"]


def over_quota(story: Story) -> Job:
    """One that runs has all of the guarantee, and nothing may be borrowed."""
    Quota.objects.update(borrow_limit_mgpu=0)
    story.cluster.add(a_gated_native(), a_gated_native("uid-2", submitted_s=1))
    for second in range(1, 5):
        story.turn(second)
    return Job.objects.get(native_id="uid-2")


#: The amounts of the team, which stand behind each reason of the scheduler.
AMOUNTS = "nlp uses all of its 8 guaranteed GPUs."


def test_one_over_quota_waits_and_is_told_why_once(story: Story) -> None:
    """Planted: the team's entitlement is left out."""
    job = over_quota(story)
    assert (job.state, job.attempt_number, story.cluster.asked("start")) == ("queued", 0, ["uid-1"])
    assert job.explanation is not None
    assert job.explanation["code"] == "borrow_limit_reached"
    sentence = f"{job.explanation['sentence']} {AMOUNTS}"
    assert story.cluster.told == [("uid-2", "borrow_limit_reached", sentence)]


def test_a_reason_of_which_only_numbers_change_is_told_again_after_a_minute(story: Story) -> None:
    over_quota(story)
    for second, sentence in ((5, "It waits, 2 ahead."), (6, "It waits, 1 ahead.")):
        Job.objects.filter(native_id="uid-2").update(
            explanation={"code": "borrow_limit_reached", "sentence": sentence}
        )
        story.at(second).look()
    assert len(story.cluster.told) == 1
    story.at(62).look()
    told = ("uid-2", "borrow_limit_reached", f"It waits, 1 ahead. {AMOUNTS}")
    assert story.cluster.told[1:] == [told]
    Job.objects.filter(native_id="uid-2").update(
        explanation={"code": "budget_exhausted", "sentence": "It has none."}
    )
    story.at(63).look()
    assert story.cluster.told[2:] == [("uid-2", "budget_exhausted", f"It has none. {AMOUNTS}")]


def test_parts_of_devices_are_granted_as_its_cluster_cuts_them(story: Story) -> None:
    """Planted: what waits there was asked for whole devices and an image, as what is submitted here
    is, and stayed queued for ever."""
    story.company.cluster.options = {"in_cluster": True, "pools": {"h100": {}}}
    story.company.cluster.save(update_fields=["options"])
    story.cluster.add(replace(a_gated_native(ranks=2), mgpu=3_000, ranks_mgpu=(1_500, 1_500)))
    story.turn(1)
    assert story.cluster.granted == {"uid-1": NativeSize("h100", 1_500, 2)}
    story.at(2).look()
    assert [slot["mgpu"] for slot in Attempt.objects.get().slots] == [1_500, 1_500]


def test_a_start_that_the_cluster_forgot_is_told_again(story: Story) -> None:
    story.cluster.lazy = True
    story.cluster.add(a_gated_native())
    story.turn(1)
    story.cluster.lazy = False
    assert story.cluster.natives["uid-1"].phase is WorkloadPhase.HELD
    story.at(2).look()
    assert story.cluster.asked("start") == ["uid-1", "uid-1"]
    story.at(3).look()
    assert (story.job().state, story.states()) == ("running", [(1, "running", None)])


def test_a_start_waits_for_a_cluster_that_is_away(story: Story) -> None:
    story.cluster.add(a_gated_native())
    story.at(1).look()
    story.decide()
    story.cluster.away = True
    story.deliver()
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.native_id) == ("reserved", None)
    assert attempt.release_sent_at is not None
    story.cluster.away = False
    # Whichever comes first: the observer, or what delivers.
    story.at(2).look()
    attempt.refresh_from_db()
    assert (attempt.state, attempt.native_id) == ("starting", "uid-1")
    assert story.cluster.asked("start") == ["uid-1"]


def test_what_the_cluster_does_not_start_is_given_back_after_five_minutes(story: Story) -> None:
    story.cluster.lazy = True
    story.cluster.add(replace(a_gated_native(), message="topology allows 1 of 2"))
    for second in (1, 30, 80, 130, 180, 230, 280, 329, 331):
        story.turn(second)
    story.turn(332)
    assert story.states() == [(1, "ended", "not_started")]
    assert (story.job().state, segments()) == ("queued", [])
    assert "stop" in {kind for kind, _ in story.cluster.calls}

"""What a job says of itself over REST: why it waits, its attempts, its history."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from builders.api_callers import by_token
from builders.job_builders import a_job, an_attempt
from builders.jobs_world import World
from builders.portal_builders import (
    NOW,
)
from jobs.models import Attempt, Job, JobReason, Reclaim
from jobs.reading.explaining import plain_explanation
from jobs.timeline import Happening, record_events
from quotas.models import Quota
from tenants.models import User

pytestmark = pytest.mark.django_db


def test_what_a_waiting_job_says(world: World) -> None:
    stored = {
        "code": "waiting_for_reclaim",
        "sentence": "It waits.",
        "numbers": {"need_mgpu": 8_000},
        "node": "ai-company/research/nlp",
        "jobs_ahead": 0,
        "estimated_start": {
            "earliest": None,
            "latest": "2026-11-21T12:05:00Z",
            "method": "reclaim",
        },
        "as_of": "2026-11-21T12:00:00Z",
    }
    waiting = a_job(world.company, world.bob, name="waits", explanation=stored, explained_at=NOW)
    claim = Reclaim.objects.create(
        job=waiting, cluster=world.company.cluster, slots=[], created_at=NOW, grace_until=NOW
    )
    later = NOW + timedelta(minutes=5)
    victims = []
    for company, user, team in (
        (world.company, world.bob, world.company.nlp),
        (world.company, world.alice, world.company.inference),
        (world.rival, world.charlie, world.rival.nlp),
    ):
        job = a_job(company, user, team=team, name=f"of {user.username}", state="preempting")
        an_attempt(
            job,
            cluster=company.cluster,
            state="stopping",
            stop_reason="preempted",
            reclaim=claim,
            notice_at=NOW,
            grace_until=later,
        )
        victims.append(job)

    def victim(job: Job | None, team: str | None) -> dict[str, Any]:
        return {
            "job": None if job is None else str(job.pk),
            "name": None if job is None else job.name,
            "team": team,
            "mgpu": 1_000,
            "notice_at": "2026-11-21T12:00:00Z",
            "grace_until": "2026-11-21T12:05:00Z",
            # None of them has started; of another organization not even that is told.
            "at_risk_mgpu_s": None if team is None else 0,
            "notice_handling": None,
        }

    nlp, inference = "ai-company/research/nlp", "ai-company/production/inference"
    body = by_token(world.bob).get(f"jobs/{waiting.pk}/explanation").json()
    assert body == {
        **stored,
        "pool": None,
        "elsewhere": [],
        "victims": [victim(victims[0], nlp), victim(None, inference), victim(None, None)],
    }
    assert by_token(world.bob).get(f"jobs/{waiting.pk}").json()["explanation"] == body
    assert by_token(world.alice).get(f"jobs/{waiting.pk}/explanation").json()["victims"] == [
        victim(victims[0], nlp),
        victim(victims[1], inference),
        victim(None, None),
    ]

    def beneficiary(user: User, job: Job) -> str | None:
        shown = by_token(user).get(f"jobs/{job.pk}/attempts").json()["items"]
        return str(shown[0]["beneficiary"]) if shown[0]["beneficiary"] else None

    assert beneficiary(world.bob, victims[0]) == str(waiting.pk)
    assert beneficiary(world.charlie, victims[2]) is None

    def made_room_for(user: User, job: Job) -> Any:
        return by_token(user).get(f"jobs/{job.pk}").json()["current_attempt"]["made_room_for"]

    def why(user: User, job: Job) -> str:
        sentence = by_token(user).get(f"jobs/{job.pk}/explanation").json()["sentence"]
        return str(sentence).partition(":")[0]

    of_nlp = {"team": nlp, "mgpu": 1_000}
    assert made_room_for(world.bob, victims[0]) == {
        "job": str(waiting.pk), "name": "waits", **of_nlp,
    }  # fmt: skip
    assert made_room_for(world.charlie, victims[2]) == {
        "job": None, "name": None, "team": None, "mgpu": None,
    }  # fmt: skip
    back = "Its GPUs are taken back for a job of"
    assert why(world.bob, victims[0]) == f"{back} {nlp} that needs 1 GPU"
    assert why(world.charlie, victims[2]) == f"{back} another team"


def test_numbers_come_in_an_order_in_which_they_can_be_read(world: World) -> None:
    """Planted: as the database has them, by the lengths of their names; those of the past, or of
    other pools, are left so; a number that the arbiter does not know is lost."""
    numbers = {"new": 1, "capacity_mgpu": 2, "protected_mgpu": 3, "in_use_mgpu": 4, "need_mgpu": 5}
    elsewhere = {
        "pool": "a100", "code": "waiting_for_free_gpus", "sentence": "", "numbers": numbers,
        "node": None, "jobs_ahead": 0,
    }  # fmt: skip
    stored = plain_explanation("waiting_for_guarantee", "It waits.", NOW)
    stored |= {"numbers": numbers, "elsewhere": [elsewhere]}
    del stored["victims"]
    job = a_job(world.company, world.bob, explanation=stored, explained_at=NOW)
    JobReason.objects.create(job=job, number=1, since=NOW, code=stored["code"], document=stored)
    ordered = ["need_mgpu", "in_use_mgpu", "protected_mgpu", "capacity_mgpu", "new"]
    caller = by_token(world.bob)
    told = caller.get(f"jobs/{job.pk}/explanation").json()
    assert [list(told["numbers"]), list(told["elsewhere"][0]["numbers"])] == [ordered, ordered]
    (line,) = caller.get(f"jobs/{job.pk}/reasons").json()["items"]
    assert list(line["numbers"].items()) == [(name, numbers[name]) for name in ordered]


def test_what_came_free_since_the_reason_was_stored_is_counted(world: World) -> None:
    """The reason says 8 of 40 are there; of its victims one of 2 has left since."""
    numbers = {"need_mgpu": 40_000, "coming_back_mgpu": 32_000, "earmarked_mgpu": 8_000}
    stored = plain_explanation("waiting_for_reclaim", "8 are here already.", NOW, numbers)
    del stored["victims"]
    company, bob = world.company, world.bob
    waiting = a_job(company, bob, name="waits", explanation=stored, explained_at=NOW)
    claim = Reclaim.objects.create(
        job=waiting, cluster=company.cluster, slots=[], created_at=NOW, grace_until=NOW
    )
    of_victims = [
        an_attempt(
            a_job(company, bob, state="preempting", mgpu_per_node=mgpu), cluster=company.cluster,
            state="stopping", stop_reason="preempted", reclaim=claim, notice_at=NOW,
            grace_until=NOW,
        )
        for mgpu in (8_000, 24_000)
    ]  # fmt: skip
    caller = by_token(bob)

    def told() -> tuple[str, int, int]:
        shown = caller.get(f"jobs/{waiting.pk}/explanation").json()
        now = shown["numbers"]
        return shown["sentence"], now["earmarked_mgpu"], now["coming_back_mgpu"]

    assert told() == ("8 are here already.", 8_000, 32_000)
    Attempt.objects.filter(pk=of_victims[1].pk).update(
        state="ended", outcome="preempted", ended_at=NOW, released_at=NOW
    )
    sentence = "8 are here already. Since then 24 GPUs have come free for it."
    assert told() == (sentence, 32_000, 8_000)


def test_who_takes_over_gpus_of_a_claim_that_was_given_up_sees_whose_they_are(
    world: World,
) -> None:
    """Planted: nobody's; those on other nodes, or of a claim that stands, too."""
    company, bob = world.company, world.bob
    stored = {**plain_explanation("waiting_for_reclaim", "Soon.", NOW), "numbers": {"victims": 1}}
    waiting = a_job(company, bob, name="waits", explanation=stored, explained_at=NOW)

    def a_claim_of(job: Job, node: str, closed_at: datetime | None = None) -> Reclaim:
        return Reclaim.objects.create(
            job=job, cluster=company.cluster, slots=[{"node": node, "mgpu": 4_000}],
            created_at=NOW, grace_until=NOW, closed_at=closed_at,
        )  # fmt: skip

    a_claim_of(waiting, "n1")
    given_up = a_claim_of(a_job(company, bob, state="held"), "n1", NOW)
    standing = a_claim_of(a_job(company, bob), "n1")
    for name, node, claim in (
        ("given up", "n1", given_up),
        ("elsewhere", "n2", given_up),
        ("another's", "n1", standing),
        ("cancelled", "n1", None),
    ):
        an_attempt(
            a_job(company, bob, name=name, state="preempting"), cluster=company.cluster,
            nodes=(node,), state="stopping", stop_reason="preempted", reclaim=claim,
            notice_at=NOW, grace_until=NOW,
        )  # fmt: skip
    told = by_token(bob).get(f"jobs/{waiting.pk}/explanation").json()["victims"]
    assert sorted(one["name"] for one in told) == ["cancelled", "given up"]


@pytest.mark.parametrize(
    ("state", "code", "in_job"),
    [
        ("held", "held_by_user", True),
        ("queued", "not_yet_decided", False),
        ("starting", "dispatching", True),
        ("running", "not_waiting", False),
        ("succeeded", "not_waiting", False),
    ],
)
def test_every_state_explains_itself(world: World, state: str, code: str, in_job: bool) -> None:
    job = a_job(world.company, world.bob, state=state)
    caller = by_token(world.bob)
    body = caller.get(f"jobs/{job.pk}/explanation").json()
    assert (body["code"], body["victims"]) == (code, [])
    assert body["sentence"].endswith(".")
    shown = caller.get(f"jobs/{job.pk}").json()["explanation"]
    assert (shown is not None and shown["code"] == code) == in_job


def test_who_has_ended_is_not_said_to_be_it(world: World) -> None:
    """Planted: "it is timed_out"."""
    job = a_job(world.company, world.bob, state="timed_out")
    body = by_token(world.bob).get(f"jobs/{job.pk}/explanation").json()
    assert body["sentence"] == "It does not wait: it has ended (timed out)."


def test_attempts_first_to_last(world: World) -> None:
    job = a_job(world.company, world.bob, state="running", mgpu_per_node=2_000, node_count=2)
    cluster = world.company.cluster
    an_attempt(
        job,
        cluster=cluster,
        number=1,
        state="ended",
        ended_at=NOW,
        released_at=NOW,
        outcome="failed",
        exit_codes={"0": 3, "1": -9},
    )
    second = an_attempt(
        job, cluster=cluster, number=2, guaranteed_mgpu=1_000, nodes=("n1", "n2"), started_at=NOW
    )
    items = by_token(world.bob).get(f"jobs/{job.pk}/attempts").json()["items"]
    assert [(item["number"], item["exit_codes"]) for item in items] == [
        (1, {"0": 3, "1": -9}),
        (2, {}),
    ]
    assert items[1] == {
        "id": str(second.pk),
        "number": 2,
        "cluster": "local",
        "state": "running",
        "native_id": None,
        "native_state": "",
        "slots": [{"node": "n1", "mgpu": 2_000}, {"node": "n2", "mgpu": 2_000}],
        "granted_at": "2026-11-21T12:00:00Z",
        "started_at": "2026-11-21T12:00:00Z",
        "checkpoint_at": None,
        "notice_at": None,
        "grace_until": None,
        "ended_at": None,
        "released_at": None,
        "outcome": None,
        "exit_codes": {},
        "mgpu": 4_000,
        "guaranteed_mgpu": 1_000,
        "borrowed_mgpu": 3_000,
        "message": "",
        "beneficiary": None,
        "made_room_for": None,
        "stop_reason": None,
        "ignored_notice": False,
    }
    assert by_token(world.bob).get(f"jobs/{job.pk}").json()["current_attempt"] == items[1]


def test_a_requeued_job_has_no_current_attempt(world: World) -> None:
    job = a_job(world.company, world.bob)
    an_attempt(job, cluster=world.company.cluster, state="ended", ended_at=NOW, released_at=NOW)
    body = by_token(world.bob).get(f"jobs/{job.pk}").json()
    assert (body["attempt"], body["current_attempt"]) == (1, None)


def test_history(world: World) -> None:
    job = a_job(world.company, world.bob)
    record_events(
        [
            Happening(job.pk, NOW, "submitted", {"by": "bob"}),
            Happening(job.pk, NOW + timedelta(seconds=5), "held"),
        ]
    )
    assert by_token(world.bob).get(f"jobs/{job.pk}/history").json() == {
        "items": [
            {"at": "2026-11-21T12:00:00Z", "event": "submitted", "detail": {"by": "bob"}},
            {"at": "2026-11-21T12:00:05Z", "event": "held", "detail": {}},
        ]
    }


def test_history_names_what_the_caller_may_see(world: World) -> None:
    job = a_job(world.company, world.bob)
    teams = (world.company.inference, world.rival.nlp)
    record_events(
        [
            Happening(job.pk, NOW, "granted", {"cluster": str(world.company.cluster.pk)}),
            *(
                Happening(job.pk, NOW, "preempting", {"for_team": str(team.pk), "grace_s": 300})
                for team in teams
            ),
        ]
    )
    items = by_token(world.bob).get(f"jobs/{job.pk}/history").json()["items"]
    assert [item["detail"] for item in items] == [
        {"cluster": "local"},
        {"for_team": "ai-company/production/inference", "grace_s": 300},
        {"for_team": None, "grace_s": 300},
    ]


@pytest.mark.parametrize(
    ("need_gpus", "told"),
    [
        # nlp is guaranteed 8, research 16, and ai-company 32 against another organization.
        (8, None),
        (32, None),
        (33, "Its 33 GPUs are more than the guarantees of nlp (8), research (16) and ai-company "
         "(32), so no other job is preempted for it."),
    ],
)  # fmt: skip
def test_what_is_larger_than_all_guarantees_waits_until_gpus_come_free(
    world: World, need_gpus: int, told: str | None
) -> None:
    """Against: it is told of a job that fits in the department's guarantee."""
    numbers = {"need_mgpu": 1_000 * need_gpus}
    stored = plain_explanation("waiting_for_free_gpus", "It waits.", NOW, numbers)
    del stored["victims"]
    job = a_job(world.company, world.bob, explanation=stored, explained_at=NOW)
    body = by_token(world.bob).get(f"jobs/{job.pk}/explanation").json()
    assert body["sentence"] == ("It waits." if told is None else f"It waits. {told}")


def test_an_organization_alone_in_a_pool_takes_back_from_nobody(world: World) -> None:
    """Against: the organization's guarantee compared although nobody else has quota."""
    Quota.objects.filter(node__organization=world.rival.organization).delete()
    stored = plain_explanation("waiting_for_free_gpus", "It waits.", NOW, {"need_mgpu": 17_000})
    del stored["victims"]
    job = a_job(world.company, world.bob, explanation=stored, explained_at=NOW)
    told = by_token(world.bob).get(f"jobs/{job.pk}/explanation").json()["sentence"]
    assert told == (
        "It waits. Its 17 GPUs are more than the guarantees of nlp (8) and research (16), so no "
        "other job is preempted for it."
    )

"""What bears the name of an attempt and is not it: its user's own, or held outside and told;
stopped only when certain.

Bugs that were planted and seen to die here: strays not counted; every copy of a key counted, also
the attempt's own; held copies counted; the stop without the recorded number, without the end of
the attempt, without the release, without the user, in quarantine; what has the recorded number, or
none was recorded for yet, taken for its user's; ends of such jobs left out, so that short ones are
free.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from arbiter.api.snapshot import Device
from builders.loop_builders import Fenced, a_job
from builders.native_builders import T0, AControl, a_slurm
from builders.portal_builders import NOW, Company, a_company, a_user
from clusters.models import Cluster, ClusterNode, Pool
from clusters.outside import OutsideUse, record_outside_use
from clusters.queries import read_fleet
from connectors.natives import NativeRef
from connectors.protocol import Listing, NativeWorkload, Observation, RankSlot, WorkloadPhase
from jobs.execution.comparing import NEVER_STARTED
from jobs.execution.strays import NAMED_MAX, Found, add_strays, find_strays
from jobs.models import Attempt, AttemptState, Job, JobOrigin, JobState, attempt_id
from jobs.natives.natives import apply_natives
from outbox.models import Quarantine
from quotas.models import ClusterUser

pytestmark = pytest.mark.django_db

NODE = "ai-company-000"


@pytest.fixture
def company() -> Company:
    company = a_company()
    a_slurm(company.cluster)
    return company


def an_attempt(company: Company, name: str = "bob", **changes: Any) -> Attempt:
    """A running attempt, number 17 of Slurm, of tg-`name`, on the first node."""
    job = a_job(
        company.nlp,
        a_user(company.organization, name),
        company.pool,
        gpus=4,
        now=NOW,
        state=JobState.RUNNING,
        attempt_number=1,
    )
    values: dict[str, Any] = {
        "id": attempt_id(job.pk, 1),
        "job": job,
        "number": 1,
        "cluster": company.cluster,
        "slots": [{"node": NODE, "mgpu": 4000}],
        "mgpu": 4000,
        "guaranteed_mgpu": 4000,
        "state": AttemptState.RUNNING,
        "epoch": 1,
        "granted_at": NOW,
        "native_id": "17",
        "release_sent_at": NOW,
        "started_at": NOW,
        "cluster_user": f"tg-{name}",
    }
    return Attempt.objects.create(**{**values, **changes})


def ended(company: Company, name: str = "bob", **changes: Any) -> Attempt:
    values: dict[str, Any] = {
        "state": AttemptState.ENDED,
        "ended_at": NOW,
        "released_at": NOW,
        "outcome": "succeeded",
    }
    attempt = an_attempt(company, name, **{**values, **changes})
    Job.objects.filter(pk=attempt.job_id).update(state=JobState.SUCCEEDED, ended_at=NOW)
    return attempt


def seen(attempt: Attempt, native_id: str = "17", **changes: Any) -> Observation:
    values: dict[str, Any] = {
        "key": attempt.key,
        "native_id": native_id,
        "native_state": "RUNNING",
        "phase": WorkloadPhase.RUNNING,
        "started_at": T0,
        "submitted_at": T0 - 5,
        "slots": (RankSlot(NODE, 2000),),
        "user": attempt.cluster_user,
        "account": "ai-company_research_nlp",
        "pool": "h100",
    }
    return Observation(**{**values, **changes})


def look(
    company: Company, *found: Observation, control: AControl | None = None
) -> tuple[OutsideUse, list[str]]:
    listing = a_listing(*found)
    complaints: list[str] = []
    strays = find_strays(company.cluster, listing, Fenced("observer"))  # type: ignore[arg-type]
    assert strays.natives == []
    assert strays.among_natives(listing) == listing
    use = add_strays(
        OutsideUse(T0), strays.strays, control=control or AControl(), complain=complaints.append
    )
    return use, complaints


def a_listing(*found: Observation) -> Listing:
    copies: dict[str, tuple[Observation, ...]] = {}
    for one in found:
        copies[one.key] = (*copies.get(one.key, ()), one)
    return Listing(
        T0,
        {key: all_of[0] for key, all_of in copies.items()},
        copies={key: all_of for key, all_of in copies.items() if len(all_of) > 1},
    )


def natives(company: Company, *found: Observation) -> list[tuple[str, WorkloadPhase, int]]:
    """What of the listing is its user's own."""
    listing = a_listing(*found)
    strays = find_strays(company.cluster, listing, Fenced("observer"))  # type: ignore[arg-type]
    assert [one for one in strays.strays if one.mgpu] == []
    return [(one.native_id, one.phase, one.mgpu) for one in strays.among_natives(listing).natives]


def told(use: OutsideUse) -> list[tuple[str, str, int, int]]:
    return [(one.user, one.reason, one.mgpu, one.workloads) for one in use.holders]


def test_what_runs_beside_the_attempt_is_its_user_s_own(company: Company) -> None:
    attempt = an_attempt(company)
    own = seen(attempt, "18", is_preemptible=True, time_limit_s=60, native_state="RUNNING")
    found = find_strays(
        company.cluster,
        a_listing(seen(attempt), own),
        Fenced("observer"),  # type: ignore[arg-type]
    )
    assert found.strays == []
    assert found.natives == [
        NativeWorkload(
            native_id="18",
            submitted_at=T0 - 5,
            name=attempt.key,
            account="ai-company_research_nlp",
            user="tg-bob",
            pool="h100",
            mgpu=2000,
            native_state="RUNNING",
            phase=WorkloadPhase.RUNNING,
            is_preemptible=True,
            started_at=T0,
            time_limit_s=60,
            slots=(RankSlot(NODE, 2000),),
        )
    ]


def test_so_is_what_runs_when_it_has_ended(company: Company) -> None:
    """Also when its number was never recorded: then it was not released either."""
    for name, number in (("bob", "17"), ("eve", None), ("mia", NEVER_STARTED)):
        attempt = ended(company, name, native_id=number)
        assert natives(company, seen(attempt, "18")) == [("18", WorkloadPhase.RUNNING, 2000)]


def test_its_end_counts_too_where_both_are_listed(company: Company) -> None:
    attempt = ended(company)
    over = {"phase": WorkloadPhase.ENDED, "is_released": True, "ended_at": T0 + 9}
    both = seen(attempt, **over), seen(attempt, "18", **over)
    assert natives(company, *both) == [("18", WorkloadPhase.ENDED, 2000)]
    unstarted = seen(attempt, "18", slots=None, started_at=None, **over)
    assert natives(company, seen(attempt, **over), unstarted) == []


def test_it_is_charged_to_its_user(company: Company) -> None:
    bob = an_attempt(company)
    ClusterUser.objects.create(cluster=company.cluster, user_id=bob.job.user_id, name="tg-bob")
    listing = a_listing(seen(bob), seen(bob, "18"))
    found = find_strays(company.cluster, listing, Fenced("observer"))  # type: ignore[arg-type]
    use = apply_natives(
        company.cluster,
        found.among_natives(listing),
        control=AControl(),
        previous_at=NOW - timedelta(seconds=1),
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=NOW,
    )
    assert use == OutsideUse(T0)
    job = Job.objects.get(origin=JobOrigin.NATIVE)
    assert (job.team, job.user_id, job.name) == (company.nlp, bob.job.user_id, bob.key)
    assert [one.mgpu for one in job.attempts.all()] == [2000]


def test_what_holds_gpus_of_several_pools_is_told(company: Company) -> None:
    attempt = an_attempt(company)
    use, _ = look(company, seen(attempt), seen(attempt, "18", is_mixed=True))
    assert told(use) == [("tg-bob", "copy_of_ours", 2000, 1)]


def test_gpus_of_strays_are_not_offered(company: Company) -> None:
    """Planted: GPUs where they hold cores."""
    attempt = ended(company, release_sent_at=None)
    capacity = ClusterNode.objects.get(name=NODE).capacity_mgpu
    use, complaints = look(company, seen(attempt))
    assert use.by_node == {(NODE, "h100"): 2000}
    assert complaints == [
        "These jobs bear the name of a job of the portal and were not started by it, so nobody "
        f"is charged: job 17 of tg-bob with 2 GPUs as {attempt.key}. Ask their users, or cancel "
        "them there."
    ]
    Pool.objects.filter(name="h100").update(device="cpu")
    _, complaints = look(company, seen(attempt, slots=(RankSlot(NODE, 1_000),)))
    assert f"job 17 of tg-bob with 1 core as {attempt.key}." in complaints[0]
    record_outside_use(company.cluster, use)
    device = next(one for one in read_fleet().devices if one.node == NODE)
    assert device == Device(
        str(company.cluster.pk), NODE, str(company.pool.pk), capacity - 2000, 2000
    )


def test_the_attempt_itself_is_no_stray(company: Company) -> None:
    assert look(company, seen(an_attempt(company))) == (OutsideUse(T0), [])


def test_while_no_number_is_recorded_the_oldest_is_its_own(company: Company) -> None:
    attempt = an_attempt(company, native_id=None, release_sent_at=None)
    use, _ = look(company, seen(attempt, "17"), seen(attempt, "18"))
    assert told(use) == [("tg-bob", "copy_of_ours", 2000, 1)]
    assert look(company, seen(attempt, "17")) == (OutsideUse(T0), [])


def test_one_that_was_stopped_before_its_number_came_is_its_own(company: Company) -> None:
    attempt = an_attempt(
        company,
        native_id=NEVER_STARTED,
        state=AttemptState.STOPPING,
        grace_until=NOW,
    )
    assert look(company, seen(attempt, "17")) == (OutsideUse(T0), [])


def test_held_copies_are_left_to_settling(company: Company) -> None:
    attempt = ended(company)
    control = AControl()
    held = seen(attempt, phase=WorkloadPhase.HELD, slots=None, started_at=None)
    assert look(company, held, control=control) == (OutsideUse(T0), [])
    assert control.stopped == []


def test_what_has_ended_and_is_back_is_counted_and_stopped(company: Company) -> None:
    attempt = ended(company)
    control = AControl()
    use, complaints = look(company, seen(attempt), control=control)
    assert told(use) == [("tg-bob", "ended_and_back", 2000, 1)]
    assert control.stopped == [NativeRef("17", T0 - 5, "tg-bob")]
    assert ", which has ended here and is being stopped." in complaints[0]


def test_what_waits_to_run_once_more_is_stopped_before_it_does(company: Company) -> None:
    control = AControl()
    waiting = seen(ended(company), phase=WorkloadPhase.STARTING, slots=None, started_at=None)
    assert look(company, waiting, control=control) == (OutsideUse(T0), [])
    assert control.stopped == [NativeRef("17", T0 - 5, "tg-bob")]


def test_what_is_ending_is_counted_until_its_gpus_are_free(company: Company) -> None:
    attempt = ended(company)
    control = AControl()
    use, _ = look(company, seen(attempt, phase=WorkloadPhase.STOPPING), control=control)
    assert told(use) == [("tg-bob", "ended_and_back", 2000, 1)]
    assert control.stopped == []
    over = seen(attempt, phase=WorkloadPhase.ENDED, is_released=True)
    assert look(company, over) == (OutsideUse(T0), [])


@pytest.mark.parametrize(
    ("of_attempt", "of_workload"),
    [
        ({"release_sent_at": None}, {}),
        ({}, {"user": "tg-eve"}),
        ({"outcome": "unknown"}, {}),
    ],
)
def test_what_is_not_certainly_ours_and_over_is_told_and_not_stopped(
    company: Company, of_attempt: dict[str, Any], of_workload: dict[str, Any]
) -> None:
    attempt = ended(company, **of_attempt)
    control = AControl()
    use, complaints = look(company, seen(attempt, **of_workload), control=control)
    assert [(one.reason, one.mgpu) for one in use.holders] == [("copy_of_ours", 2000)]
    assert control.stopped == []
    assert len(complaints) == 1


def test_nobody_knew_whether_it_ran_and_its_job_went_on(company: Company) -> None:
    attempt = ended(company, outcome="unknown")
    Job.objects.filter(pk=attempt.job_id).update(attempt_number=2)
    control = AControl()
    look(company, seen(attempt), control=control)
    assert control.stopped == [NativeRef("17", T0 - 5, "tg-bob")]


def test_one_of_another_cluster_is_told_and_not_stopped(company: Company) -> None:
    other = Cluster.objects.create(name="other", kind="slurm")
    attempt = ended(company, cluster=other)
    control = AControl()
    use, _ = look(company, seen(attempt), control=control)
    assert told(use) == [("tg-bob", "copy_of_ours", 2000, 1)]
    assert control.stopped == []


def test_one_that_the_database_never_made_is_told(company: Company) -> None:
    attempt = an_attempt(company)
    strange = seen(attempt)
    Attempt.objects.all().delete()
    control = AControl()
    use, _ = look(company, strange, control=control)
    assert told(use) == [("tg-bob", "copy_of_ours", 2000, 1)]
    assert control.stopped == []


def test_nothing_is_stopped_in_quarantine(company: Company) -> None:
    Quarantine.objects.create(since=NOW, began_at=NOW, reason="restored")
    attempt = ended(company)
    control = AControl()
    use, _ = look(company, seen(attempt), control=control)
    assert told(use) == [("tg-bob", "ended_and_back", 2000, 1)]
    assert control.stopped == []


def test_a_cluster_that_does_not_stop_it_is_asked_again(company: Company) -> None:
    attempt = ended(company)
    control = AControl(away=True)
    use, complaints = look(company, seen(attempt), control=control)
    assert (told(use), len(complaints)) == ([("tg-bob", "ended_and_back", 2000, 1)], 1)
    control.away = False
    look(company, seen(attempt), control=control)
    assert control.stopped == [NativeRef("17", T0 - 5, "tg-bob")]


def test_the_largest_are_named_and_all_are_counted(company: Company) -> None:
    attempt = an_attempt(company, native_id=None, release_sent_at=None)
    copies = [
        replace(seen(attempt, str(20 + n)), slots=(RankSlot(NODE, 1000 * (n + 1)),))
        for n in range(NAMED_MAX + 2)
    ]
    use, complaints = look(company, seen(attempt), *copies)
    assert told(use) == [("tg-bob", "copy_of_ours", 28_000, 7)]
    assert "charged: job 26 of tg-bob with 7 GPUs" in complaints[0]
    assert complaints[0].count(" of tg-bob with ") == NAMED_MAX
    assert "; and 2 more. Ask" in complaints[0]


def test_nobody_asks_the_database_where_nothing_of_ours_runs(
    company: Company, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(0):
        assert find_strays(company.cluster, Listing(T0, {}), None) == Found([], [])  # type: ignore[arg-type]

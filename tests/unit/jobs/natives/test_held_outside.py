"""GPUs that what belongs to nobody here holds beside the portal."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from arbiter.api.snapshot import Device
from billing.models import MeteredAttempt
from builders.loop_builders import Fenced, a_job
from builders.native_builders import (
    T0,
    AControl,
    a_native,
    a_waiting_native,
    at,
    decide,
    look,
    reasons,
    segments,
)
from builders.portal_builders import (
    NOW,
    Company,
    a_quota,
)
from clusters.models import CapacitySegment
from clusters.observation import record_inventory
from clusters.queries import read_fleet, shares_of
from connectors.protocol import (
    Inventory,
    Listing,
    NodeCapacity,
    Unread,
)
from jobs.models import Attempt, Job, JobOrigin
from jobs.natives.natives import apply_natives
from quotas.models import Quota
from tenants.models import User

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("bob")
def test_gpus_that_are_held_outside_are_not_offered(company: Company, control: AControl) -> None:
    look(company, control, a_native(user="tg-x", gpus=6))
    cluster, pool = str(company.cluster.pk), str(company.pool.pk)
    assert read_fleet().devices[:2] == (
        Device(cluster, "ai-company-000", pool, 2000, 6000),
        Device(cluster, "ai-company-001", pool, 8000),
    )
    look(company, control, at_s=2)
    assert read_fleet().devices[0] == Device(cluster, "ai-company-000", pool, 8000)


def test_nothing_starts_where_somebody_else_is(
    company: Company, control: AControl, bob: User
) -> None:
    """All four nodes are partly taken: a whole node waits, and is never said to be impossible."""
    natives = [
        a_native(str(n + 1), user="tg-x", gpus=1, nodes=(f"ai-company-{n:03d}",)) for n in range(4)
    ]
    look(company, control, *natives)
    job = a_job(company.nlp, bob, company.pool, gpus=8, now=NOW)
    assert decide(at(2)).started == 0
    job.refresh_from_db()
    assert job.explanation is not None
    assert job.explanation["code"] != "never_fits"
    look(company, control, *natives[1:], at_s=3)
    assert decide(at(4)).started == 1


@pytest.mark.usefixtures("bob")
def test_capacity_that_is_held_outside_is_not_idle(company: Company, control: AControl) -> None:
    record_inventory(
        company.cluster,
        Inventory(
            T0,
            tuple(
                NodeCapacity(f"ai-company-{n:03d}", "h100", 8000, True, "idle") for n in range(4)
            ),
        ),
        now=NOW,
    )
    look(company, control, a_native(user="tg-x"), at_s=10)
    look(company, control, a_native(user="tg-x"), at_s=11, previous_s=10)
    look(company, control, at_s=30, previous_s=11)
    assert [
        (int(s.start.timestamp()) - T0, s.capacity_mgpu, s.outside_mgpu)
        for s in CapacitySegment.objects.order_by("start")
    ] == [(0, 32_000, 0), (10, 32_000, 8000), (30, 32_000, 0)]


@pytest.mark.parametrize(
    "odd",
    [
        {"started_at": 1 << 62},
        {"submitted_at": -(1 << 40)},
        {"native_id": "9" * 201},
        # Only the database finds these out.
        {"time_limit_s": 1 << 70},
    ],
)
def test_one_that_makes_no_sense_does_not_hold_up_the_others(
    company: Company, control: AControl, bob: User, odd: dict[str, object]
) -> None:
    """Planted: without the check of times and without the second try one by one, all stay out."""
    complaints: list[str] = []
    use = apply_natives(
        company.cluster,
        Listing(
            T0 + 1,
            {},
            natives=(
                a_native("7"),
                replace(a_native("8", nodes=("ai-company-001",)), **odd),  # type: ignore[arg-type]
                a_native("9", nodes=("ai-company-002",)),
            ),
        ),
        control=control,
        previous_at=at(-1),
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=at(1),
        complain=complaints.append,
    )
    assert set(Attempt.objects.values_list("native_id", flat=True)) == {"7", "9"}
    assert reasons(use) == [("makes_no_sense", 8000)]
    assert use.by_node == {("ai-company-001", "h100"): 8000}
    assert len(complaints) == 1
    assert complaints[0].startswith(
        "The cluster reports some of its jobs in a form that makes no sense. They count for no "
    )


def test_jobs_that_cannot_be_read_are_told(company: Company, control: AControl) -> None:
    complaints: list[str] = []
    apply_natives(
        company.cluster,
        Listing(T0 + 1, {}, unread=tuple(Unread(str(n), "no state") for n in range(7))),
        control=control,
        previous_at=None,
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=at(1),
        complain=complaints.append,
    )
    assert complaints == [
        "The cluster reports some of its jobs in a form that makes no sense. They count for no "
        "team: job 0: no state; job 1: no state; job 2: no state; job 3: no state; job 4: "
        "no state and 2 more. Look at them with scontrol."
    ]


def test_what_cannot_be_read_is_looked_at_with_the_tool_of_its_cluster(
    company: Company, control: AControl
) -> None:
    """Mutant: people of a Kubernetes cluster were sent to scontrol."""
    complaints: list[str] = []
    control.tool = "kubectl"
    apply_natives(
        company.cluster,
        Listing(T0 + 1, {}, unread=(Unread("7", "no state"),)),
        control=control,
        previous_at=None,
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=at(1),
        complain=complaints.append,
    )
    assert complaints[0].endswith("job 7: no state. Look at them with kubectl.")


def test_what_may_be_there_unseen_is_told_apart(company: Company, control: AControl) -> None:
    complaints: list[str] = []
    apply_natives(
        company.cluster,
        Listing(T0 + 1, {}, unread=(Unread(None, "the queue is empty"),)),
        control=control,
        previous_at=None,
        leadership=Fenced("observer"),  # type: ignore[arg-type]
        now=at(1),
        complain=complaints.append,
    )
    assert complaints == ["No missing job is called lost now: the queue is empty."]


def test_a_native_that_cannot_be_read_is_not_missing(
    company: Company, control: AControl, bob: User
) -> None:
    look(company, control, a_native("7"))
    for at_s in (2, 3, 4):
        apply_natives(
            company.cluster,
            Listing(T0 + at_s, {}, unread=(Unread("7", "no state"),)),
            control=control,
            previous_at=at(at_s - 1),
            leadership=Fenced("observer"),  # type: ignore[arg-type]
            now=at(at_s),
        )
    assert Attempt.objects.get().state == "running"


@pytest.mark.usefixtures("bob")
def test_the_cluster_says_who_holds_what(company: Company, control: AControl) -> None:
    look(
        company,
        control,
        a_native("1", account="root", gpus=1),
        a_native("2", account="root", gpus=2),
        a_native("3", user="\x1bevil\u202e", gpus=4),
        a_native("4"),
        a_waiting_native(),
    )
    company.cluster.refresh_from_db()
    assert company.cluster.outside == {
        "running": 3,
        "running_mgpu": 7000,
        "pending": 1,
        "pending_mgpu": 8000,
        "holders": [
            {
                "account": "ai-company_research_nlp",
                "user": " evil ",
                "pool": "h100",
                "reason": "unknown_user",
                "mgpu": 4000,
                "workloads": 1,
            },
            {
                "account": "root",
                "user": "tg-bob",
                "pool": "h100",
                "reason": "unknown_account",
                "mgpu": 3000,
                "workloads": 2,
            },
        ],
    }
    assert shares_of([company.cluster])[company.cluster.pk][0].outside_mgpu == 7000


def test_what_came_by_no_account_is_told_by_its_place(company: Company, control: AControl) -> None:
    """The place of a team's own makes it no job of that team."""
    for place in ("default", "ai-company_research_nlp"):
        native = a_native("1", account="", user="", gpus=2)
        use = look(company, control, replace(native, place=place))
        (holder,) = use.holders
        assert (holder.account, holder.reason, holder.mgpu) == (place, "unknown_account", 2000)
    assert not Job.objects.exists()


def test_a_team_without_quota_borrows_all_of_it(
    company: Company, control: AControl, bob: User
) -> None:
    Quota.objects.filter(node=company.nlp).delete()
    look(company, control, a_native())
    assert segments() == [(0, None, 0, 8000)]
    metered = MeteredAttempt.objects.get()
    assert (metered.team_id, metered.user_id, metered.mgpu) == (company.nlp.pk, bob.pk, 8000)
    assert isinstance(metered.pk, UUID)
    assert Job.objects.get().origin == JobOrigin.NATIVE
    a_quota(company.nlp, company.pool, 8)

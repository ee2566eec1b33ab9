"""Observers that find the same native jobs at the same moment make one job of each.

The first test is the control: what is found anew becomes a job. Planted: an id made anew for each
job, so that the attempts of two observers collide.
"""

from __future__ import annotations

import pytest

from billing.models import MeterAnomaly, MeterEvent, UsageSegment
from builders.loop_builders import Fenced
from builders.native_builders import T0, AControl, a_native, a_slurm
from builders.parallel import at_once
from builders.portal_builders import NOW, Company, a_company, a_user
from clusters.outside import OutsideUse
from connectors.protocol import Listing
from jobs.models import Attempt, Job, JobEvent
from jobs.natives.natives import apply_natives
from quotas.models import ClusterUser

pytestmark = pytest.mark.django_db(transaction=True)

NATIVES = tuple(
    a_native(str(number), gpus=1, nodes=(f"ai-company-{number % 4:03d}",))
    for number in range(1, 21)
)


@pytest.fixture
def company() -> Company:
    company = a_company()
    a_slurm(company.cluster)
    bob = a_user(company.organization, "bob")
    ClusterUser.objects.create(cluster=company.cluster, user=bob, name="tg-bob")
    return company


def look(company: Company, leader: Fenced, natives: tuple[object, ...]) -> OutsideUse:
    return apply_natives(
        company.cluster,
        Listing(T0 + 1, {}, natives=natives),  # type: ignore[arg-type]
        control=AControl(),
        previous_at=NOW,
        leadership=leader,  # type: ignore[arg-type]
        now=NOW,
    )


def test_control_what_is_found_becomes_a_job(company: Company) -> None:
    leader = Fenced("observer")
    for native in NATIVES[:3]:
        look(company, leader, (native,))
    assert Job.objects.count() == 3


def test_observers_at_once_make_one_job_of_each(company: Company) -> None:
    leader = Fenced("observer")
    uses = at_once(
        [lambda part=part: look(company, leader, part) for part in (NATIVES, NATIVES[::-1]) * 4]  # type: ignore[misc]
    )
    assert [(use.by_node, use.holders) for use in uses] == [({}, ())] * 8
    assert (Job.objects.count(), Attempt.objects.count()) == (20, 20)
    assert JobEvent.objects.count() == 40
    assert MeterEvent.objects.filter(kind="started").count() == 20
    assert MeterAnomaly.objects.count() == 0
    assert sum(segment.guaranteed_mgpu for segment in UsageSegment.objects.all()) == 8000

"""The preview of a planned change: what it would do, cut to who asks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from builders.api_callers import by_token
from builders.billing_builders import a_rate_card, terms_of
from builders.lent_out import lent_out
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_priority_class,
    a_user,
    an_actor,
)
from clusters.models import Pool
from jobs.models import Job
from jobs.whatif.heavy_answers import FUTURE
from jobs.whatif.quota_preview import ChangePreview, preview_change
from primitives.clock import SystemClock
from primitives.errors import Conflict, NotFound, TooManyRequests
from quotas.administration import QuotaEdit
from quotas.models import PlannedChange, Quota
from quotas.planned_changes import apply_planned, draft_change
from quotas.planned_reading import etag_of_planned
from tenants.access import Actor
from tenants.models import Node
from tenants.roles import Role

pytestmark = pytest.mark.django_db
DAY_S = 86_400


def quota_of(node: Node) -> Quota:
    return Quota.objects.get(node=node)


def raised(company: Company, actor: Actor, gpus: int = 4, *, now: datetime = NOW) -> PlannedChange:
    return draft_change(
        [(quota_of(company.nlp).pk, QuotaEdit(guaranteed_mgpu=gpus * 1000))],
        reason="conference",
        apply_at=None,
        revert_after_s=None,
        actor=actor,
        now=now,
    )


def previewed(planned: PlannedChange, actor: Actor, horizon_s: int = DAY_S) -> ChangePreview:
    return preview_change(planned.pk, horizon_s=horizon_s, actor=actor, now=NOW)


def test_a_preview_in_a_pool_of_cores_says_so_in_every_row() -> None:
    """Planted: starts, losses or teams say gpu."""
    company, *_ = lent_out()
    Pool.objects.update(device="cpu")
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    found = previewed(raised(company, admin), admin)
    rows = [*found.quotas, *found.pools, *found.starts, *found.reclaimed]
    assert [(row["pool"], row["device"]) for row in rows] == [("h100", "cpu")] * 4
    assert {team.device for team in found.teams} == {"cpu"}


@pytest.mark.parametrize(
    ("apply_at_s", "revert_after_s", "noticed"),
    # Planted: the time of the change is not looked at; nor how long it stays.
    [(120, None, ["lost"]), (660, None, []), (None, 60, ["lost"])],
)
def test_a_preview_is_of_the_change_from_its_time_on(
    apply_at_s: int | None, revert_after_s: int | None, noticed: list[str]
) -> None:
    company, *_ = lent_out()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    planned = draft_change(
        [(quota_of(company.nlp).pk, QuotaEdit(guaranteed_mgpu=4_000))],
        reason="conference",
        apply_at=None if apply_at_s is None else NOW + timedelta(seconds=apply_at_s),
        revert_after_s=revert_after_s,
        actor=admin,
        now=NOW,
    )
    found = previewed(planned, admin)
    assert [loss["name"] for loss in found.reclaimed] == noticed
    (nlp,) = [one for one in found.teams if one.team.endswith("nlp")]
    # It runs for 1,200 s, from 420, 600 or 300 on, within the guarantee for as long as that stands.
    within_s = {120: 1_200, 660: 1_140, None: 0}[apply_at_s]
    assert nlp.guaranteed_after_mgpu_s == within_s * 4_000


@pytest.mark.parametrize(
    ("apply_at_s", "revert_after_s", "changed_s"),
    [(None, None, DAY_S), (600, None, DAY_S - 600), (None, 3_600, 3_600)],
)
def test_a_commitment_bills_the_guarantee_for_as_long_as_it_stands(
    apply_at_s: int | None, revert_after_s: int | None, changed_s: int
) -> None:
    """No job runs in inference, whose guarantee goes from 4 to 1 GPU at 3 EUR an hour.

    Against: a change that holds for the whole look-ahead; a team without jobs left out.
    """
    company, *_ = lent_out()
    card = a_rate_card(company.organization, {"guaranteed": 3 * 10**9}, pool=company.pool)
    terms_of(card, "commitment", pool=company.pool)
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    quota = quota_of(company.inference)
    planned = draft_change(
        [(quota.pk, QuotaEdit(guaranteed_mgpu=1_000))],
        reason="less",
        apply_at=None if apply_at_s is None else NOW + timedelta(seconds=apply_at_s),
        revert_after_s=revert_after_s,
        actor=admin,
        now=NOW,
    )
    (found,) = [one for one in previewed(planned, admin).teams if one.team.endswith("inference")]
    before_mgpu_s = quota.guaranteed_mgpu * DAY_S
    after_mgpu_s = before_mgpu_s - (quota.guaranteed_mgpu - 1_000) * changed_s
    assert (found.cost_before_nano, found.cost_after_nano) == (
        before_mgpu_s * 3 * 10**9 // 3_600_000,
        after_mgpu_s * 3 * 10**9 // 3_600_000,
    )


def test_a_raised_guarantee_starts_a_job_300_s_sooner_and_puts_4_gpu_hours_at_risk() -> None:
    company, lost, gains = lent_out()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)

    found = previewed(raised(company, admin), admin)

    (start,) = found.starts
    assert (start["job"], start["name"], start["team"]) == (
        str(gains.pk),
        "gains",
        "ai-company/research/nlp",
    )
    assert start["before"] == NOW + timedelta(seconds=600)
    assert start["after"] == NOW + timedelta(seconds=300)
    assert (start["sooner_s"], start["is_at_least"]) == (300, False)
    (loss,) = found.reclaimed
    assert (loss["job"], loss["beneficiary"]) == (str(lost.pk), str(gains.pk))
    assert loss["at_risk_mgpu_s"] == 4_000 * 3_600
    assert (found.refusal, found.spared, found.is_cut, found.assumed_ends) == ("", [], False, 0)
    assert [(one["node"], one["after"]["guaranteed_mgpu"]) for one in found.quotas] == [
        ("ai-company/research/nlp", 4_000)
    ]
    assert found.pools == [
        {
            "pool": "h100",
            "device": "gpu",
            "capacity_mgpu": 8_000,
            "guaranteed_mgpu": None,
            "is_overcommitted": False,
        }
    ]


def test_teams_have_gpu_time_and_cost_both_ways() -> None:
    """Without: vision 4 x 600 s, nlp 4 x 1,200 s in its department's reserve, so borrowed by the
    team. With: vision 4 x 300 s, and anew only from 1,500 on; nlp guaranteed. A GPU-hour is 2
    guaranteed and 1 borrowed."""
    company, _, _ = lent_out()
    a_rate_card(company.organization)
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    found = previewed(raised(company, admin), admin, horizon_s=1_500)
    nlp, vision = found.teams
    assert (nlp.team, nlp.jobs_sooner, nlp.jobs_reclaimed) == ("ai-company/research/nlp", 1, 0)
    assert (nlp.guaranteed_before_mgpu_s, nlp.guaranteed_after_mgpu_s) == (0, 4_000 * 1_200)
    assert (nlp.borrowed_before_mgpu_s, nlp.borrowed_after_mgpu_s) == (4_000 * 900, 0)
    assert (vision.borrowed_before_mgpu_s, vision.borrowed_after_mgpu_s) == (
        4_000 * 600,
        4_000 * 300,
    )
    assert (vision.jobs_reclaimed, vision.at_risk_mgpu_s) == (1, 4_000 * 3_600)
    assert (vision.use_now_mgpu, vision.use_before_mgpu, vision.use_after_mgpu) == (4_000, 0, 0)
    assert (nlp.cost_before_nano, nlp.cost_after_nano) == (1_000_000_000, 2_666_666_667)
    assert found.currency == "EUR"


def test_a_lowered_guarantee_reclaims_nobody() -> None:
    company, _, _ = lent_out()
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    planned = draft_change(
        [(quota_of(company.inference).pk, QuotaEdit(guaranteed_mgpu=0, lend_limit_mgpu=None))],
        reason="x",
        apply_at=None,
        revert_after_s=None,
        actor=admin,
        now=NOW,
    )
    found = previewed(planned, admin)
    assert (found.reclaimed, found.spared, found.starts) == ([], [], [])


def test_what_the_rules_refuse_says_so_and_looks_no_further() -> None:
    company, _, _ = lent_out()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    found = previewed(raised(company, admin, gpus=5), admin)
    assert found.refusal == (
        "nlp would be guaranteed 5 GPUs, but research has 4 and guarantees 0 of them to its other "
        "teams; 4 are left."
    )
    assert (found.quotas, found.starts, found.teams) == ([], [], [])


def test_jobs_that_one_may_not_see_are_counted_and_not_named() -> None:
    """The lead of nlp sees nlp's jobs; of vision only the team's row, as everybody there does."""
    company, _, gains = lent_out()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    planned = draft_change(
        [(quota_of(company.nlp).pk, QuotaEdit(guaranteed_mgpu=4_000))],
        reason="please",
        apply_at=None,
        revert_after_s=None,
        actor=lead,
        now=NOW,
    )
    found = previewed(planned, lead)
    assert [one["job"] for one in found.starts] == [str(gains.pk)]
    assert found.reclaimed == []
    vision = next(one for one in found.teams if one.team.endswith("vision"))
    assert (vision.jobs_reclaimed, vision.cost_before_nano) == (1, None)
    assert [one["name"] for one in previewed(planned, admin).reclaimed] == ["lost"]


@pytest.mark.parametrize("beside", ["vision", "research"])
def test_a_lead_sees_what_a_draft_from_above_would_take_and_no_more_of_others(beside: str) -> None:
    """The administrator gives nlp what vision uses, and sets a weight of vision, or of the node
    above it. Vision's lead is told of its own job by name, and of nlp's by number; a lead elsewhere
    and a researcher of vision are told nothing, not even that there is a draft.

    Planted: none but who drafted it and who manages all that it sets; everybody who may see the
    tree.
    """
    company, lost, _ = lent_out()
    node = {"vision": company.vision, "research": company.research}[beside]
    planned = draft_change(
        [
            (quota_of(company.nlp).pk, QuotaEdit(guaranteed_mgpu=4_000)),
            (quota_of(node).pk, QuotaEdit(weight=50)),
        ],
        reason="conference",
        apply_at=None,
        revert_after_s=None,
        actor=an_actor(company.organization, Role.ORGANIZATION_ADMIN),
        now=NOW,
    )
    found = previewed(planned, an_actor(company.vision, Role.TEAM_LEAD))
    assert [one["job"] for one in found.reclaimed] == [str(lost.pk)]
    assert (found.starts, found.reclaimed[0]["beneficiary"]) == ([], None)
    nlp = next(one for one in found.teams if one.team.endswith("nlp"))
    assert (nlp.jobs_sooner, nlp.cost_before_nano) == (1, None)
    for stranger in (
        an_actor(company.inference, Role.TEAM_LEAD),
        an_actor(company.vision, Role.RESEARCHER),
    ):
        with pytest.raises(NotFound):
            previewed(planned, stranger)


def test_nothing_of_other_organizations_is_told() -> None:
    """A rival runs on what nobody is guaranteed; root gives it to research and on to nlp. The
    organization's administrator learns that nlp's job starts sooner, and not whose job ends.

    Planted: rows of all teams."""
    company, lost, _ = lent_out()
    Quota.objects.filter(node=company.organization).update(guaranteed_mgpu=4_000)
    Quota.objects.filter(node=company.research).update(guaranteed_mgpu=0)
    rival = a_company("rival-lab", nodes=0)
    Job.objects.filter(pk=lost.pk).update(
        team=rival.nlp,
        organization=rival.organization,
        user=a_user(rival.organization),
        priority_class=a_priority_class(rival.organization),
    )
    root = an_actor(None, Role.PLATFORM_ADMIN)
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    planned = draft_change(
        [
            (quota_of(company.organization).pk, QuotaEdit(guaranteed_mgpu=8_000)),
            (quota_of(company.research).pk, QuotaEdit(guaranteed_mgpu=4_000)),
            (quota_of(company.nlp).pk, QuotaEdit(guaranteed_mgpu=4_000)),
        ],
        reason="x",
        apply_at=None,
        revert_after_s=None,
        actor=root,
        now=NOW,
    )

    found, all_of_it = previewed(planned, admin), previewed(planned, root)

    assert [one["sooner_s"] for one in found.starts] == [300]
    assert (found.reclaimed, found.spared) == ([], [])
    assert [one.team for one in found.teams] == ["ai-company/research/nlp"]
    assert [one["team"] for one in all_of_it.reclaimed] == ["rival-lab/research/nlp"]
    assert [one["guaranteed_mgpu"] for one in all_of_it.pools] == [8_000]


def test_what_is_decided_has_no_preview() -> None:
    company, _, _ = lent_out()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    planned = raised(company, admin)
    apply_planned(planned.pk, if_match=etag_of_planned(planned), actor=admin, now=NOW)
    with pytest.raises(Conflict, match="This change is applied; only what is to come"):
        previewed(planned, admin)


def test_a_preview_over_rest_changes_nothing_and_carries_the_etag_to_apply_with() -> None:
    company, _, gains = lent_out()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    caller = by_token(admin.user)
    # Over REST the clock is the machine's, and a draft expires.
    planned = raised(company, admin, now=SystemClock().now())
    path = f"quota-changes/{planned.pk}"

    answer = caller.post(f"{path}/preview", {"horizon_s": 3_600})
    applied = caller.post(f"{path}/apply", None, if_match=answer.headers["ETag"])

    shown: dict[str, Any] = answer.json()
    assert (answer.status_code, shown["refusal"]) == (200, "")
    assert set(shown) == {
        "as_of",
        "until",
        "asked_until",
        "is_cut",
        "precision_s",
        "assumed_ends",
        "refusal",
        "quotas",
        "pools",
        "starts",
        "reclaimed",
        "spared",
        "teams",
        "currency",
    }
    assert applied.status_code == 200
    gains.refresh_from_db()
    assert gains.state == "queued"
    assert caller.post(f"{path}/preview", {"horizon_s": 299}).status_code == 400


def test_one_preview_is_worked_out_at_a_time() -> None:
    """A second one, on another connection, is told when to come back."""
    company, _, _ = lent_out()
    admin = an_actor(company.research, Role.DEPARTMENT_ADMIN)
    planned = raised(company, admin)
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [FUTURE.slots[0]])
        with pytest.raises(TooManyRequests) as refusal:
            previewed(planned, admin)
        cursor.execute("SELECT pg_advisory_unlock(%s)", [FUTURE.slots[0]])
    other.close()
    assert refusal.value.data["retry_after_s"] == 5
    assert previewed(planned, admin).refusal == ""

"""All routes of the API, and a world in which each of them has something to speak of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

from django.urls import URLPattern, URLResolver, get_resolver

from arbiter.api.plan import Plan
from arbiter.api.policy import Policy
from billing.reconciliation_models import Reconciliation
from builders.adjustment_builders import a_pending_adjustment, an_open_dispute
from builders.api_callers import FAR_AHEAD, Caller, a_token, as_nobody, with_secret
from builders.approval_builders import a_request
from builders.billing_builders import a_grant_of, a_rate_card, register_attempt, terms_of
from builders.budget_builders import a_default_budget, an_evaluated_budget
from builders.cast import Cast, a_cast
from builders.credit_builders import a_pending_transfer
from builders.export_builders import a_delivery, a_delivery_schedule, an_export
from builders.factor_builders import an_app
from builders.identity_builders import a_group_mapping, an_identity_provider
from builders.invitation_builders import an_invitation
from builders.job_builders import a_job, an_array
from builders.live_sockets import a_browser_session
from builders.maintenance_builders import a_window
from builders.notice_builders import a_notice, a_webhook, an_announcement
from builders.period_builders import (
    an_accounting_code,
    an_empty_closed_month,
    an_empty_statement,
)
from builders.portal_builders import NOW, Company, a_company, a_pool
from builders.schedule_builders import a_schedule, a_template
from builders.scim_builders import a_scim_token
from jobs.arbitration.recording import Recorder
from jobs.arbitration.snapshots import load_snapshot
from jobs.models import Cycle, SavedView
from quotas.models import (
    AcceptedDifference,
    ClusterUser,
    PlannedChange,
    PlannedEdit,
    Quota,
    QuotaPush,
    TimeLimit,
    UserCap,
)
from quotas.quota_store import values_of

#: Everybody who may call. research_admin administers the department of the team that
#: everything here belongs to (nlp), production_admin the department beside it; bob owns the job,
#: the token and the grant that are asked for; charlie administers another organization.
ACTORS = (
    "nobody",
    "root",
    "alice",
    "research_admin",
    "production_admin",
    "nlp_lead",
    "bob",
    "finance",
    "auditor",
    "service",
    "charlie",
)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class World:
    """What the requests speak of."""

    cast: Cast
    company: Company
    ids: dict[str, str]
    callers: dict[str, Caller]


def api_routes() -> dict[str, Any]:
    """Every route below /api/v1/ and its view."""
    routes: dict[str, Any] = {}

    def walk(patterns: Any, above: str) -> Iterator[None]:
        for pattern in patterns:
            route = above + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
            elif isinstance(pattern, URLPattern) and route.startswith("api/v1/"):
                routes[route.removeprefix("api/v1/")] = pattern.callback
                yield

    for _ in walk(get_resolver().url_patterns, ""):
        pass
    return routes


def methods_of(view: Any) -> set[str]:
    """The methods of METHODS that a class-based view answers."""
    return {method for method in METHODS if hasattr(view.view_class, method.lower())}


def a_world() -> World:
    """The small company with one thing of every kind, and a rival without any."""
    company = a_company("ai-company")
    a_pool("a10")
    for node in (company.organization, company.research):
        Quota.objects.create(node=node, pool=a_pool("a10"), guaranteed_mgpu=0)
    cast = a_cast(company)
    token, _ = a_token(cast.bob)
    card = a_rate_card(company.organization)
    push = QuotaPush.objects.create(
        cluster=company.cluster, kind="check", requested_at=NOW, requested_by=cast.bob
    )
    an_identity_provider(cast.organization, "http://127.0.0.1:9")
    last = datetime.now(UTC).date().replace(day=1) - timedelta(days=1)
    month = an_empty_closed_month(company.organization, last.replace(day=1))
    webhook = a_webhook(node=cast.nlp)
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    ids = {
        "organizations/node_id": cast.organization.pk,
        "organization_id": cast.organization.pk,
        "organization_slug": cast.organization.slug,
        "group-mappings/mapping_id": a_group_mapping(cast.nlp, "gpu-nlp").pk,
        "scim_token_id": a_scim_token(cast.organization, cast.alice)[0].pk,
        "month": f"{month.month:%Y-%m}",
        "code_id": an_accounting_code(company.nlp).pk,
        "statement_id": an_empty_statement(month).pk,
        "departments/node_id": cast.research.pk,
        "teams/node_id": cast.nlp.pk,
        "tree_node_id": cast.nlp.pk,
        "user_id": cast.bob.pk,
        "grant_id": cast.grant_of(cast.bob).pk,
        "invitation_id": an_invitation(cast.nlp, cast.nlp_lead).pk,
        "token_id": token.pk,
        "user_code": "WDJB-MJHT",
        "session_id": a_browser_session(cast.bob).pk,
        "factor_id": an_app(cast.bob, at=NOW).pk,
        "notice_id": a_notice(cast.bob).pk,
        "announcement_id": an_announcement(node=cast.nlp).pk,
        "maintenance_id": a_window(company.cluster, start=in_an_hour, hours=2).pk,
        "webhook_id": webhook.pk,
        "webhook_delivery_id": webhook.deliveries.create(
            event="job_failed",
            key="1",
            data={"sentence": "x", "link": "/", "node": "", "at": "", "deadline": None},
            state="failed",
            error="x",
            created_at=NOW,
            next_at=NOW,
            expires_at=NOW,
            ended_at=NOW,
        ).pk,
        "pool_id": company.pool.pk,
        "nodes/node_id": company.cluster.nodes.earliest("name").pk,
        "cluster_id": company.cluster.pk,
        "mapping_id": ClusterUser.objects.create(
            cluster=company.cluster, user=cast.bob, name="bob"
        ).pk,
        "class_id": cast.organization.priority_classes.earliest("name").pk,
        "limit_id": TimeLimit.objects.create(node=cast.nlp, longest_s=31_536_000).pk,
        "push_id": push.pk,
        "difference_id": AcceptedDifference.objects.create(
            cluster=company.cluster, subject="account nlp", setting="gpus", push=push
        ).pk,
        "quota_id": Quota.objects.get(node=cast.nlp, pool=company.pool).pk,
        "job_id": a_job(company, cast.bob).pk,
        "array_id": an_array(company, cast.bob).pk,
        "schedule_id": a_schedule(company, cast.bob).pk,
        "template_id": a_template(company).pk,
        "view_id": SavedView.objects.create(
            user=cast.bob, node=cast.nlp, name="big", parameters={}, created_at=NOW
        ).pk,
        "cycle_id": a_recorded_cycle().pk,
        "adjustment_id": a_pending_adjustment(company, cast.finance, FAR_AHEAD).pk,
        "dispute_id": an_open_dispute(
            company, register_attempt(a_grant_of(cast.nlp, user=cast.bob), now=NOW), cast.nlp_lead
        ).pk,
        "attempt": register_attempt(a_grant_of(cast.nlp, user=cast.bob), now=NOW).pk,
        "transfer_id": a_pending_transfer(company, cast.research_admin).pk,
        "card_id": card.pk,
        "cap_id": UserCap.objects.create(team=cast.nlp, cap_mgpu=8_000).pk,
        "budget_id": an_evaluated_budget(cast.nlp).pk,
        "default_id": a_default_budget(cast.research).pk,
        "line_id": card.lines.filter(end=None)[0].pk,
        "terms_id": terms_of(card, "showback").pk,
        "export_id": an_export(cast.nlp, cast.nlp_lead).pk,
        "delivery_schedule_id": (
            schedule := a_delivery_schedule(cast.organization, cast.finance)
        ).pk,
        "delivery_id": a_delivery(schedule).pk,
        "reconciliation_id": Reconciliation.objects.create(
            cluster=company.cluster, day=date(2026, 11, 20), status="pending"
        ).pk,
    }
    planned = PlannedChange.objects.create(
        node=cast.nlp,
        reason="because",
        created_by=cast.nlp_lead,
        created_at=NOW,
        expires_at=FAR_AHEAD,
    )
    PlannedEdit.objects.create(
        planned=planned,
        quota_id=ids["quota_id"],
        values={"borrow_limit_mgpu": 0},
        before=values_of(Quota.objects.get(pk=ids["quota_id"])),
    )
    ids["planned_id"] = planned.pk
    ids["number"] = "1"
    ids["request_id"] = a_request(company, cast.bob, expires_at=FAR_AHEAD).pk
    callers = {
        name: as_nobody() if name == "nobody" else with_secret(a_token(getattr(cast, name))[1])
        for name in ACTORS
    }
    return World(cast, company, {name: str(value) for name, value in ids.items()}, callers)


def path_of(route: str, world: World) -> str:
    """The route with the ids of the world in it."""
    resource = route.partition("/")[0]
    steps = []
    for step in route.split("/"):
        if step.startswith("<"):
            name = step.strip("<>").partition(":")[2]
            steps.append(world.ids.get(f"{resource}/{name}") or world.ids[name])
        else:
            steps.append(step)
    return "/".join(steps)


def a_recorded_cycle() -> Cycle:
    """A record of a cycle that gave up a claim on which nobody had waited."""
    snapshot = load_snapshot(NOW)
    plan = Plan(snapshot.taken_at, dropped_claims=(str(uuid4()),))
    Recorder().record(snapshot, Policy(), plan, epoch=1, now=NOW)
    return Cycle.objects.get()

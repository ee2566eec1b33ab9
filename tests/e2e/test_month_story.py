"""A month of the company: lending, a burst, a budget, a fault, the close, and a correction.

The jobs of production's first week are those of a real trace. Arbiter, observer, meter, credit
bank, budgets, reconciliation and periods are the product's own. The clock is moved, and clusters in
memory end each job after its time of the trace.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from playwright.sync_api import Browser, Page, expect

from bank.models import CreditBank, CreditPool
from billing.models import UsageSegment
from builders.accelerated_month import AcceleratedMonth, a_toy_cluster
from builders.api_callers import Caller, by_session
from builders.app_server import serving
from builders.billing_builders import a_rate_card
from builders.budget_builders import GPU_HOUR, a_budget
from builders.clocks import ClockAt
from builders.loop_builders import LoopOn
from builders.pictures import WIDTH, take
from builders.portal_builders import (
    a_cluster,
    a_department,
    a_grant,
    a_pool,
    a_priority_class,
    a_quota,
    a_team,
    a_user,
    an_organization,
)
from builders.web_pages import show
from clusters.models import Pool
from connectors.registry import KINDS
from jobs.actions.checkpoints import record_checkpoint
from jobs.models import Job
from ledger.accounts import accounts_of
from primitives.clock import SystemClock
from quotas.models import OrganizationPolicy
from tenants.models import Node, User
from tenants.roles import Role
from toy_kind import connector as toy_kind
from toy_kind.account import open_account
from toy_kind.connector import CLUSTERS, ToyCluster
from toy_kind.kind import TOY

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    # WhiteNoise sends the pages' files so.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning"),
]

TRACE = Path(__file__).with_name("traces") / "philly_four_days.csv"
NEW_YORK = ZoneInfo("America/New_York")
HOUR = timedelta(hours=1)
SETTLED_EVERY = 6 * HOUR
WITHIN_MS = 30_000
PASSWORD = "a password of the story"
NLP = "ai-company/research/nlp"
SMALL_TEAMS = {"vision", "ranking"}
REASON = "The edge is cut off since the 28th; its news will follow."


def local(day: int, hour: int = 0, minute: int = 0, month: int = 11) -> datetime:
    """A moment of New York's clock in 2026, in UTC."""
    return datetime(2026, month, day, hour, minute, tzinfo=NEW_YORK).astimezone(UTC)


FIRST, DECEMBER = local(1), local(1, month=12)
MONDAY, FRIDAY = local(2), local(6, 9)


@dataclass
class Company:
    """The teams, their people, the loops on two clusters, and what chapters hand on."""

    month: AcceleratedMonth
    organization: Node
    teams: dict[str, Node]
    people: dict[str, User]
    pools: dict[str, Pool]
    browser: Browser
    address: str
    too_much: Job = field(init=False)
    camera: Job = field(init=False)
    edge: ToyCluster = field(init=False)
    november: dict[str, bytes] = field(default_factory=dict)

    def submit(
        self, team: str, name: str, *, gpus: int, lasts: timedelta, pool: str = "h100"
    ) -> Job:
        """Submit a job of a team now."""
        return self.month.submit(
            self.teams[team],
            self.people["rosa"],
            self.pools[pool],
            name,
            gpus=gpus,
            lasts=lasts,
        )

    def credits(self) -> dict[str, int]:
        """The balances of the H100, in millionths of a GPU-second, with the account POOL."""
        credit_pool = CreditPool.objects.get(pool=self.pools["h100"])
        names = {str(team.pk): slug for slug, team in self.teams.items()}
        return {
            names.get(one.owner, one.owner): one.balance for one in accounts_of(credit_pool.ledger)
        }

    def explanation(self, job: Job) -> Any:
        """The explanation of a waiting job, as a researcher reads it."""
        return self.caller("rosa").get(f"jobs/{job.pk}/explanation").json()

    def why(self, job: Job) -> str:
        """The code of the reason for which a job waits."""
        return str(self.explanation(job)["code"])

    def running_mgpu(self, job: Job) -> int:
        """The milli-GPU that a job holds now."""
        return sum(job.attempts.filter(state="running").values_list("mgpu", flat=True))

    def next_start(self, job: Job, after: datetime) -> datetime:
        """When its first attempt after that moment began."""
        started = job.attempts.filter(started_at__gte=after).earliest("number").started_at
        assert started is not None
        return started

    def files_of_november(self) -> dict[str, bytes]:
        """November's charges, and the files of the statement of production."""
        fiona = self.caller("fiona")
        month = fiona.get(f"{self.periods}/2026-11")
        statements = fiona.get(f"{self.periods}/2026-11/statements").json()["items"]
        (statement,) = [each for each in statements if each["unit"] == "ai-company/production"]
        files = {
            ending: fiona.get(f"statements/{statement['id']}/{ending}")
            for ending in ("pdf", "html")
        }
        return {"charges": month.content} | {
            ending: b"".join(answer) if answer.streaming else answer.content
            for ending, answer in files.items()
        }

    def charges(self, month: Any) -> dict[tuple[str, str, str, bool], int]:
        """The milli-GPU-seconds of a closed month, by team, pool, class, and for corrections."""
        return {
            (
                each["team"].rpartition("/")[2],
                each["pool"],
                each["usage_class"],
                each["is_correction"],
            ): each["mgpu_s"]
            for each in month["charges"]
        }

    @property
    def periods(self) -> str:
        """The path of its months."""
        return f"organizations/{self.organization.pk}/periods"

    def caller(self, login: str) -> Caller:
        """A person's browser session against the REST API."""
        return by_session(self.people[login])


@pytest.fixture(scope="module", autouse=True)
def _beside_a_browser() -> Iterator[None]:
    """Playwright keeps an event loop in this thread, where Django would refuse its database."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        yield


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[str]:
    """The application, with the built pages."""
    settings.WHITENOISE_USE_FINDERS = True
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    with serving() as address:
        yield address


@pytest.fixture
def company(
    monkeypatch: pytest.MonkeyPatch, settings: Any, browser: Browser, address: str
) -> Iterator[Company]:
    """64 H100 in a data centre and 8 L40S at the edge; 8 of the H100 are guaranteed to nobody."""
    settings.CREDITS_SETTLED_EVERY_S = int(SETTLED_EVERY.total_seconds())
    clock = ClockAt(FIRST)
    monkeypatch.setattr(SystemClock, "now", lambda self: clock.time)
    monkeypatch.setattr(toy_kind, "now_s", lambda: int(clock.time.timestamp()))
    monkeypatch.setitem(KINDS, TOY.name, replace(TOY, open_account=open_account))
    organization = an_organization("ai-company")
    OrganizationPolicy.objects.create(organization=organization, time_zone=NEW_YORK.key)
    a_priority_class(organization)
    pools = {name: a_pool(name) for name in ("h100", "l40s")}
    research = a_department(organization, "research")
    production = a_department(organization, "production")
    teams = {slug: a_team(research, slug) for slug in ("nlp", "vision")}
    teams |= {slug: a_team(production, slug) for slug in ("inference", "ranking")}
    for node, h100, l40s in (
        (organization, 64, 8),
        (research, 32, 0),
        (production, 24, 8),
        (teams["nlp"], 24, 0),
        (teams["vision"], 8, 0),
        (teams["inference"], 16, 0),
        (teams["ranking"], 8, 8),
    ):
        a_quota(node, pools["h100"], h100)
        a_quota(node, pools["l40s"], l40s)
    for pool in pools.values():
        a_rate_card(organization, pool=pool, currency="USD")
    CreditBank.objects.create(organization=organization, is_on=True, switched_at=FIRST)
    people = {
        name: a_user(organization, name, password=PASSWORD) for name in ("fiona", "rosa", "leo")
    }
    a_grant(people["fiona"], Role.FINANCE, organization)
    a_grant(people["rosa"], Role.RESEARCHER, organization)
    a_grant(people["leo"], Role.TEAM_LEAD, teams["nlp"])
    places = {"center": ("h100", 8), "edge": ("l40s", 1)}
    for name, (pool, nodes) in places.items():
        a_toy_cluster(a_cluster(name), pools[pool], nodes=nodes, kind=TOY.name)
    loops = {name: LoopOn(a_cluster(name)) for name in places}
    for loop in loops.values():
        loop.clock = clock  # type: ignore[assignment]
    month = AcceleratedMonth(clock, loops, SETTLED_EVERY)
    month.settle_from(FIRST)
    month.reconcile_from(FIRST)
    yield Company(month, organization, teams, people, pools, browser, address)
    for name in places:
        CLUSTERS.pop(name, None)


def of_the_trace() -> Iterator[tuple[timedelta, timedelta, int]]:
    """Submission after Monday's midnight, run time and GPUs of each job of the trace."""
    with TRACE.open() as rows:
        for row in csv.DictReader(rows):
            yield (
                timedelta(seconds=int(row["submit_s"])),
                timedelta(seconds=int(row["duration_s"])),
                int(row["gpus"]),
            )


@contextmanager
def seen_by(company: Company, login: str) -> Iterator[Page]:
    """A page of the person, at the company's moment. No script on it may fail."""
    context = company.browser.new_context(
        viewport={"width": WIDTH, "height": 900},
        timezone_id=NEW_YORK.key,
        color_scheme="light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(WITHIN_MS)
    context.clock.set_fixed_time(company.month.now)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(company.address)
    page.get_by_label("Login").fill(f"{login}@ai-company")
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("^Hello"))).to_be_visible()
    yield page
    context.close()
    assert errors == []


def test_a_month_from_lending_to_its_correction(company: Company) -> None:
    """Each chapter goes on where the one before it ended."""
    production_works_and_research_lends(company)
    the_burst_of_friday_goes_first(company)
    a_team_uses_up_its_budget(company)
    a_node_fails(company)
    finance_closes_november(company)
    late_news_is_corrected_in_december(company)


def production_works_and_research_lends(company: Company) -> None:
    """The trace's jobs hold up to 64 GPUs, where their team is guaranteed 16."""
    month = company.month
    for number, (after, lasts, gpus) in enumerate(of_the_trace()):
        month.at(
            MONDAY + after,
            partial(company.submit, "inference", f"serve-{number}", gpus=gpus, lasts=lasts),
        )
    month.run_until(local(6, 8))
    credits = company.credits()
    assert sum(credits.values()) == 0
    # Lenders earn by their guarantee, 24 to 8 to 8, because all of them lent all the time.
    assert credits["nlp"] == 3 * credits["vision"] == 3 * credits["ranking"] > 0
    assert credits["inference"] == -7_248_060_000_000


def the_burst_of_friday_goes_first(company: Company) -> None:
    """Research's burst is served before production's jobs that were submitted an hour earlier."""
    month = company.month
    late = [company.submit("inference", f"late-{n}", gpus=8, lasts=4 * HOUR) for n in range(4)]
    burst: list[Job] = []
    month.at(
        FRIDAY,
        lambda: burst.extend(
            company.submit("nlp", f"pretrain-{n}", gpus=8, lasts=30 * HOUR) for n in range(5)
        ),
    )
    month.run_until(FRIDAY + timedelta(minutes=10))
    # Three of them are nlp's guarantee; the fourth borrows.
    assert [company.running_mgpu(job) for job in burst] == [8_000, 8_000, 8_000, 8_000, 0]
    assert {company.why(job) for job in late} == {"behind_credits"}
    with seen_by(company, "rosa") as page:
        show(page, f"{company.address}/jobs/{late[3].pk}")
        expect(page.get_by_role("main")).to_contain_text("more credits")
    month.run_until(local(9))
    first, *others = (company.next_start(job, FRIDAY) for job in (burst[4], *late))
    assert first < min(others)

    with seen_by(company, "leo") as page:
        show(page, f"{company.address}/credits?team={NLP}&pool=h100&month=2026-11")
        main = page.get_by_role("main")
        for told in (
            "nlp goes before inference for spare GPUs",
            "opening 0 + earned 1,492.6 − paid 297.7 = 1,194.9 GPU-h ✓ exact",
            "borrowed by pretrain-3 121.3, pretrain-4 17.7",
        ):
            expect(main).to_contain_text(told)
        take(page, "credits")


def a_team_uses_up_its_budget(company: Company) -> None:
    month = company.month
    a_budget(company.teams["vision"], 100, name="November", created_at=month.now)
    month.run_until(local(9, 9))
    company.submit("vision", "augment", gpus=8, lasts=10 * HOUR)
    month.run_until(local(9, 19, 30))
    assert Job.objects.get(name="augment").state == "succeeded"
    company.too_much = company.submit("vision", "segment", gpus=8, lasts=4 * HOUR)
    month.run_until(local(9, 19, 40))
    told = company.explanation(company.too_much)
    assert (told["code"], told["sentence"]) == (
        "budget_exhausted",
        "Budget November of ai-company/research/vision has less left than this job may use. A "
        "shorter time limit or fewer GPUs may fit. It has room again at 2026-12-01 05:00 UTC at "
        "the latest.",
    )
    with seen_by(company, "fiona") as page:
        show(page, f"{company.address}/budgets")
        main = page.get_by_role("main")
        expect(main).to_contain_text("November")
        expect(main).to_contain_text("ai-company/research/vision")
        take(page, "budgets")


def a_node_fails(company: Company) -> None:
    """The 90 minutes since the last checkpoint cost nothing."""
    month = company.month
    month.run_until(local(10, 8))
    job = company.submit("ranking", "rerank", gpus=8, lasts=5 * HOUR)
    month.run_until(local(10, 10))
    record_checkpoint(job.pk, attempt=None, at=None, now=month.now)
    month.at(local(10, 11, 30), partial(month.fail_node_of, job))
    month.run_until(local(10, 20))
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == ("succeeded", 2)
    assert [
        (segment.start, segment.end, segment.fault)
        for segment in UsageSegment.objects.filter(attempt__job_id=job.pk).order_by("start")
    ] == [
        (local(10, 8), local(10, 10), ""),
        (local(10, 10), local(10, 11, 30), "node_failed"),
        (local(10, 11, 30), local(10, 16, 30), ""),
    ]


def finance_closes_november(company: Company) -> None:
    """The edge is cut off since the 28th, so that closing needs a reason."""
    month, fiona = company.month, company.caller("fiona")
    month.run_until(local(28, 8))
    company.camera = company.submit("ranking", "camera", gpus=8, lasts=30 * HOUR, pool="l40s")
    month.run_until(local(28, 12))
    assert company.running_mgpu(company.camera) == 8_000
    company.edge = CLUSTERS.pop("edge")
    month.at(DECEMBER + timedelta(minutes=10))
    month.run_until(local(4, 6, month=12))
    # The budget has room again in December.
    company.too_much.refresh_from_db()
    assert company.too_much.state == "succeeded"
    refused = fiona.post(f"{company.periods}/2026-11/close", {})
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "4 days are not confirmed by their clusters, the first is 2026-11-28 of edge. Acknowledge "
        "them, or give a reason.",
    )
    with seen_by(company, "fiona") as page:
        show(page, f"{company.address}/periods?month=2026-11")
        page.get_by_role("button", name="Close anyway…").click()
        page.get_by_label("Reason").fill(REASON)
        page.get_by_role("button", name="Close month", exact=True).click()
        page.get_by_role("button", name="Issue…").click()
        page.get_by_label("Terms").fill("30 days net")
        page.get_by_role("button", name="Issue statements").click()
        statements = page.get_by_role("table", name="Statements")
        for number in ("2026-00001", "2026-00002"):
            expect(statements).to_contain_text(number)
        take(page, "month-closed")
    closed = fiona.get(f"{company.periods}/2026-11")
    charges = company.charges(closed.json())
    assert {key: mgpu_s / GPU_HOUR for key, mgpu_s in charges.items() if key[0] in SMALL_TEAMS} == {
        ("vision", "h100", "guaranteed", False): 80,
        ("ranking", "h100", "guaranteed", False): 8 * 2 + 8 * 5,
        ("ranking", "h100", "fault", False): 8 * 1.5,
        ("ranking", "l40s", "guaranteed", False): 8 * 64,
    }
    company.november = company.files_of_november()
    assert company.november["pdf"].startswith(b"%PDF-")


def late_news_is_corrected_in_december(company: Company) -> None:
    """The job at the edge had ended on the 29th, which November did not know."""
    month, fiona = company.month, company.caller("fiona")
    CLUSTERS["edge"] = company.edge
    month.run_until(local(6, month=12))
    company.camera.refresh_from_db()
    assert company.camera.state == "succeeded"
    month.run_until(datetime(2027, 1, 4, 12, tzinfo=UTC))
    closed = fiona.post(f"{company.periods}/2026-12/close", {})
    assert closed.status_code == 200
    assert company.charges(closed.json()) == {
        ("vision", "h100", "guaranteed", False): 8 * 4 * GPU_HOUR,
        # It had ended after 30 hours, and 34 were charged.
        ("ranking", "l40s", "guaranteed", True): -8 * 34 * GPU_HOUR,
    }
    # Not one byte of November's charges and statements is another one.
    assert company.files_of_november() == company.november

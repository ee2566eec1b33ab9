"""The pictures of the guide: each task of a role up to the moment that the guide shows.

`make pictures` writes them anew. Other runs do the same tasks and write nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from builders.installation import Tidegate, settle
from builders.pictures import WIDTH, take

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

WITHIN_MS = 30_000
#: Runs until it is killed, so that reclaim takes the whole grace period.
SERVE = "trap '' TERM\necho serving\nwhile :; do sleep 1; done"
TRAIN = """for step in 100 200 300 400 500; do
  echo "step $step  loss 2.$((940 - step))  8 GPUs  41,300 tokens/s"
done
sleep 3600
"""
INFERENCE, VISION, NLP = (
    "ai-company/production/inference",
    "ai-company/research/vision",
    "ai-company/research/nlp",
)


@pytest.fixture(scope="module")
def company(tidegate: Tidegate) -> dict[str, str]:
    """Ids of jobs by name: production borrows, and research takes back."""
    olga, leo, ana = map(tidegate.caller, ("olga@ai-company", "leo@ai-company", "ana@ai-company"))
    busy = [
        olga.submit(
            "ai-company/exploration/sandbox", nodes=25, gpus=8, script=SERVE, name="ablation-grid"
        ),
        olga.submit(VISION, nodes=12, gpus=8, script=SERVE, name="segment-video"),
        ana.submit(NLP, nodes=1, gpus=8, script=TRAIN, name="finetune-7b"),
        *(
            olga.submit(INFERENCE, nodes=20, gpus=8, script=SERVE, name=f"serve-chat-{n}")
            for n in range(1, 5)
        ),
    ]
    for job in busy:
        olga.until(job["id"], "running")
    wanted = leo.submit(NLP, nodes=24, gpus=8, script="sleep 600", name="pretrain-13b")
    settle(lambda: leo.get(f"/jobs/{wanted['id']}/explanation")["code"] == "waiting_for_reclaim")
    return {job["name"]: job["id"] for job in (*busy, wanted)}


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh browser profile; an error in the page's own code fails the test."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": 900},
        timezone_id="UTC",
        color_scheme="light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(WITHIN_MS)
    expect.set_options(timeout=WITHIN_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


def sign_in(page: Page, tidegate: Tidegate, login: str, path: str) -> None:
    persona = tidegate.personas[login]
    page.goto(f"{tidegate.address}{path}")
    page.get_by_label("Login").fill(persona.login)
    page.get_by_role("textbox", name="Password").fill(persona.password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Sign in")).to_have_count(0)
    page.goto(f"{tidegate.address}{path}")
    page.locator("main h1").first.wait_for()
    expect(page.locator("main .mantine-Skeleton-root")).to_have_count(0)


@pytest.mark.usefixtures("company")
def test_a_researcher_sees_the_plan_before_submitting(tidegate: Tidegate, page: Page) -> None:
    sign_in(page, tidegate, "ana@ai-company", "/submit")
    expect(page.get_by_role("combobox", name="Team")).to_have_value(NLP)
    page.get_by_label("Name", exact=True).fill("evaluate-7b")
    page.get_by_role("textbox", name="GPUs in total").fill("16")
    page.get_by_role("textbox", name="Script", exact=True).fill(
        "#!/bin/bash\npython evaluate.py --model finetune-7b\n"
    )
    plan = page.get_by_role("region", name="What would happen")
    expect(plan).to_contain_text("16 GPUs of h100")
    take(page, "submit")


def test_a_researcher_reads_why_a_job_waits(
    tidegate: Tidegate, page: Page, company: dict[str, str]
) -> None:
    sign_in(page, tidegate, "leo@ai-company", f"/jobs/{company['pretrain-13b']}")
    expect(page.get_by_text("being reclaimed").first).to_be_visible()
    take(page, "job-waits")


def test_a_researcher_reads_the_log(
    tidegate: Tidegate, page: Page, company: dict[str, str]
) -> None:
    sign_in(page, tidegate, "ana@ai-company", f"/jobs/{company['finetune-7b']}")
    expect(page.get_by_role("log")).to_contain_text("step 500")
    take(page, "job-log")


@pytest.mark.usefixtures("company")
def test_a_lead_sees_the_quota_tree(tidegate: Tidegate, page: Page) -> None:
    sign_in(page, tidegate, "olga@ai-company", "/quotas")
    row = page.get_by_role("row").filter(has=page.get_by_text("Production", exact=True))
    expect(row).to_contain_text("borrowed")
    take(page, "quotas")


@pytest.mark.usefixtures("company")
def test_a_lead_previews_a_change_of_the_quota(tidegate: Tidegate, page: Page) -> None:
    sign_in(page, tidegate, "leo@ai-company", "/quotas")
    page.get_by_role("link", name="NLP", exact=True).click()
    drawer = page.get_by_role("dialog")
    drawer.get_by_label("Lend limit").fill("150")
    drawer.get_by_label("Reason").fill("50 GPUs stay ready for the demo on Friday")
    drawer.get_by_role("button", name="Preview and save").click()
    expect(page.get_by_role("region", name="Preview").get_by_role("status")).to_be_visible()
    expect(page.locator("main .mantine-Skeleton-root")).to_have_count(0)
    take(page, "quota-preview")


@pytest.mark.usefixtures("company")
def test_a_lead_manages_members_and_looks_back(tidegate: Tidegate, page: Page) -> None:
    teams = tidegate.caller("leo@ai-company").get("/teams")["items"]
    (team,) = (each["id"] for each in teams if each["path"] == NLP)
    sign_in(page, tidegate, "leo@ai-company", f"/tree/{team}/members")
    expect(page.get_by_role("row").filter(has_text="Ana Petrova").first).to_be_visible()
    take(page, "members")
    page.goto(f"{tidegate.address}/tree/{team}/history?period=day")
    expect(page.locator("main canvas").first).to_be_visible()
    take(page, "history")


@pytest.mark.usefixtures("company")
def test_a_lead_lends_what_another_team_asks_for(tidegate: Tidegate, page: Page) -> None:
    ana = tidegate.caller("ana@ai-company")
    body = {
        "kind": "guarantee",
        "node": NLP,
        "pool": "h100",
        "amount": 16_000,
        "until": (datetime.now(UTC) + timedelta(days=4)).strftime("%Y-%m-%dT18:00:00Z"),
        "reason": "The evaluation for the review on Friday needs 16 more GPUs.",
    }
    asked = ana.post("/requests", body, **{"Idempotency-Key": "picture"})
    sign_in(page, tidegate, "olga@ai-company", f"/requests?view=all&request={asked['id']}")
    expect(page.get_by_text("The evaluation for the review").first).to_be_visible()
    take(page, "request")


def test_an_administrator_adds_a_cluster(tidegate: Tidegate, page: Page) -> None:
    sign_in(page, tidegate, "admin", "/add-cluster?kind=slurm")
    page.get_by_role("textbox", name="Name", exact=True).fill("hpc")
    for label, text in (
        ("Address of slurmrestd", "http://slurm-head:6820"),
        ("Service user", "tidegate"),
        ("Socket of the minter", "/run/tidegate/minter.sock"),
        ("File with the tag secret", "/etc/tidegate/slurm-tag-secret"),
        ("Pool", "h100"),
        ("Partition", "gpu"),
        ("GPU type", "h100"),
    ):
        page.get_by_role("textbox", name=label, exact=True).fill(text)
    take(page, "add-cluster")


def test_an_administrator_lets_people_in(tidegate: Tidegate, page: Page) -> None:
    sign_in(page, tidegate, "olga@ai-company", "/people")
    expect(page.get_by_text("Ana Petrova").first).to_be_visible()
    take(page, "people")


@pytest.mark.usefixtures("company")
def test_finance_reads_the_bill(tidegate: Tidegate, page: Page) -> None:
    # Two days, so that it may be past midnight.
    first = datetime.now(UTC).date()
    period = f"start={first}T00:00:00Z&end={first + timedelta(days=2)}T00:00:00Z"
    sign_in(page, tidegate, "fiona@ai-company", f"/chargeback?period=custom&{period}")
    table = page.get_by_role("table", name=re.compile("^Use and cost by"))
    expect(table.get_by_role("row").filter(has_text="inference")).to_be_visible()
    take(page, "chargeback")

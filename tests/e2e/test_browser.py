"""What each role does, in a real browser: submit, watch, read, cancel, change a quota, see costs,
and the page that says who gives back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from builders.installation import Tidegate, settle

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

WITHIN_MS = 30_000
FOREVER = "trap 'exit 0' TERM\necho serving\nwhile :; do sleep 0.2; done"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh browser profile; an error in the page's own code fails the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(WITHIN_MS)
    expect.set_options(timeout=WITHIN_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


def sign_in(page: Page, tidegate: Tidegate, login: str) -> None:
    persona = tidegate.personas[login]
    page.goto(f"{tidegate.address}/")
    page.get_by_label("Login").fill(persona.login)
    page.get_by_role("textbox", name="Password").fill(persona.password)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name=re.compile("^Hello"))).to_be_visible()


def test_a_researcher_submits_watches_reads_and_cancels(tidegate: Tidegate, page: Page) -> None:
    sign_in(page, tidegate, "ana@ai-company")
    page.goto(f"{tidegate.address}/submit")
    # Ana's only team is chosen already.
    expect(page.get_by_role("combobox", name="Team")).to_have_value("ai-company/research/nlp")
    page.get_by_label("Name", exact=True).fill("from-the-form")
    page.get_by_role("textbox", name="GPUs in total").fill("8")
    page.get_by_role("textbox", name="Script", exact=True).fill(
        "echo hello from the form; sleep 600"
    )
    page.get_by_role("button", name="Submit", exact=True).click()
    heading = page.get_by_role("heading", name="from-the-form")
    expect(heading).to_be_visible()
    # The state changes without a reload; the log is read while the job runs.
    expect(page.get_by_text("running", exact=True).first).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("hello from the form")
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("button", name="Cancel it").click()
    expect(page.get_by_text("cancelled", exact=True).first).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("hello from the form")
    page.get_by_role("tab", name="Timeline").click()
    expect(page.get_by_text("cancel requested")).to_be_visible()


def test_an_sbatch_script_is_read_line_by_line(tidegate: Tidegate, page: Page) -> None:
    sign_in(page, tidegate, "ana@ai-company")
    page.goto(f"{tidegate.address}/submit?door=sbatch")
    # Ana's only team is chosen already.
    expect(page.get_by_role("combobox", name="Team")).to_have_value("ai-company/research/nlp")
    page.get_by_role("textbox", name="sbatch script or manifest").fill(
        "#!/bin/bash\n#SBATCH --job-name=from-sbatch\n#SBATCH --gpus=2\n#SBATCH --mail-type=END\n"
        "echo $TIDEGATE_GPUS_PER_NODE\n"
    )
    notes = page.get_by_role("region", name="What was read from the script")
    expect(notes).to_contain_text("--gpus=2")
    expect(notes).to_contain_text("ignored")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="from-sbatch")).to_be_visible()
    expect(page.get_by_text("succeeded", exact=True).first).to_be_visible()


def test_research_takes_back_what_production_borrowed(tidegate: Tidegate, page: Page) -> None:
    admin = tidegate.caller("olga@ai-company")
    gangs = [
        admin.submit("ai-company/production/inference", nodes=25, gpus=8, script=FOREVER)
        for _ in range(5)
    ]
    for gang in gangs:
        admin.until(gang["id"], "running")
    sign_in(page, tidegate, "leo@ai-company")
    page.goto(f"{tidegate.address}/quotas")
    row = page.get_by_role("row").filter(has=page.get_by_text("Production", exact=True))
    expect(row).to_contain_text("600 borrowed")
    wanted = tidegate.caller("leo@ai-company").submit(
        "ai-company/research/nlp", nodes=25, gpus=8, script="sleep 2", name="pretrain"
    )
    page.goto(f"{tidegate.address}/jobs/{wanted['id']}")
    expect(page.get_by_text("succeeded", exact=True).first).to_be_visible()
    page.get_by_role("tab", name="Timeline").click()
    expect(page.get_by_text("reclaim started")).to_be_visible()
    for gang in gangs:
        admin.until(gang["id"], "running")
    assert sorted(admin.job(gang["id"])["attempt"] for gang in gangs) == [1, 1, 1, 1, 2]
    for gang in gangs:
        admin.post(f"/jobs/{gang['id']}/cancel")
        admin.until(gang["id"], "cancelled")


def test_a_lead_sets_the_lend_limit_of_the_team(tidegate: Tidegate, page: Page) -> None:
    sign_in(page, tidegate, "leo@ai-company")
    page.goto(f"{tidegate.address}/quotas")
    change_lend_limit(page, "150", "50 GPUs stay ready for the demo")
    lead = tidegate.caller("leo@ai-company")

    def limit() -> int | None:
        (quota,) = lead.get("/quotas", node="ai-company/research/nlp", pool="h100")["items"]
        return quota["lend_limit_mgpu"]

    assert settle(limit) == 150_000
    page.get_by_role("link", name="NLP", exact=True).click()
    history = page.get_by_role("region", name="History of changes")
    expect(history).to_contain_text("50 GPUs stay ready for the demo")
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    change_lend_limit(page, "", "The demo is over")
    settle(lambda: limit() is None)


def change_lend_limit(page: Page, gpus: str, reason: str) -> None:
    page.get_by_role("link", name="NLP", exact=True).click()
    page.get_by_label("Lend limit").fill(gpus)
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name="Save without preview").click()
    # The drawer closes when the change is stored.
    expect(page.get_by_label("Lend limit")).to_be_hidden()


def test_finance_sees_what_each_team_used_and_the_jobs_behind_it(
    tidegate: Tidegate, page: Page
) -> None:
    admin = tidegate.caller("olga@ai-company")
    # Of two days, so that it may be over after midnight.
    first = datetime.now(UTC).date()
    job = admin.submit(
        "ai-company/research/vision", nodes=1, gpus=8, script="sleep 4", name="billed"
    )
    admin.until(job["id"], "succeeded")
    sign_in(page, tidegate, "fiona@ai-company")
    period = f"start={first}T00:00:00Z&end={first + timedelta(days=2)}T00:00:00Z"
    page.goto(f"{tidegate.address}/chargeback?period=custom&{period}")
    table = page.get_by_role("table", name=re.compile("^Use and cost by"))
    row = table.get_by_role("row").filter(has_text="vision")
    expect(row).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name=re.compile("CSV")).click()
    text = download.value.path().read_text()
    assert "ai-company/research/vision" in text or ",vision," in text
    row.get_by_role("link").first.click()
    expect(page.get_by_text("billed")).to_be_visible()


def test_an_array_is_submitted_counted_and_cancelled_whole(tidegate: Tidegate, page: Page) -> None:
    sign_in(page, tidegate, "ana@ai-company")
    page.goto(f"{tidegate.address}/submit")
    expect(page.get_by_role("combobox", name="Team")).to_have_value("ai-company/research/nlp")
    page.get_by_label("Name", exact=True).fill("sweep")
    page.get_by_role("textbox", name="Script", exact=True).fill(
        "echo task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT; sleep 600"
    )
    page.get_by_role("button", name="More options").click()
    page.get_by_label("Array", exact=True).fill("0-9%3")
    expect(page.get_by_text("10 tasks", exact=True)).to_be_visible()
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_role("heading", name="sweep[0]")).to_be_visible()
    expect(page.get_by_role("log")).to_contain_text("task 0 of 10")
    card = page.get_by_role("region", name="Array")
    expect(card).to_contain_text("Index 0 · 10 tasks, at most 3 at once")
    expect(card.get_by_role("link", name="3 running")).to_be_visible()
    tasks = tidegate.caller("ana@ai-company").get("/jobs", q="sweep", sort="submitted_at")["items"]
    after = tidegate.caller("ana@ai-company").submit(
        "ai-company/research/nlp",
        nodes=1,
        gpus=1,
        script="true",
        name="collect",
        depends_on=[
            {"array": tasks[0]["array"]["id"], "condition": "succeeded"},
            {"job": tasks[1]["id"], "condition": "ended"},
        ],
    )
    page.goto(f"{tidegate.address}/jobs/{tasks[9]['id']}")
    expect(page.get_by_text("At most 3 tasks run at once in its array; 3 run now.")).to_be_visible()
    page.goto(f"{tidegate.address}/jobs/{after['id']}")
    waits = page.get_by_role("region", name="Starts after")
    expect(waits.get_by_role("link", name="array sweep")).to_be_visible()
    expect(page.get_by_text("waiting for another job").first).to_be_visible()
    waits.get_by_role("link", name="array sweep").click()
    rows = page.get_by_role("table", name="Jobs, newest first").get_by_role("row")
    expect(rows).to_have_count(11)
    page.get_by_role("region", name="Array").get_by_role("button", name="Cancel all").click()
    page.get_by_role("button", name="Cancel them").click()
    expect(page.get_by_role("region", name="Array").get_by_text("10 cancelled")).to_be_visible()
    page.goto(f"{tidegate.address}/jobs/{after['id']}")
    expect(page.get_by_text("Cancelled", exact=False).first).to_be_visible()
    expect(page.get_by_text("dependency never met").first).to_be_visible()

"""A torchrun file in the browser: dropped on the page, preempted, and gone on with.

The file is one that people have for Slurm, and is not edited. What it names lies in the home of
the person, as on a cluster of their own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from builders.connector_builders import eventually
from builders.installation import Tidegate
from builders.lab import BORROWER, POOL, take_back
from builders.submit_page import chromium, drop, signed_in, submitted

IVAN = "ivan@ai-company"
FILE = Path(__file__).with_name("own_files") / "ddp.sbatch"
#: What the page says of the file, with the plan.
_READ = ("--partition=lab", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=1", "--requeue")
#: Folder for pictures of the page; none are taken without it.
_SHOTS = os.environ.get("SHOTS")


def try_in_browser(tidegate: Tidegate, libraries: Path, shared: Path, within_s: float) -> bool:
    """Drop the file on the page and take its GPUs back. Return whether it went on as it should."""
    print(f"== {FILE.name}, in the browser", flush=True)
    borrower = tidegate.caller(IVAN)
    try:
        home = f"ln -sfn {libraries} ~/venv && cp {shared}/train_dcp.py ~/"
        given = borrower.submit(BORROWER, nodes=1, gpus=1, pool=POOL, script=home)
        borrower.until(given["id"], "succeeded", deadline_s=within_s)
        with chromium() as browser, signed_in(tidegate, browser, IVAN) as page:
            page.goto(f"{tidegate.address}/submit?door=sbatch")
            drop(page, FILE)
            notes = page.get_by_role("region", name="What was read from the script")
            for line in _READ:
                expect(notes).to_contain_text(line)
            plan = page.get_by_role("region", name="What would happen")
            for line in ("2 GPUs of lab on 2 nodes", "borrowed: may be reclaimed"):
                expect(plan).to_contain_text(line)
            _picture(page, "submit")
            job = submitted(page, "ddp")
            eventually(lambda: "step 50 loss" in borrower.log(job, 1), deadline_s=within_s)
            take_back(tidegate, deadline_s=within_s)
            _picture(page, "taken-back")
            ended = borrower.until(job, "succeeded", "failed", deadline_s=within_s)
            assert (ended["state"], ended["attempt"]) == ("succeeded", 2), ended["end_reason"]
            expect(page.get_by_text("succeeded", exact=True).first).to_be_visible()
            _picture(page, "browser")
            page.get_by_role("tab", name="Attempts").click()
            attempts = page.get_by_role("table", name="Attempts")
            expect(attempts.get_by_role("row").nth(1)).to_contain_text("succeeded")
            expect(attempts.get_by_role("row").nth(2)).to_contain_text("preempted for")
            _picture(page, "attempts")
        first, second = (borrower.log(job, attempt) for attempt in (1, 2))
        print(first, second, sep="\n--\n", flush=True)
        (saved,) = re.findall(r"step (\d+) saved", first)
        assert f"step {saved} resumed on 2 ranks" in second
        assert "training complete" in second
    except AssertionError as error:
        print(f"FAILED {FILE.name}: {error}", flush=True)
        borrower.end_all()
        return False
    return True


def _picture(page: Page, name: str) -> None:
    """Keep a picture of the whole page, where somebody wants pictures."""
    if _SHOTS:
        page.screenshot(path=f"{_SHOTS}/torchrun-{name}.png", full_page=True)

"""People's own files, as they are: a preempted training goes on at the step where it was saved."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from builders.installation import REPO, Tidegate, settle
from builders.lab import BORROWER, POOL, a_lab, take_back
from builders.submit_page import drop, signed_in, submitted
from kube.own_bed import a_kube_bed_beside
from kube_bed import KubeBed

pytestmark = [pytest.mark.story, pytest.mark.timeout(600)]

RECIPE = REPO / "docs/guide/recipes/train_plain.py"
STEPS = 600
OWN_FILES = Path(__file__).with_name("own_files")
SBATCH = OWN_FILES / "gpt.sbatch"
PYTORCHJOB = OWN_FILES / "pytorch-simple.yaml"
IVAN = "ivan@ai-company"


@pytest.fixture(scope="module")
def lab(tidegate: Tidegate) -> Tidegate:
    """The installation with a pool of 2 nodes, which nlp owns and inference borrows."""
    a_lab(tidegate)
    return tidegate


@pytest.fixture(scope="module")
def kubernetes() -> Iterator[KubeBed]:
    """2 nodes of 8 H100, with the operators."""
    with a_kube_bed_beside("files", nodes=2) as own:
        yield own


@pytest.fixture
def with_kubernetes(lab: Tidegate, kubernetes: KubeBed) -> Tidegate:
    """The same installation with a Kubernetes as its second cluster."""
    lab.join("deploy/kube-bed/join.py", TIDEGATE_KUBE_BED=kubernetes.folder)
    return lab


def losses(log: str) -> list[str]:
    return re.findall(r"step \d+ loss \S+", log)


def test_a_recipe_goes_on_at_the_step_that_it_saved(lab: Tidegate, tmp_path: Path) -> None:
    """The file of the guide, unchanged and without a library, on a real cluster.

    Planted: a handler that is never installed; a load that forgets the step; one that forgets the
    weights; a save that is not reported.
    """
    borrower = lab.caller(IVAN)
    job = borrower.submit(
        BORROWER,
        nodes=1,
        gpus=1,
        pool=POOL,
        script=RECIPE.read_text(),
        arguments=["--steps", str(STEPS)],
    )["id"]
    settle(lambda: losses(borrower.log(job, 1)))
    take_back(lab)
    assert borrower.until(job, "succeeded")["attempt"] == 2

    first, second = (borrower.log(job, attempt) for attempt in (1, 2))
    (saved,) = re.findall(r"step (\d+) saved", first)
    assert first.endswith(f"step {saved} saved\n")
    assert 0 < int(saved) < STEPS
    assert second.startswith(f"step {saved} resumed\n")
    assert second.endswith(f"step {STEPS} saved\ntraining complete\n")
    # Each step was taken once, with the weights of the one before it.
    undisturbed = subprocess.run(
        [sys.executable, str(RECIPE), "--steps", str(STEPS)],
        env={"TIDEGATE_CHECKPOINT_PATH": str(tmp_path / "checkpoint")},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert losses(first) + losses(second) == losses(undisturbed.stdout)
    (attempt, _) = borrower.get(f"/jobs/{job}/attempts")["items"]
    assert attempt["checkpoint_at"] >= attempt["notice_at"]
    assert attempt["exit_codes"] == {"0": 143}


@pytest.mark.browser
def test_an_sbatch_file_is_dropped_preempted_and_goes_on(lab: Tidegate, browser: Browser) -> None:
    """The file is not edited: its handler of USR1 lets the tasks of srun save.

    Planted: a notice that goes to the tasks and not to the shell.
    """
    borrower = lab.caller(IVAN)
    with signed_in(lab, browser, IVAN) as page:
        page.goto(f"{lab.address}/submit?door=sbatch")
        drop(page, SBATCH)
        notes = page.get_by_role("region", name="What was read from the script")
        for line in ("--partition=lab", "--nodes=2", "--gres=gpu:1", "--signal=B:USR1@300"):
            expect(notes).to_contain_text(line)
        job = submitted(page, "gpt-345m")
        settle(
            lambda: "1: step 50 " in borrower.log(job, 1) and "0: step 50 " in borrower.log(job, 1)
        )
        take_back(lab)
        assert borrower.until(job, "succeeded")["attempt"] == 2
        expect(page.get_by_text("succeeded", exact=True).first).to_be_visible()
    first, second = (borrower.log(job, attempt) for attempt in (1, 2))
    assert first.startswith("attempt 0: 2 tasks on 2 nodes from lab-001 on\n")
    assert "\nUSR1: the ranks save\n" in first
    assert second.startswith("attempt 1: 2 tasks on 2 nodes from lab-001 on\n")
    saved = dict(re.findall(r"(\d): step (\d+) saved", first))
    assert saved.keys() == {"0", "1"}
    assert dict(re.findall(r"(\d): step (\d+) resumed", second)) == saved
    assert second.count("pretraining complete") == 2


@pytest.mark.browser
@pytest.mark.kube
def test_a_pytorchjob_is_dropped_and_runs(with_kubernetes: Tidegate, browser: Browser) -> None:
    """The file is not edited: its master and its worker hold whole nodes of the cluster.

    Against: a page that takes manifests for scripts.
    """
    caller = with_kubernetes.caller(IVAN)
    with signed_in(with_kubernetes, browser, IVAN) as page:
        page.goto(f"{with_kubernetes.address}/submit?door=sbatch")
        drop(page, PYTORCHJOB)
        job = submitted(page, "pytorch-simple")
        ended = caller.until(job, "succeeded", "failed")
        expect(page.get_by_text("succeeded", exact=True).first).to_be_visible()
    attempt = ended["current_attempt"]
    assert (ended["state"], attempt["cluster"]) == ("succeeded", "kubernetes")
    assert [slot["mgpu"] for slot in attempt["slots"]] == [8_000, 8_000]
    logs = [caller.log(job, 1, rank) for rank in (0, 1)]
    assert logs == [f"rank {rank} of 2, master at port 23456\n" for rank in (0, 1)]

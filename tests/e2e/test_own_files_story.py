"""People's own files, as they are: a preempted training goes on at the step where it was saved."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from builders.installation import REPO, Tidegate, settle
from builders.lab import BORROWER, NODES, OWNER, POOL, a_lab

pytestmark = [pytest.mark.story, pytest.mark.timeout(600)]

RECIPE = REPO / "docs/guide/recipes/train_plain.py"
STEPS = 600


@pytest.fixture(scope="module")
def lab(tidegate: Tidegate) -> Tidegate:
    """The installation with a pool of 2 nodes, which nlp owns and inference borrows."""
    a_lab(tidegate)
    return tidegate


def losses(log: str) -> list[str]:
    return re.findall(r"step \d+ loss \S+", log)


def take_back(tidegate: Tidegate) -> None:
    """Let the owner of the guarantee have all GPUs of the pool, for a moment."""
    owner = tidegate.caller("ana@ai-company")
    taken = owner.submit(OWNER, nodes=NODES, gpus=1, script="exit 0", pool=POOL)
    owner.until(taken["id"], "succeeded")


def test_a_recipe_goes_on_at_the_step_that_it_saved(lab: Tidegate, tmp_path: Path) -> None:
    """The file of the guide, unchanged and without a library, on a real cluster.

    Planted: a handler that is never installed; a load that forgets the step; one that forgets the
    weights; a save that is not reported.
    """
    borrower = lab.caller("ivan@ai-company")
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

"""Runs the recipes of docs/guide/checkpointing.md for real: `make recipes`, ONLY=... for some.

    .venv/bin/python tests/recipes/run_recipes.py [FILE ...]

Installs the libraries into a virtual environment of their own (some GB), and starts Tidegate. Each
recipe is submitted with the page's own command; `ddp.sbatch` is dropped on the page in a browser.
The owner of the guarantee takes its GPUs back. The recipe has to save, to be queued again and to
go on at that step. The losses that it prints must be those of a run that nobody preempted.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
sys.path[:0] = [str(HERE.parent), str(REPO / "platform")]

from builders.connector_builders import eventually  # noqa: E402
from builders.installation import (  # noqa: E402
    START_WITHIN_S,
    STOP_WITHIN_S,
    Caller,
    Tidegate,
)
from builders.lab import BORROWER, POOL, a_lab, take_back  # noqa: E402
from embedded.ports import a_free_port  # noqa: E402
from recipes.browser_story import FILE, try_in_browser  # noqa: E402

PAGE = REPO / "docs/guide/checkpointing.md"
RECIPES = REPO / "docs/guide/recipes"
ENVIRONMENT = Path.home() / ".cache/tidegate/recipes"
#: The folder that the commands of the page name.
_SHARED = "/shared/me"
#: Enough for a slow machine: Ray alone takes minutes to start on one that is busy.
_WITHIN_S = 900


def main() -> None:
    """Run the recipes that are named, or all of them. Exits with 1 if one fails."""
    commands = commands_of(PAGE.read_text())
    known = [*commands, FILE.name]
    names = sys.argv[1:] or known
    if unknown := set(names) - set(known):
        sys.exit(f"No such recipe: {', '.join(sorted(unknown))}; there are {', '.join(known)}.")
    install()
    with tempfile.TemporaryDirectory(prefix="tidegate-recipes-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        shared = place / "shared"
        shared.mkdir()
        shared.chmod(0o1777)  # jobs run as users of their own
        for file in RECIPES.iterdir():
            (shared / file.name).write_bytes(file.read_bytes())
        (shared / "venv").symlink_to(ENVIRONMENT)
        tidegate = Tidegate(place / "state", a_free_port())
        tidegate.environment["TIDEGATE_LOCAL_FOLDERS"] = f"{shared},{ENVIRONMENT}"
        try:
            tidegate.embedded("up", "--detach", timeout_s=START_WITHIN_S)
            a_lab(tidegate, str(shared), str(ENVIRONMENT))
            failed = [
                name
                for name in names
                if not (
                    try_in_browser(tidegate, ENVIRONMENT, shared, _WITHIN_S)
                    if name == FILE.name
                    else try_recipe(tidegate, commands, name, shared)
                )
            ]
        finally:
            tidegate.hang_up()
            tidegate.embedded("reset", "--yes", timeout_s=STOP_WITHIN_S)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


def commands_of(page: str) -> dict[str, list[str]]:
    """Return the words of the page's first `tidegate submit` for each recipe."""
    found: dict[str, list[str]] = {}
    joined = page.replace("\\\n", " ")
    for line in re.findall(r"^    (tidegate submit .*)$", joined, re.MULTILINE):
        if name := re.search(r"\btrain_\w+\.py\b", line):
            found.setdefault(name[0], shlex.split(line)[2:])
    return found


def install() -> None:
    """Install the libraries, unless they are there. They have no use for Tidegate's own."""
    uv = Path(sys.executable).with_name("uv")
    if not (ENVIRONMENT / "bin/python").exists():
        _run([str(uv), "venv", "--quiet", str(ENVIRONMENT)])
    python = ["--python", str(ENVIRONMENT / "bin/python")]
    _run(
        [
            str(uv),
            "pip",
            "install",
            "--quiet",
            "--compile-bytecode",
            *python,
            "-r",
            str(HERE / "requirements.txt"),
        ]
    )


def try_recipe(tidegate: Tidegate, commands: dict[str, list[str]], name: str, shared: Path) -> bool:
    """Run one recipe twice, preempted and in peace. Return whether it went on as it should."""
    print(f"== {name}", flush=True)
    borrower = tidegate.caller("ivan@ai-company")
    try:
        preempted = submit(tidegate, commands[name], shared, "preempted")
        eventually(lambda: losses(borrower, preempted, 1), deadline_s=_WITHIN_S)
        take_back(tidegate, deadline_s=_WITHIN_S)
        borrower.until(preempted, "succeeded", deadline_s=_WITHIN_S)
        undisturbed = submit(tidegate, commands[name], shared, "undisturbed")
        borrower.until(undisturbed, "succeeded", deadline_s=_WITHIN_S)
        return is_right(borrower, preempted, undisturbed)
    except AssertionError as error:
        print(f"FAILED {name}: {error}", flush=True)
        borrower.end_all()
        return False


def submit(tidegate: Tidegate, words: list[str], shared: Path, run: str) -> str:
    """Submit as the page says. Only the folder, the team and the pool are other ones."""
    there = [word.replace(_SHARED, str(shared)) for word in words]
    path = there.index("--checkpoint") + 1
    there[path] = f"{there[path]}-{run}"
    own = ["--team", BORROWER, "--pool", POOL, "--env", "OMP_NUM_THREADS=1"]
    said = subprocess.run(
        [str(Path(sys.executable).with_name("tidegate")), "submit", *own, *there],
        cwd=shared,
        env={
            **os.environ,
            "TIDEGATE_SERVER": tidegate.address,
            "TIDEGATE_TOKEN": tidegate.personas["ivan@ai-company"].token,
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    return said.stdout.strip()


def losses(caller: Caller, job: str, attempt: int) -> dict[str, str]:
    """Return the losses that an attempt has printed, by step."""
    return dict(re.findall(r"step (\d+) loss (\S+)", caller.log(job, attempt)))


def is_right(caller: Caller, preempted: str, undisturbed: str) -> bool:
    """Print the lines of the log that matter, and return whether nothing was lost or done twice."""
    logs = [caller.log(preempted, attempt) for attempt in (1, 2)]
    for number, log in enumerate(logs, 1):
        for line in re.findall(r"step \d+ (?:saved|resumed)[^\n]*|training complete", log):
            print(f"attempt {number}: {line}", flush=True)
    saved = re.findall(r"step (\d+) saved", logs[0])
    resumed = re.findall(r"step (\d+) resumed", logs[1])
    (first, *_) = caller.get(f"/jobs/{preempted}/attempts")["items"]
    reported = first["checkpoint_at"]
    print(f"reported at {reported}; notice at {first['notice_at']}", flush=True)
    lines = losses(caller, preempted, 1) | losses(caller, preempted, 2)
    is_same = lines == losses(caller, undisturbed, 1)
    print("the losses are those of a run without a preemption" if is_same else lines, flush=True)
    return bool(saved) and saved[-1:] == resumed[:1] and bool(reported) and is_same


def _run(words: list[str]) -> None:
    subprocess.run(words, check=True, timeout=3_600)


if __name__ == "__main__":
    main()

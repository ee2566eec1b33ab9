"""The recipes of docs/guide/checkpointing.md, as far as they can be checked without libraries.

`make recipes` runs them; tests/e2e/test_own_files_story.py runs the one that needs no library.
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from recipes.run_recipes import HERE, PAGE, RECIPES, commands_of

_FILES = sorted(path.name for path in RECIPES.iterdir())
_TRAININGS = [name for name in _FILES if name.endswith(".py")]


def function(name: str, file: str) -> str:
    """The source of a function of a recipe."""
    for node in ast.parse((RECIPES / file).read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.unparse(node)
    raise LookupError(name)


def test_the_page_shows_every_file() -> None:
    """Planted: a file that the page does not have. `make reference` writes their text."""
    shown = re.findall(r"^<!-- (\S+): written by `make reference` -->$", PAGE.read_text(), re.M)
    assert sorted(shown) == _FILES


@pytest.mark.parametrize("name", _TRAININGS)
def test_a_training_is_whole(name: str) -> None:
    """It compiles, and reports its saves in the same way as the others.

    Planted: a name that is cut off; another address in one of the reports.
    """
    compile((RECIPES / name).read_text(), name, "exec")
    assert function("report_checkpoint", name) == function("report_checkpoint", "train_plain.py")


@pytest.mark.parametrize("name", sorted(set(_FILES) - set(_TRAININGS)))
def test_a_script_is_read_by_bash(name: str) -> None:
    """Planted: a loop without its end."""
    read = subprocess.run(["bash", "-n", RECIPES / name], capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


def test_the_page_has_a_command_for_every_training() -> None:
    """Planted: a command that names a file that is not there, and one without --checkpoint."""
    commands = commands_of(PAGE.read_text())
    assert sorted(commands) == _TRAININGS
    for words in commands.values():
        assert "--checkpoint" in words
        named = {Path(word).name for word in " ".join(words).split() if word.endswith(".sh")}
        assert named <= set(_FILES)


def test_the_page_says_with_which_versions_they_ran() -> None:
    """Planted: a newer version in the requirements."""
    text = PAGE.read_text()
    for line in (HERE / "requirements.txt").read_text().split():
        name, version = re.sub(r"\[.*\]", "", line).split("==")
        assert f"{name} {version}" in " ".join(text.split())

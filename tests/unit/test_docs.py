"""Rules of the documents: what they name exists, and what cites them finds what it cites."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
RULES = REPO / "docs/scheduling.md"
EXAMPLES = REPO / "tests/scenarios/test_scheduling_rules.py"
_NOT_OURS = {".git", ".venv", "var", "node_modules", "dist", "__pycache__"}
_TEXT = {".py", ".md", ".ts", ".tsx", ".toml", ".yaml", ".yml", ".json", ".sh"}
_PARTS = ["If", "Then", "Why", "Cost", "Example"]
PICTURE_BYTES_MAX = 150_000
_ID = re.compile(r"\bR-(\d+)\b")


def rules(text: str) -> dict[int, str]:
    """What stands below the heading of each rule, by its number."""
    parts = re.split(r"^### R-(\d+) .*$", text, flags=re.MULTILINE)
    numbers = [int(number) for number in parts[1::2]]
    assert numbers == sorted(set(numbers)), "rule ids ascend and stand once"
    return dict(zip(numbers, parts[2::2], strict=True))


def texts() -> dict[Path, str]:
    """Every text file of the checkout that a person wrote."""
    found = {}
    for folder, folders, files in os.walk(REPO):
        folders[:] = [name for name in folders if name not in _NOT_OURS and name[0] != "."]
        for name in files:
            path = Path(folder) / name
            if path.suffix in _TEXT:
                found[path.relative_to(REPO)] = path.read_text("utf-8", "replace")
    return found


def dangling(files: dict[Path, str], known: set[int]) -> set[tuple[str, int]]:
    """Citations of rules that are not there."""
    return {
        (str(path), int(number))
        for path, text in files.items()
        for number in _ID.findall(text)
        if int(number) not in known
    }


def test_every_rule_has_its_five_parts() -> None:
    """Planted: a rule without its cost, and one whose reason stands before its effect."""
    for number, body in rules(RULES.read_text()).items():
        labels = re.findall(r"^- \*\*(\w+)\b", body, flags=re.MULTILINE)
        assert labels == _PARTS, f"R-{number}"


def test_every_cited_rule_exists() -> None:
    """Planted: a docstring of the arbiter that cites R-999; a rule whose heading is gone."""
    known = set(rules(RULES.read_text()))
    files = texts()
    cited = {int(number) for text in files.values() for number in _ID.findall(text)}
    assert len(cited & known) > 20
    del files[Path("tests/unit/test_docs.py")]
    assert dangling(files, known) == set()


def test_nobody_cites_the_contract_by_section() -> None:
    """Planted: a docstring that names the section of a file outside of the repository."""
    by_section = re.compile(r"\bsemantics" + r"[ :(]", re.IGNORECASE)
    assert [str(path) for path, text in texts().items() if by_section.search(text)] == []


def test_every_example_called_tested_is_played_and_every_played_one_is_called_so() -> None:
    """Planted: a rule that says "Tested." without a test, and a test of a rule that does not."""
    claimed = {
        number
        for number, body in rules(RULES.read_text()).items()
        if re.search(r"\bTested\.", body)
    }
    played = set(map(int, re.findall(r"^def test_r(\d+)_", EXAMPLES.read_text(), re.MULTILINE)))
    assert claimed == played


def test_every_decision_has_its_four_parts_and_stands_in_the_list() -> None:
    """Planted: a decision without its price, and one that the list does not name."""
    folder = REPO / "docs/adr"
    listed = set(re.findall(r"\]\((\d{4}-[a-z0-9-]+\.md)\)", (folder / "README.md").read_text()))
    files = {path.name: path.read_text() for path in folder.glob("[0-9]*.md")}
    assert listed == set(files)
    for name, text in files.items():
        assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [
            "Context", "Choice", "Alternatives", "Price",
        ], name  # fmt: skip
        assert text.startswith(f"# {name[:4]}. "), name


def documents() -> list[Path]:
    """The documents that say how things are now; decisions say how they were."""
    decisions = REPO / "docs/adr"
    return [
        *REPO.glob("*.md"),
        *(path for path in (REPO / "docs").rglob("*.md") if path.parent != decisions),
    ]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_every_path_that_a_document_names_exists(path: Path) -> None:
    """Planted in ARCHITECTURE.md: a file that was moved, and a folder with a typing error."""
    tops = {entry.name for entry in REPO.iterdir() if entry.is_dir()} - _NOT_OURS
    named = re.findall(r"`([\w.-]+/[\w./-]*)`", path.read_text())
    missing = [name for name in named if name.split("/")[0] in tops and not (REPO / name).exists()]
    assert missing == []


@pytest.mark.parametrize("path", [*documents(), *(REPO / "docs/adr").glob("*.md")],
                         ids=lambda path: path.name)  # fmt: skip
def test_every_link_between_documents_leads_to_a_file(path: Path) -> None:
    """Planted: a link to a decision that was renamed."""
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def is_there(name: str, root: Path) -> bool:
    """Whether the dotted `name` is a module below `root`, or something that one defines."""
    parts = name.split(".")
    for count in range(len(parts), 1, -1):
        place = root.joinpath(*parts[:count])
        if place.is_dir() and count == len(parts):
            return True
        if place.with_suffix(".py").is_file():
            text = place.with_suffix(".py").read_text()
            return all(re.search(rf"\b{rest}\b", text) for rest in parts[count:])
    return False


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_every_module_that_a_document_names_exists(path: Path) -> None:
    """Planted in docs/flows.md: a module that was renamed, and a function that is not there."""
    roots = {
        folder.name: REPO
        for folder in (REPO / init.parent.name for init in REPO.glob("*/__init__.py"))
    }
    roots |= {folder.name: REPO / "platform" for folder in (REPO / "platform").iterdir()}
    named = re.findall(r"`([a-z_]+(?:\.\w+)+)`", path.read_text())
    unknown = [
        name
        for name in named
        if (root := roots.get(name.split(".")[0])) is not None and not is_there(name, root)
    ]
    assert unknown == []


def test_the_architecture_fits_on_a_few_pages() -> None:
    """Planted: two more kilobytes, and a picture less."""
    text = (REPO / "ARCHITECTURE.md").read_text()
    assert len(text.encode()) <= 13 * 1024
    assert text.count("```mermaid\n") == 2
    steps = len(re.findall(r"^    \w+-?->>\w+: ", text, re.MULTILINE))
    named = re.findall(r"^\| ([\d, ]+) \| `", text, re.MULTILINE)
    assert [int(n) for row in named for n in row.split(", ")] == list(range(1, steps + 1))
    tasks = text.split("## Where do I change ...?")[1]
    assert len(re.findall(r"^\| ", tasks, re.MULTILINE)) - 1 >= 15


def test_every_picture_is_small_and_shown() -> None:
    """Planted: a picture that no page shows, a page with a missing one, one of 200 KB."""
    shown = {
        (page.parent / link).resolve()
        for page in (REPO / "README.md", *(REPO / "docs").rglob("*.md"))
        for link in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    }
    assert shown == set((REPO / "docs").rglob("*.png"))
    assert [path.name for path in shown if path.stat().st_size > PICTURE_BYTES_MAX] == []

"""The pages of docs/reference are what the code says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

import reference
from jobs.api.serializers import EXPLANATION_CODES

REPO = reference.REPO
_NAME = re.compile(r"\bTIDEGATE_[A-Z]+(?:_[A-Z]+)*\b")
#: Neither is a variable: the end of a here-document, and examples of names that are refused.
_NO_VARIABLES = {"TIDEGATE_PAYLOAD", "TIDEGATE_RANK", "TIDEGATE_X"}
_SOURCES = {".py", ".sh", ".ts", ".tsx", ".mjs", ""}
_FOLDERS = ("billing", "deploy", "frontend/src", "jobs", "platform", "quotas", "tenants", "tests")


def settings_rows() -> dict[str, str]:
    """The default of each variable, as docs/reference/settings.md has it."""
    text = (reference.PAGES / "settings.md").read_text()
    rows = re.findall(r"^\| `(TIDEGATE_\w+)` \| (.*?) ?\|", text, re.MULTILINE)
    return dict(rows)


def names_in_code() -> set[str]:
    files = [REPO / "Makefile"]
    for folder in _FOLDERS:
        files += [path for path in (REPO / folder).rglob("*") if path.suffix in _SOURCES]
    return {
        name
        for path in files
        if path.is_file() and "node_modules" not in path.parts
        for name in _NAME.findall(path.read_text("utf-8", "replace"))
    } - _NO_VARIABLES


def declared() -> Iterator[tuple[str, str]]:
    """Each variable of portal/settings.py with its default and range, as the page writes them."""
    tree = ast.parse((REPO / "platform/portal/settings.py").read_text())
    for call in ast.walk(tree):
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.args
            and isinstance(call.args[0], ast.Constant)
            and _NAME.fullmatch(str(call.args[0].value))
        ):
            continue
        name = str(call.args[0].value)
        named = {
            word.arg: ast.literal_eval(word.value)
            for word in call.keywords
            if word.arg in {"default", "low", "high"} and isinstance(word.value, ast.Constant)
        }
        reader = call.func.id
        if reader in {"_listed", "_named", "_networks"}:
            default: object = ""
        elif len(call.args) > 1:
            default = ast.literal_eval(call.args[1])
        elif reader == "_bool":
            default = named["default"]
        else:
            default = None
        yield name, _written(reader, default, named)


def _written(reader: str, default: object, named: dict[str, object]) -> str:
    if default is None:
        return "required"
    if reader == "_bool":
        return f"`{str(default).lower()}`"
    if reader == "_int":
        return f"`{default}` ({named['low']} to {named['high']})"
    return f"`{default}`" if default else ""


def test_every_variable_is_on_the_page_of_settings() -> None:
    """Planted: a setting that the page lacks, and one that the code no longer reads."""
    assert settings_rows().keys() == names_in_code()


def test_the_defaults_on_the_page_are_those_of_the_code() -> None:
    """Planted: another default of a number, another range, and another default of a text."""
    rows = settings_rows()
    found = dict(declared())
    assert len(found) > 25
    assert {name: rows[name] for name in found} == found


def test_every_reason_code_is_explained() -> None:
    """Planted: a code without a line, and a line without a code."""
    assert reference.REASONS.keys() == set(EXPLANATION_CODES) == reference.labels().keys()


@pytest.mark.parametrize("name", ["api.md", "cli.md", "reason-codes.md"])
def test_the_written_pages_are_current(name: str) -> None:
    """Planted: another summary of an endpoint, another help of an option, another sentence."""
    path = reference.PAGES / name
    assert path.read_text() == reference.pages()[path], "run `make reference`"

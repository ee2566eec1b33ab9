"""Rules of our sentences: length, subject, and the form of docstrings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
WORDS_MAX = 30
#: The subject of a sentence is a noun. A question may begin with any of these.
_NO_SUBJECT = re.compile(r"(Who|Whoever|Whatever|What|Those|It is told)\b")
_SENTENCE = re.compile(r"(?<=[.!?])[\"”)*]*\s+|[:;](?:\*\*)?\s")
_PARAGRAPH = re.compile(r"\n\s*\n|\n\s*[-*] |\n\s*\d+\. |\s*\|\s|\n#+ ")


def sentences(text: str) -> Iterator[str]:
    """The sentences of Markdown or of a docstring. Code counts as one word."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"(?m)^ {4}(?! *[-*\d]).*$", "", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    for paragraph in _PARAGRAPH.split(text):
        yield from (part for part in _SENTENCE.split(" ".join(paragraph.split())) if part)


def faults(text: str) -> list[str]:
    """The sentences that are too long, or whose subject is no noun."""
    return [
        sentence
        for sentence in sentences(text)
        if len(sentence.split()) > WORDS_MAX
        or (_NO_SUBJECT.match(sentence.lstrip("*_")) and not sentence.endswith("?"))
    ]


def docstrings(path: Path) -> Iterator[str]:
    """Every docstring of a Python file, without its indentation."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield text


def faults_of_form(text: str) -> list[str]:
    """The first line, unless it holds a whole sentence."""
    first = text.split("\n")[0]
    return [] if first.endswith((".", ":", "?", "!")) else [first]


def packages() -> list[str]:
    """The folders of our code, as paths."""
    inner = (path.parent for path in REPO.glob("platform/*/__init__.py"))
    outer = (path.parent for path in REPO.glob("*/__init__.py"))
    return sorted(str(path.relative_to(REPO)) for path in (*inner, *outer))


def documents() -> list[str]:
    """The documents, as paths."""
    paths = (*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md"))
    return sorted(str(path.relative_to(REPO)) for path in paths)


@pytest.mark.parametrize("name", documents())
def test_documents_speak_plainly(name: str) -> None:
    """Planted: a sentence of 31 words, and one that begins with "Whoever"."""
    assert faults((REPO / name).read_text()) == []


@pytest.mark.parametrize("name", packages())
def test_docstrings_speak_plainly(name: str) -> None:
    """Planted: a first line without an end, a sentence of 31 words, a "Those" as subject."""
    assert {
        f"{path.relative_to(REPO)}: {fault}"
        for path in (REPO / name).rglob("*.py")
        if "migrations" not in path.parts
        for text in docstrings(path)
        for fault in (*faults(text), *faults_of_form(text))
    } == set()


def test_faults_are_found() -> None:
    long = "word " * 31
    assert faults(f"A short one. {long.strip()}.") == [f"{long.strip()}."]
    assert faults("Whoever waits is served. A job waits.") == ["Whoever waits is served."]
    assert faults("What waits? A `job that` waits.") == []
    assert faults_of_form("The first line goes\non here.") == ["The first line goes"]
    assert faults_of_form("A whole sentence.\n\nAnd more.") == []

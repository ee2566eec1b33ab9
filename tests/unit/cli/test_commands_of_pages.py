"""The command lines at the foot of pages are commands of `tidegate`.

The sources of the pages are read. An address or a name that a page fills in is one word.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.main import app

SOURCES = Path(__file__).resolve().parents[3] / "frontend" / "src"
_TEXT = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
#: The options of `commandLine(…, {team: …, "as-of": …})` and of `option("name", …)`.
_NAMED = re.compile(r"commandLine\(\s*[\"`][^\"`]*[\"`],\s*\{(.*?)\}\)", re.DOTALL)
_NAMES = re.compile(r"^\s*\"?([a-z][a-z-]*)\"?(?=[:,])", re.MULTILINE)


ROOT: Any = typer.main.get_command(app)


def template_at(source: str, at: int) -> tuple[str, int]:
    """The template literal that begins at `at`, filled in, and where it ends.

    A filled-in value is the first text that it may be, or a word; after a word it is nothing.
    """
    filled, at = "", at + 1
    while source[at] != "`":
        if source.startswith("${", at):
            texts, at = texts_in(source, at + 2, "}")
            chosen = [text for text in texts if text]
            at_word = filled[-1:] in ("", " ", '"', "'")
            filled += chosen[0] if chosen else "X" if at_word else ""
        else:
            at += source[at] == "\\"
            filled += source[at]
        at += 1
    return filled, at


def texts_in(source: str, at: int, closing: str) -> tuple[list[str], int]:
    """The texts from `at` to the closing brace of an expression, or to the end, and where it ends.

    Texts that the expression compares with are left out.
    """
    texts, depth = [], 0
    while at < len(source):
        if source[at] == "`":
            text, at = template_at(source, at)
            texts.append(text)
        elif closing and (found := _TEXT.match(source, at)):
            if not source[:at].rstrip().endswith("==="):
                texts.append(found[0][1:-1])
            at = found.end() - 1
        elif closing and source[at] in "{}":
            if source[at] == closing and depth == 0:
                return texts, at
            depth += 1 if source[at] == "{" else -1
        at += 1
    return texts, at


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words begin with, and the words after its name."""
    command = ROOT
    while words and hasattr(command, "commands"):
        if words[0] not in command.commands:
            break
        command, words = command.commands[words[0]], words[1:]
    return command, words


def options_of(command: Any) -> dict[str, Any]:
    """The options of a command, by all of their names."""
    return {name: each for each in command.params for name in [*each.opts, *each.secondary_opts]}


def faults_of(line: str) -> list[str]:
    """Faults of a whole command line, as sentences."""
    command, words = command_of(shlex.split(line.replace("'", ""))[1:])
    if hasattr(command, "commands"):
        return [f"{line}: no such command"]
    options, faults, given = options_of(command), [], []
    while words:
        word, words = words[0], words[1:]
        if word == "--":
            break
        if not word.startswith("-"):
            given.append(word)
        elif word not in options:
            faults.append(f"{line}: no option {word}")
        elif not options[word].is_flag:
            words = words[1:]
    places = [each for each in command.params if each.param_type_name == "argument"]
    most = None if any(each.nargs < 0 for each in places) else len(places)
    if most is not None and len(given) > most:
        faults.append(f"{line}: {len(given)} arguments, at most {most}")
    return faults


def lines_and_options() -> list[tuple[str, list[str], list[str]]]:
    """Each source with its whole command lines, and the options that it adds to one of them."""
    found = []
    for path in sorted(SOURCES.rglob("*.ts*")):
        if ".test." in path.name or path.name == "schema.d.ts":
            continue
        source = re.sub(r"^\s*(//|\*|/\*).*$", "", path.read_text(), flags=re.MULTILINE)
        texts = {text[1:-1] for text in _TEXT.findall(source)} | set(texts_in(source, 0, "")[0])
        lines = sorted(text for text in texts if re.fullmatch(r"tidegate [a-z].*", text))
        added = [word for text in texts for word in re.findall(r"^ ?(--[a-z-]+)(?= |$)", text)]
        added += [f"--{name}" for block in _NAMED.findall(source) for name in _NAMES.findall(block)]
        if lines:
            found.append((str(path.relative_to(SOURCES)), lines, sorted(set(added))))
    return found


FOUND = lines_and_options()


def test_the_pages_have_commands() -> None:
    """Against: a reader of the sources that finds nothing."""
    assert len(FOUND) > 35
    assert sum(len(lines) for _, lines, _ in FOUND) > 60


@pytest.mark.parametrize(("path", "lines", "added"), FOUND, ids=[path for path, _, _ in FOUND])
def test_each_line_is_a_command_with_its_options(
    path: str, lines: list[str], added: list[str]
) -> None:
    """Planted: an unknown option, also in `commandLine`; a word too many; `statement list`."""
    assert [fault for line in lines for fault in faults_of(line)] == []
    known = {name for line in lines for name in options_of(command_of(line.split()[1:])[0])}
    assert [name for name in added if name not in known] == []

"""Output of commands: every list in every format, tables in colours, and safe CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import httpx
import pytest
import typer

from builders.cli_server import Server, a_server, a_shown_job
from cli.main import app
from cli.output import Format, csv_text, print_table

#: The first words of the help of commands that print what the API answers.
_SHOWING = ("List", "Show", "Compare")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return a_server(monkeypatch, str(tmp_path_factory.mktemp("home")))


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each command with its words."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join([*path, name]), command


def test_every_command_that_lists_or_shows_has_all_formats() -> None:
    """Against: a list without the option; an option with formats of its own."""
    found = dict(commands())
    printed = {
        name: [
            (option.opts, option.type_descriptor.annotation)
            for option in command.params
            if {"-o", "--output"} & set(option.opts)
        ]
        for name, command in found.items()
    }
    showing = [name for name, command in found.items() if command.help.split()[0] in _SHOWING]
    assert len(showing) > 40
    assert [name for name in showing if not printed[name]] == []
    wanted = [(["-o", "--output"], Format)]
    assert [name for name, options in printed.items() if options not in ([], wanted)] == []


def test_csv_has_a_line_for_each_item_and_a_column_for_each_member() -> None:
    """Against: columns of the first item only; a list of objects as Python's text."""
    text = csv_text(
        [
            {"id": "a", "use": {"in_use_mgpu": 7, "as_of": None}, "pools": ["h100", "a100"]},
            {"id": "b", "use": {}, "slots": [{"node": "n 1"}], "is_on": True, "note": "=1+1"},
        ]
    )
    assert list(csv.reader(StringIO(text))) == [
        ["id", "use.in_use_mgpu", "use.as_of", "pools", "use", "slots", "is_on", "note"],
        ["a", "7", "", "h100 a100", "", "", "", ""],
        ["b", "", "", "", "", '[{"node": "n 1"}]', "true", "'=1+1"],
    ]
    assert csv_text([]) == ""


def test_a_list_and_an_object_with_rows_as_csv(server: Server) -> None:
    """Against: the object with its rows as one cell."""
    server.routes["GET jobs"] = {"items": [a_shown_job(), a_shown_job(name="b")], "next": None}
    lines = server.run("ls", "-o", "csv").out.splitlines()
    assert [line.split(",")[1] for line in lines] == ["name", "bert", "b"]
    moves = {"rows": [{"team": "a/b", "change_nano": 5}], "totals": [], "before": {}, "after": {}}
    server.routes["GET reports/chargeback/moves"] = moves
    assert server.run("report", "moves", "-o", "csv").out == "team,change_nano\na/b,5\n"


class Terminal(StringIO):
    """A text stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "is_coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_shows_states_in_colours_unless_told_not_to(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_coloured: bool
) -> None:
    """The texts are the same. Against: NO_COLOR not read; colours in a pipe."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    shown = []
    for stream in (Terminal(), StringIO()):
        monkeypatch.setattr("sys.stdout", stream)
        print_table(["NAME", "STATE"], [["a", "running"], ["[red]b", "failed"]])
        shown.append(stream.getvalue())
    plain = "NAME    STATE\na       running\n[red]b  failed\n"
    assert shown[1] == plain
    assert ("\x1b[32mrunning" in shown[0], "\x1b[31mfailed" in shown[0]) == (is_coloured,) * 2
    assert (shown[0] == plain) is not is_coloured


def test_a_deprecated_operation_is_remarked_once_on_standard_error(server: Server) -> None:
    """Planted: a remark for each page; a remark on standard output."""
    headers = {"Deprecation": "@1796083200", "Sunset": "Tue, 01 Jun 2027 00:00:00 GMT"}
    pages = [
        httpx.Response(200, json={"items": [a_shown_job()], "next": following}, headers=headers)
        for following in ("/api/v1/jobs?cursor=x", None)
    ]
    server.routes["GET jobs"] = list(pages)
    ran = server.run("ls", "--user", "bob", "-o", "json")
    assert (ran.exit_code, len(json.loads(ran.out))) == (0, 2)
    assert ran.err == (
        "Remark: the server ends GET /api/v1/jobs on Tue, 01 Jun 2027 00:00:00 GMT. "
        "Update this command.\n"
    )

"""`tidegate tree export` and `tidegate tree import`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from builders.cli_server import Server, a_server

NODE = "01a1fd00-0000-7000-8000-000000000013"
TEXT = "kind,path,name\nteam,a/nlp,NLP\n"


def a_preview(**changes: Any) -> dict[str, Any]:
    return {
        "is_applied": False,
        "digest": "d1",
        "counts": {"node_created": 1},
        "changes": [
            {
                "action": "node_created",
                "line": 2,
                "path": "a/nlp",
                "kind": "team",
                "user": "",
                "role": "",
                "pool": "",
                "before": "",
                "after": "NLP",
                "nodes_below": 0,
            }
        ],
        "error_count": 0,
        "line_errors": [],
        "missing_nodes": 0,
        "missing_roles": 1,
        "second_person": None,
        **changes,
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET organizations"] = {"items": [{"id": NODE, "path": "a"}], "next": None}
    server.routes[f"POST tree/{NODE}/import"] = [a_preview(), a_preview(is_applied=True)]
    server.routes[f"GET tree/{NODE}/export"] = httpx.Response(200, text=TEXT)
    (tmp_path / "tree.csv").write_text(TEXT)
    return server


def test_the_exported_file_is_printed_as_it_is(server: Server) -> None:
    """Of the only organization. Against: an added line end."""
    assert server.run("tree", "export", "--format", "yaml").out == TEXT
    assert server.sent[-1] == f"GET tree/{NODE}/export?format=yaml"


def test_changes_are_listed_and_only_these_are_applied(server: Server, tmp_path: Path) -> None:
    """Against: an import without --yes; one without the digest of the preview."""
    file = str(tmp_path / "tree.csv")
    ran = server.run("tree", "import", file)
    assert ran.exit_code == 2
    assert ran.out.splitlines()[1].split() == ["node_created", "2", "a/nlp", "NLP", "0"]
    assert ran.err.splitlines()[0] == (
        "The file lacks 1 role or invitation, which stays. `--revoke-missing` revokes it."
    )
    assert "Nothing was imported. Add --yes to import it." in ran.err
    assert server.run("tree", "import", file, "--dry-run", "--yes").exit_code == 0
    server.requests.clear()
    ran = server.run("tree", "import", file, "--yes", "--archive-missing")
    assert (ran.exit_code, ran.err.splitlines()[-1]) == (0, "1 change applied.")
    assert server.sent[1:] == [f"POST tree/{NODE}/import?dry_run=true", f"POST tree/{NODE}/import"]
    assert server.requests[-1].headers["If-Match"] == '"d1"'
    assert server.body() == {
        "format": "csv",
        "text": TEXT,
        "archive_missing": True,
        "revoke_missing": False,
    }


def test_errors_of_lines_are_listed_and_nothing_is_applied(server: Server, tmp_path: Path) -> None:
    """Against: an import with errors that is applied."""
    server.routes[f"POST tree/{NODE}/import"] = a_preview(
        digest=None, error_count=1, line_errors=[{"line": 2, "sentence": "kind must be a kind."}]
    )
    ran = server.run("tree", "import", str(tmp_path / "tree.csv"), "--yes")
    assert (ran.exit_code, ran.out.splitlines()[1].split(maxsplit=1)) == (
        2,
        ["2", "kind must be a kind."],
    )
    assert "Nothing was imported: 1 error." in ran.err
    assert len(server.requests) == 2
    missing = server.run("tree", "import", str(tmp_path / "none.csv"))
    assert (missing.exit_code, "Cannot read" in missing.err) == (2, True)


def test_the_ending_of_the_file_is_its_format(server: Server, tmp_path: Path) -> None:
    """Against: `TREE.CSV` is YAML; each other ending is YAML."""
    for name, expected in (("TREE.CSV", "csv"), ("tree.yml", "yaml"), ("tree.YAML", "yaml")):
        server.routes[f"POST tree/{NODE}/import"] = a_preview(missing_nodes=2, missing_roles=0)
        (tmp_path / name).write_text(TEXT)
        ran = server.run("tree", "import", str(tmp_path / name), "--dry-run")
        assert server.body()["format"] == expected
        assert ran.err.splitlines() == [
            "The file lacks 2 nodes, which stay. `--archive-missing` archives them."
        ]
    (tmp_path / "tree.txt").write_text(TEXT)
    server.requests.clear()
    refused = server.run("tree", "import", str(tmp_path / "tree.txt"))
    assert refused.err.endswith("tree.txt is no tree file. Give a .csv, .yaml or .yml file.\n")
    assert (refused.exit_code, server.requests) == (2, [])

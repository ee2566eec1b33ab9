"""`tidegate login`, `whoami`, `version`: where the token is kept and where it goes."""

from __future__ import annotations

import json
import socket
import stat
from pathlib import Path

import httpx
import pytest

from builders.cli_server import SECRET, Server, a_problem, a_server
from cli import context
from cli.errors import CliError
from cli.settings import Settings, config_path, load_settings, store_settings

SESSION = {
    "user": {
        "id": "1",
        "login": "bob@ai-company",
        "username": "bob",
        "name": "Bob",
        "organization": {"id": "2", "slug": "ai-company", "name": "AI Company"},
        "kind": "person",
    },
    "grants": [{"role": "researcher", "node_path": "ai-company/research/nlp"}],
    "permissions": {},
    "csrf_token": "secret",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    monkeypatch.delenv("TIDEGATE_SERVER")
    monkeypatch.delenv("TIDEGATE_TOKEN")
    server.routes["GET session"] = SESSION
    return server


def test_login_checks_and_keeps_the_token(server: Server, tmp_path: Path) -> None:
    ran = server.run(
        *("login", "--server", "https://tidegate.example/", "--token", "-", "--team", "a/b"),
        stdin=f"{SECRET}\n",
    )
    path = tmp_path / ".config" / "tidegate" / "config.json"
    assert (ran.exit_code, ran.out) == (0, "")
    assert ran.err == (
        f"Logged in to https://tidegate.example as bob@ai-company. The token is stored in {path}.\n"
    )
    assert server.requests[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert json.loads(path.read_text()) == {
        "server": "https://tidegate.example",
        "token": SECRET,
        "login": "bob@ai-company",
        "team": "a/b",
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [item.name for item in path.parent.iterdir()] == ["config.json"]
    assert server.run("whoami").exit_code == 0


def test_a_token_that_is_refused_is_not_kept(server: Server, tmp_path: Path) -> None:
    server.routes["GET session"] = a_problem(401)
    ran = server.run("login", "--server", "https://tidegate.example", "--token", "-", stdin=SECRET)
    assert ran.exit_code == 3
    assert not (tmp_path / ".config").exists()


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (["--server", "https://x", "--token", SECRET], "", "Other users can see"),
        (["--server", "https://x", "--token", "-"], "two words\n", "This is not an access token"),
        (["--server", "https://x", "--token", "-"], "tökén\n", "This is not an access token"),
        (["--server", "ftp://x", "--token", "-"], SECRET, "is not a server address"),
        (["--server", "x", "--token", "-"], SECRET, "is not a server address"),
        (["--server", "https://", "--token", "-"], SECRET, "is not a server address"),
        (["--server", "https://a:b@x", "--token", "-"], SECRET, "Put no user or password"),
        (["--server", "http://x", "--token", "-"], SECRET, "would send the token unencrypted"),
    ],
)
def test_bad_logins_send_nothing(
    server: Server, arguments: list[str], stdin: str, told: str
) -> None:
    ran = server.run("login", *arguments, stdin=stdin)
    assert (ran.exit_code, server.requests) == (2, [])
    assert told in ran.err


@pytest.mark.parametrize("address", ["http://127.0.0.1:8000", "http://localhost", "http://[::1]:1"])
def test_plain_http_is_fine_on_this_machine(server: Server, address: str) -> None:
    ran = server.run("login", "--server", address, "--token", "-", stdin=SECRET)
    assert ran.exit_code == 0


def test_plain_http_elsewhere_must_be_wanted(server: Server) -> None:
    ran = server.run("login", "--server", "http://x", "--token", "-", "--allow-http", stdin=SECRET)
    assert ran.exit_code == 0


def test_without_a_login(server: Server) -> None:
    ran = server.run("ls")
    assert (ran.exit_code, server.requests) == (2, [])
    assert ran.err.startswith("Error: Not logged in. Run `tidegate login")


def test_the_environment_wins(tmp_path: Path) -> None:
    stored = {"XDG_CONFIG_HOME": str(tmp_path)}
    store_settings(Settings("https://stored", SECRET, "bob@x", "a/b"), stored)
    assert load_settings(stored) == Settings("https://stored", SECRET, "bob@x", "a/b")
    other = "tdg_" + "b" * 36
    assert load_settings({**stored, "TIDEGATE_TOKEN": other}) == Settings("https://stored", other)
    assert load_settings(
        {"TIDEGATE_SERVER": "https://else", "TIDEGATE_TOKEN": other, "TIDEGATE_TEAM": "c"}
    ) == Settings("https://else", other, "", "c")


def test_a_stored_token_never_goes_to_another_server(tmp_path: Path) -> None:
    stored = {"XDG_CONFIG_HOME": str(tmp_path)}
    store_settings(Settings("https://stored", SECRET), stored)
    with pytest.raises(CliError, match="TIDEGATE_SERVER is set without TIDEGATE_TOKEN"):
        load_settings({**stored, "TIDEGATE_SERVER": "https://else"})


@pytest.mark.parametrize("content", ["", "{", "[]", "\udcff"])
def test_a_damaged_file_is_told(tmp_path: Path, content: str) -> None:
    path = config_path({"XDG_CONFIG_HOME": str(tmp_path)})
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(CliError, match="Run `tidegate login` again"):
        load_settings({"XDG_CONFIG_HOME": str(tmp_path)})


def test_a_relative_xdg_home_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config_path({"XDG_CONFIG_HOME": "x"}) == tmp_path / ".config/tidegate/config.json"


def test_whoami(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_SERVER", "https://tidegate.example")
    monkeypatch.setenv("TIDEGATE_TOKEN", SECRET)
    assert server.run("whoami").out == (
        "login         bob@ai-company\n"
        "name          Bob\n"
        "organization  AI Company\n"
        "server        https://tidegate.example\n"
        "role          researcher of ai-company/research/nlp\n"
    )
    shown = json.loads(server.run("whoami", "-o", "json").out)
    assert shown == {name: SESSION[name] for name in ("user", "grants", "permissions")}


def test_requests_say_what_sends_them_and_what_it_reads(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: httpx's own names, by which no log of a server tells the command from a script."""
    monkeypatch.setenv("TIDEGATE_SERVER", "https://tidegate.example")
    monkeypatch.setenv("TIDEGATE_TOKEN", SECRET)
    monkeypatch.setattr(context, "own_version", lambda: "1.2.3")
    server.run("whoami")
    headers = server.requests[0].headers
    assert (headers["User-Agent"], headers["Accept"]) == ("tidegate-cli/1.2.3", "application/json")


def test_version_needs_no_server(server: Server) -> None:
    assert server.run("--version").out == server.run("version").out
    ran = server.run("version")
    assert (ran.exit_code, ran.out.split()[0], server.requests) == (0, "tidegate", [])


def test_help_names_every_command(server: Server) -> None:
    told = server.run("--help").out
    for command in [
        "login",
        "whoami",
        "submit",
        "ls",
        "get",
        "why",
        "logs",
        "cancel",
        "hold",
        "release",
        "wait",
        "quota",
        "report",
        "version",
    ]:
        assert f"\n  {command} " in told


STARTED = {
    "device_code": "device-secret",
    "user_code": "WDJB-MJHT",
    "verification_uri": "https://tidegate.example/device",
    "verification_uri_complete": "https://tidegate.example/device?code=WDJB-MJHT",
    "expires_in": 600,
    "interval": 5,
}
MADE = {
    "id": "01a1fd00-0000-7000-8000-000000000022",
    "user": "bob@ai-company",
    "made_by": None,
    "name": "login on here",
    "prefix": SECRET[:12],
    "scopes": ["jobs", "read"],
    "created_at": "2026-11-21T12:00:00Z",
    "expires_at": "2026-12-21T12:00:00Z",
    "last_used_at": None,
    "revoked_at": None,
    "secret": SECRET,
}


def test_a_login_without_a_token_is_approved_in_a_browser(server: Server, tmp_path: Path) -> None:
    """Planted: an interval that stays after slow_down; an empty Authorization header."""
    server.routes["POST device-logins"] = httpx.Response(201, json=STARTED)
    server.routes["POST device-logins/token"] = [
        a_problem(400, code="authorization_pending"),
        a_problem(400, code="slow_down"),
        httpx.Response(200, json=MADE),
    ]
    ran = server.run("login", "--server", "https://tidegate.example")
    assert ran.exit_code == 0
    assert (
        "Open https://tidegate.example/device in a browser and enter the code WDJB-MJHT." in ran.err
    )
    assert "Logged in to https://tidegate.example as bob@ai-company." in ran.err
    assert SECRET not in ran.err + ran.out
    assert server.pauses_s == [5, 5, 10]
    assert server.body(0) == {
        "host": socket.gethostname(),
        "scopes": ["read", "jobs"],
        "token_days": 30,
    }
    assert "Authorization" not in server.requests[0].headers
    assert server.body(1) == {"device_code": "device-secret"}
    assert server.requests[-1].headers["Authorization"] == f"Bearer {SECRET}"
    assert load_settings({"HOME": str(tmp_path)}).token == SECRET


@pytest.mark.parametrize("code", ["access_denied", "expired_token"])
def test_a_refused_login_stores_nothing(server: Server, tmp_path: Path, code: str) -> None:
    """Planted: a command that goes on polling."""
    server.routes["POST device-logins"] = httpx.Response(201, json=STARTED)
    server.routes["POST device-logins/token"] = a_problem(400, code=code)
    ran = server.run(
        "login", "--server", "https://tidegate.example", "--days", "7", "--scope", "read"
    )
    assert ran.exit_code == 3
    assert server.sent == ["POST device-logins", "POST device-logins/token"]
    assert server.body(0)["scopes"] == ["read"]
    assert server.body(0)["token_days"] == 7
    assert not (tmp_path / ".config").exists()

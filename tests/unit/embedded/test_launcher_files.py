import json
import os
import shlex
import stat
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from embedded import logs
from embedded.environment import (
    load_secrets,
    read_env_file,
    service_environment,
    wants_demo,
    write_private,
)
from embedded.errors import LauncherError
from embedded.layout import Layout
from embedded.personas import introduction, read_personas
from embedded.services import portal_services


def a_layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "state")
    layout.prepare()
    return layout


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_secrets_are_drawn_once_and_kept(tmp_path: Path) -> None:
    layout = a_layout(tmp_path)
    first = load_secrets(layout)
    assert load_secrets(layout) == first
    words = {
        *(first.secret_key, first.owner_password, first.app_password),
        *(first.superuser_password, first.valkey_password),
    }
    assert len(words) == 5
    assert all(len(word) >= 32 for word in words)


def test_only_we_may_read_secrets(tmp_path: Path) -> None:
    layout = a_layout(tmp_path)
    load_secrets(layout)
    assert mode_of(layout.env_file) == 0o600
    assert mode_of(layout.superuser_file) == 0o600
    assert mode_of(layout.run) == mode_of(layout.log) == 0o700


def test_env_file_gives_each_role_its_own_password(tmp_path: Path) -> None:
    layout = a_layout(tmp_path)
    chosen = load_secrets(layout)
    lines = read_env_file(layout.env_file)
    app, owner = (
        urlsplit(lines[name]) for name in ("TIDEGATE_DATABASE_URL", "TIDEGATE_OWNER_DATABASE_URL")
    )
    assert (app.username, app.password) == ("tidegate_app", chosen.app_password)
    assert (owner.username, owner.password) == ("tidegate_owner", chosen.owner_password)
    assert app.hostname == owner.hostname == "127.0.0.1"
    assert chosen.superuser_password not in layout.env_file.read_text()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "{own}"),
        ("/srv/lab", "/srv/lab,{own}"),
        ("/where/it/was,{own}", "/where/it/was,{own}"),
        ("", ""),
    ],
)
def test_the_folder_of_the_local_cluster_is_listed_unless_none_may_be(
    tmp_path: Path, before: str | None, after: str
) -> None:
    """Planted: a state folder that had moved was not listed, so its cluster was not opened."""
    layout = a_layout(tmp_path)
    own = f"{layout.state}/local"
    if before is not None:
        layout.env_file.write_text(f"TIDEGATE_LOCAL_ROOTS={before.format(own=own)}\n")
    load_secrets(layout)
    assert read_env_file(layout.env_file)["TIDEGATE_LOCAL_ROOTS"] == after.format(own=own)


def test_lines_added_by_hand_are_kept(tmp_path: Path) -> None:
    layout = a_layout(tmp_path)
    load_secrets(layout)
    with layout.env_file.open("a") as file:
        file.write("TIDEGATE_DEBUG=true\n")
    load_secrets(layout)
    assert read_env_file(layout.env_file)["TIDEGATE_DEBUG"] == "true"


def test_env_file_ignores_comments_and_noise(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# A=1\nB = two=2 \nnoise\n\nC=\n")
    assert read_env_file(file) == {"B": "two=2", "C": ""}
    assert read_env_file(tmp_path / "missing") == {}


def test_a_private_file_replaces_one_that_others_could_read(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, "new")
    assert file.read_text() == "new"
    assert mode_of(file) == 0o600
    assert os.listdir(tmp_path) == ["env"]


def test_services_get_no_address_of_the_owner_and_no_foreign_database(tmp_path: Path) -> None:
    layout = a_layout(tmp_path)
    load_secrets(layout)
    inherited = {
        "PATH": "/bin",
        "PGHOST": "elsewhere",
        "PYTHONPATH": "/x",
        "TIDEGATE_DATABASE_URL": "postgres://somebody@elsewhere/else",
        "TIDEGATE_OWNER_DATABASE_URL": "postgres://owner@elsewhere/else",
    }
    seen = service_environment(layout, inherited)
    lines = read_env_file(layout.env_file)
    assert seen["PATH"] == "/bin"
    assert seen["TIDEGATE_DATABASE_URL"] == lines["TIDEGATE_DATABASE_URL"]
    assert seen["TIDEGATE_RUN_AS"] == "app"
    assert seen["TIDEGATE_ENV_FILE"] == os.devnull
    assert seen.keys().isdisjoint({"PGHOST", "PYTHONPATH", "TIDEGATE_OWNER_DATABASE_URL"})
    owner = service_environment(layout, inherited, as_owner=True)
    assert owner["TIDEGATE_RUN_AS"] == "owner"
    assert owner["TIDEGATE_OWNER_DATABASE_URL"] == lines["TIDEGATE_OWNER_DATABASE_URL"]


def test_a_variable_wins_over_the_file_but_for_addresses_and_secrets(tmp_path: Path) -> None:
    """Planted: the file won, so that folders listed in the environment were refused; the list of
    the environment alone, without the folder of the demo's cluster; its secret key."""
    layout = a_layout(tmp_path)
    load_secrets(layout)
    lines = read_env_file(layout.env_file)
    inherited = {
        "TIDEGATE_LOCAL_ROOTS": "/srv/lab",
        "TIDEGATE_KUBECONFIGS": "/srv/kubeconfigs/",
        "TIDEGATE_SECRET_KEY": "of another installation",
        "TIDEGATE_VALKEY_URL": "redis://elsewhere/0",
    }
    seen = service_environment(layout, inherited)
    assert seen["TIDEGATE_LOCAL_ROOTS"] == f"/srv/lab,{layout.state}/local"
    assert seen["TIDEGATE_KUBECONFIGS"] == "/srv/kubeconfigs/"
    for name in ("TIDEGATE_SECRET_KEY", "TIDEGATE_VALKEY_URL", "TIDEGATE_SLURM_ORIGINS"):
        assert seen[name] == lines[name]


def test_jobs_are_told_where_this_portal_is_unless_its_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutant: the port of this start won over the address in the settings."""
    monkeypatch.delenv("TIDEGATE_PUBLIC_URL", raising=False)
    layout = a_layout(tmp_path)
    load_secrets(layout)
    addresses = [
        {service.environment["TIDEGATE_PUBLIC_URL"] for service in portal_services(layout, port=81)}
    ]
    with layout.env_file.open("a") as file:
        file.write("TIDEGATE_PUBLIC_URL=https://gpus.test\n")
    addresses.append(
        {service.environment["TIDEGATE_PUBLIC_URL"] for service in portal_services(layout, port=81)}
    )
    assert addresses == [{"http://127.0.0.1:81"}, {"https://gpus.test"}]


def test_a_developers_processes_follow_the_code_and_vite_finds_the_portal(tmp_path: Path) -> None:
    """Against: Vite is told the port of the pages; a heartbeat is asked of a service that waits
    for code that can be loaded."""
    layout = a_layout(tmp_path)
    load_secrets(layout)
    usual = portal_services(layout, port=81)
    *following, pages = portal_services(layout, port=81, pages_port=82)
    assert [service.name for service in following] == [service.name for service in usual]
    assert [shlex.split(service.command[-6]) for service in following] == [
        list(service.command) for service in usual
    ]
    assert {service.command[-5:] for service in following} == {
        ("platform", "tenants", "quotas", "jobs", "billing")
    }
    assert not any(service.beats for service in (*following, pages))
    assert pages.command[3:6] == ("--port", "82", "--strictPort")
    assert pages.environment["TIDEGATE_PORT"] == "81"


def test_a_folder_that_was_never_ours_is_not_deleted(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(LauncherError, match="was not created by Tidegate"):
        Layout(tmp_path).wipe()
    assert (tmp_path / "thesis.txt").exists()
    layout = a_layout(tmp_path)
    layout.wipe()
    layout.wipe()
    assert not layout.state.exists()


def test_a_state_folder_that_cannot_be_made_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LauncherError) as refused:
        Layout(tmp_path / "file").prepare()
    assert str(refused.value) == (
        f"Cannot write to {tmp_path}/file (File exists): change its owner with `chown`, or name "
        "another folder in TIDEGATE_STATE_DIR."
    )


def test_a_full_disk_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = SimpleNamespace(free=12_000_000)
    monkeypatch.setattr("embedded.layout.shutil.disk_usage", lambda path: usage)
    with pytest.raises(LauncherError) as refused:
        Layout(tmp_path).prepare()
    assert str(refused.value) == (
        f"Only 12 MB are free on the disk of {tmp_path}, and the database needs at least 256 MB: "
        "free some space and try again."
    )


def test_logs_are_rotated_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    for number in range(6):
        log.write_text(str(number))
        logs.rotate(log)
    assert sorted(os.listdir(tmp_path)) == ["web.log.1", "web.log.2", "web.log.3"]
    assert [log.with_name(f"web.log.{n}").read_text() for n in (1, 2, 3)] == ["5", "4", "3"]


def test_a_log_that_outgrows_its_bound_is_cut_and_kept_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_BYTES", 10)
    log = tmp_path / "web.log"
    log.write_text("0123456789")
    logs.keep_bounded(log)
    assert log.read_text() == "0123456789"
    with log.open("a") as writer:
        writer.write("x")
        writer.flush()
        logs.keep_bounded(log)
        writer.write("later")
    assert log.read_text() == "later"
    assert (tmp_path / "web.log.1").read_text() == "0123456789x"


def test_the_last_lines_of_a_log_are_quoted(tmp_path: Path) -> None:
    log = tmp_path / "web.log"
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(10_000)) + b"\xff end\n")
    assert logs.last_lines(log)[-2:] == ["line 9999", "\ufffd end"]
    assert len(logs.last_lines(log)) == 15
    assert logs.last_lines(tmp_path / "missing") == []


def test_the_introduction_names_address_logins_and_tokens(tmp_path: Path) -> None:
    layout = a_layout(tmp_path)
    person = {"persona": "Finance", "login": "fay", "password": "a-password", "token": "tg_x"}
    layout.demo_file.write_text(json.dumps({"personas": [person]}))
    assert introduction(layout, port=8000, with_secrets=True) == [
        "",
        "Tidegate is at http://127.0.0.1:8000/",
        "",
        "  persona  login  password    token",
        "  Finance  fay    a-password  tg_x",
        f"The same table is in {layout.demo_file}, for scripts.",
        "",
    ]


def test_without_a_person_at_the_terminal_secrets_are_not_printed(tmp_path: Path) -> None:
    layout = a_layout(tmp_path)
    person = {"persona": "Finance", "login": "fay", "password": "a-password", "token": "tg_x"}
    layout.demo_file.write_text(json.dumps({"personas": [person]}))
    assert introduction(layout, port=8000, with_secrets=False) == [
        "",
        "Tidegate is at http://127.0.0.1:8000/",
        "",
        f"Logins, passwords and tokens of the demo are in {layout.demo_file}.",
        "",
    ]


def test_the_demo_is_left_out_for_good_once_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = a_layout(tmp_path)
    monkeypatch.delenv("TIDEGATE_DEMO", raising=False)
    assert wants_demo(layout)
    monkeypatch.setenv("TIDEGATE_DEMO", "false")
    assert not wants_demo(layout)
    load_secrets(layout)
    monkeypatch.delenv("TIDEGATE_DEMO")
    assert not wants_demo(layout)
    monkeypatch.setenv("TIDEGATE_DEMO", "no")
    with pytest.raises(LauncherError, match="TIDEGATE_DEMO must be true or false, not 'no'"):
        wants_demo(layout)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"personas": [{"login": "fay"}]}'])
def test_without_an_example_only_the_address_is_named(tmp_path: Path, text: str) -> None:
    layout = a_layout(tmp_path)
    layout.demo_file.write_text(text)
    assert read_personas(layout) == []
    for with_secrets in (True, False):
        assert introduction(layout, port=8000, with_secrets=with_secrets) == [
            "",
            "Tidegate is at http://127.0.0.1:8000/",
            "",
            "",
        ]

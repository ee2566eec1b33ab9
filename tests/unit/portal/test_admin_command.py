"""`tidegate-admin`: the operator's commands, and the first administrator."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import base, call_command

from audit.models import AuditEvent
from builders.api_callers import as_nobody
from builders.cast import a_cast
from builders.factor_builders import an_app
from builders.portal_builders import NOW
from portal.admin_command import COMMANDS, main
from portal.management.commands import create_admin
from tenants.administrators import has_administrator
from tenants.models import User, UserKind

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command closes the connections of its process, and here that is the test's."""
    monkeypatch.setattr(base.connections, "close_all", lambda: None)


PASSWORD = "correct horse battery"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    code = 0
    try:
        main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_the_first_administrator_can_sign_in_and_do_everything(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not has_administrator()
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORD + "\n"))

    code, out, err = run(
        capsys, "create-admin", "--username", "maria", "--name", "Maria Silva", "--password-stdin"
    )

    assert (code, err) == (0, "")
    assert out == "maria is a platform administrator and can sign in now.\n"
    user = User.objects.get()
    assert (user.login, user.name, user.kind) == ("maria", "Maria Silva", UserKind.PERSON)
    assert user.check_password(PASSWORD)
    assert [(grant.role, grant.node) for grant in user.grants.all()] == [("platform_admin", None)]
    event = AuditEvent.objects.get()
    assert (event.actor, event.action, event.subject_id) == (
        "operator",
        "administrator_created",
        str(user.pk),
    )
    assert event.detail == {"login": "maria", "name": "Maria Silva"}
    assert has_administrator()


@pytest.mark.parametrize(
    ("username", "password", "sentence"),
    [
        ("Maria", PASSWORD, "username must be 1 to 63 of a-z"),
        ("maria", "short", "at least 12 characters"),
        ("maria", "", "at least 12 characters"),
        ("root", PASSWORD, "There is already a user root. Choose another username."),
    ],
)
def test_a_refusal_is_a_sentence_and_nobody_is_made(
    username: str,
    password: str,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_cast()
    before = User.objects.count()
    monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))

    code, out, err = run(capsys, "create-admin", "--username", username, "--password-stdin")

    assert (code, out) == (1, "")
    assert sentence in err
    assert "Traceback" not in err
    assert User.objects.count() == before


def test_nobody_is_asked_where_nobody_sits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "This is not a terminal." in run(capsys, "create-admin")[2]
    told = run(capsys, "create-admin", "--username", "maria")[2]
    assert "Pipe the password in with --password-stdin." in told


def test_two_passwords_that_differ_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter([PASSWORD, "another one altogether"])
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(create_admin.getpass, "getpass", lambda prompt: next(typed))
    assert "The two passwords differ." in run(capsys, "create-admin", "--username", "maria")[2]


def test_a_lost_second_factor_is_reset_by_the_operator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Against: an installation whose last administrator stays out."""
    cast = a_cast()
    an_app(cast.root, at=NOW)
    code, out, _ = run(capsys, "reset-second-factor", cast.root.login)
    assert (code, out) == (
        0,
        f"{cast.root.login} signs in with the password alone now. All sessions have ended.\n",
    )
    assert AuditEvent.objects.get(action="second_factors_reset").actor == "operator"
    code, _, err = run(capsys, "reset-second-factor", cast.root.login)
    assert (code, "has no second factor" in err) == (1, True)
    assert "There is no person" in run(capsys, "reset-second-factor", "nobody")[2]


class Terminal(io.StringIO):
    """Standard input with a person."""

    def isatty(self) -> bool:
        return True


def test_help_names_every_command_and_a_wrong_word_is_wrong_use(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == list(COMMANDS)
    assert run(capsys)[0] == 2
    code, _, err = run(capsys, "create-user")
    assert code == 2
    assert err.startswith("Unknown command 'create-user'.")
    with pytest.raises(SystemExit):
        main(["create-admin", "--help"])
    assert capsys.readouterr().out.startswith("usage: tidegate-admin create-admin")


def test_createsuperuser_makes_a_platform_administrator(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended with a traceback: nobody had told it how."""
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)

    call_command("createsuperuser", "--no-input", "--login", "maria", stdout=io.StringIO())

    user = User.objects.get()
    assert user.check_password(PASSWORD)
    assert has_administrator()
    assert AuditEvent.objects.get().action == "administrator_created"


def test_strangers_learn_only_whether_there_is_an_administrator(
    settings: Any,
) -> None:
    assert as_nobody().get("installation").json() == {"has_administrator": False}
    cast = a_cast()
    assert as_nobody().get("installation").json() == {"has_administrator": True}
    cast.root.is_active = False
    cast.root.save()
    assert as_nobody().get("installation").json() == {"has_administrator": False}

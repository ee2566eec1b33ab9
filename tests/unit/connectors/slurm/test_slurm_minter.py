"""The minter over a real socket, and the client that keeps its tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import pwd
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from builders.connector_builders import eventually
from connectors.errors import ClusterUnavailable
from connectors.slurm import minter as minter_module
from connectors.slurm.minter import LIFETIME_S, Minter, NoToken, Policy, mint, read_key
from connectors.slurm.tokens import FRESH_S, MinterTokens, TokenRefused, expiry

KEY = b"0123456789abcdef0123456789abcdef"
SERVICE = "daemon"
ANA = pwd.struct_passwd(("ana", "x", 1500, 1500, "", "/home/ana", "/bin/sh"))
LOW = pwd.struct_passwd(("low", "x", 999, 999, "", "/", "/bin/sh"))
TWIN = pwd.struct_passwd(("root", "x", 0, 0, "", "/root", "/bin/sh"))


@pytest.fixture(autouse=True)
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    """UNIX users of the test; "toor" is a second spelling of root."""
    known = {"ana": ANA, "low": LOW, "toor": TWIN, "root": TWIN}
    real = pwd.getpwnam
    monkeypatch.setattr(pwd, "getpwnam", lambda name: known.get(name) or real(name))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "minter")


def serving(
    path: str,
    *,
    uids: tuple[int, ...] = (os.geteuid(),),
    gids: tuple[int, ...] = (),
    **policy: Any,
) -> Minter:
    minter = Minter(KEY, path, Policy(SERVICE, **policy), uids, gids)
    threading.Thread(target=minter.serve, daemon=True).start()
    return minter


@pytest.fixture
def minter(path: str) -> Iterator[Minter]:
    opened = serving(path)
    yield opened
    opened.stop()


def ask(path: str, request: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(path)
        # Who may not ask is told so and hung up on before the question.
        with suppress(BrokenPipeError):
            peer.sendall(request)
        answer: dict[str, Any] = json.loads(peer.makefile().readline())
        return answer


def is_listened_on(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as peer:
        return peer.connect_ex(path) == 0


def claims_of(token: str) -> dict[str, Any]:
    head, body, signature = (base64.urlsafe_b64decode(p + "==") for p in token.split("."))
    signed = token.rpartition(".")[0].encode()
    assert hmac.new(KEY, signed, hashlib.sha256).digest() == signature
    assert json.loads(head) == {"alg": "HS256", "typ": "JWT"}
    claims: dict[str, Any] = json.loads(body)
    return claims


def test_a_token_is_signed_names_its_user_and_ends() -> None:
    token, expires_at = mint(KEY, "ana", 1_000)
    assert (claims_of(token), expires_at) == ({"exp": 1_300, "iat": 1_000, "sun": "ana"}, 1_300)
    assert expiry(token) == 1_300
    for lifetime_s in (0, LIFETIME_S + 1):
        with pytest.raises(ValueError, match="lives"):
            mint(KEY, "ana", 1_000, lifetime_s)


def test_a_key_in_pem_is_bytes_as_any_other() -> None:
    """Slurm's documentation of 2020 makes keys with `openssl genrsa`, and Slurm takes every byte
    of the file. Planted: PyJWT signs, which refuses a key in PEM."""
    key = b"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----\n"
    signed, _, signature = mint(key, "ana", 1_000)[0].rpartition(".")
    expected = hmac.new(key, signed.encode(), hashlib.sha256).digest()
    assert base64.urlsafe_b64decode(signature + "=") == expected


@pytest.mark.usefixtures("minter")
def test_tokens_over_the_socket(path: str, caplog: pytest.LogCaptureFixture) -> None:
    before = int(time.time())
    with caplog.at_level(logging.INFO):
        answer = ask(path, b'{"user": "ana"}\n')
    claims = claims_of(answer["token"])
    assert claims["sun"] == "ana"
    assert before <= claims["iat"] <= int(time.time())
    assert claims["exp"] == answer["expires_at"] == claims["iat"] + 300
    assert claims_of(ask(path, b'{"user": "daemon"}\n')["token"])["sun"] == SERVICE
    assert f"user=ana expires_at={answer['expires_at']}" in caplog.text
    assert answer["token"].split(".")[2] not in caplog.text


@pytest.mark.usefixtures("minter")
@pytest.mark.parametrize(
    "user", ["root", "toor", "low", "nobody", "bin", "no-such-user", "", "a b", "ana\n", "ä"]
)
def test_who_gets_none(path: str, user: str) -> None:
    """Mutants: without the look at the entry "toor" got root's token; at the uid, "low" one."""
    answer = ask(path, json.dumps({"user": user}).encode() + b"\n")
    assert list(answer) == ["refused"]


@pytest.mark.usefixtures("minter")
@pytest.mark.parametrize(
    "request_line",
    [
        b"\n",
        b"x\n",
        b"[]\n",
        b'"ana"\n',
        b"{}\n",
        b'{"user": 7}\n',
        b'{"user": "ana", "lifetime_s": 9}\n',
        b"[" * 900 + b"\n",
        b"\xff\n",
        b"x" * 5_000,
    ],
)
def test_what_is_no_request(path: str, request_line: bytes) -> None:
    assert list(ask(path, request_line)) == ["error"]


def test_only_the_allowed_may_ask(path: str) -> None:
    minter = serving(path, uids=(os.geteuid() + 1,))
    assert list(ask(path, b'{"user": "ana"}\n')) == ["error"]
    with pytest.raises(ClusterUnavailable, match="may not ask"):
        MinterTokens(path).token_for("ana")
    minter.stop()


def test_who_may_not_ask_takes_nobody_s_place(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: each had a thread and five seconds to ask, so that a few hundred silent connections
    of any local user left the portal without tokens; and each wrote a line into the log."""
    monkeypatch.setattr(minter_module, "PEERS_MAX", 0)
    minter = serving(path, uids=(os.geteuid() + 1,))
    refusal = {"error": f"uid {os.geteuid()} may not ask for tokens"}
    strangers = [socket.socket(socket.AF_UNIX) for _ in range(200)]
    try:
        for stranger in strangers:
            stranger.settimeout(10)
            stranger.connect(path)
        assert [json.loads(stranger.recv(1_000)) for stranger in strangers] == [refusal] * 200
    finally:
        for stranger in strangers:
            stranger.close()
    minter.stop()
    assert caplog.text.count("may not ask") == 1


def test_the_group_must_be_allowed_too_where_one_is_named(path: str) -> None:
    """Planted: the group not compared; the group enough without the uid."""
    other, own = os.getegid() + 1, os.getegid()
    minter = serving(path, gids=(other,))
    assert ask(path, b'{"user": "ana"}\n') == {"error": f"gid {own} may not ask for tokens"}
    minter.stop()
    serving(f"{path}-2", gids=(other, own))
    assert sorted(ask(f"{path}-2", b'{"user": "ana"}\n')) == ["expires_at", "token"]
    serving(f"{path}-3", uids=(os.geteuid() + 1,), gids=(own,))
    assert list(ask(f"{path}-3", b'{"user": "ana"}\n')) == ["error"]


def test_a_list_of_users_is_read_each_time(tmp_path: Path) -> None:
    listed = tmp_path / "users"
    listed.write_text("leo\n")
    policy = Policy(SERVICE, users_file=str(listed))
    with pytest.raises(NoToken, match="list of users"):
        policy.check("ana")
    listed.write_text("leo\nana\n")
    policy.check("ana")
    policy.check(SERVICE)


def test_a_group_that_does_not_exist_has_no_members() -> None:
    with pytest.raises(NoToken, match="group"):
        Policy(SERVICE, group="no-such-group").check("ana")


@pytest.mark.usefixtures("minter")
def test_a_silent_peer_keeps_nobody_waiting(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minter_module, "_PEER_TIMEOUT_S", 0.2)
    silent = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    try:
        for peer in silent:
            peer.connect(path)
        assert "token" in ask(path, b'{"user": "ana"}\n')
        # And they are hung up on.
        silent[0].settimeout(10)
        silent[0].recv(1_000)
    finally:
        for peer in silent:
            peer.close()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    key = tmp_path / "key"
    key.write_bytes(KEY)
    key.chmod(mode)
    with pytest.raises(ValueError, match="owner alone"):
        read_key(str(key))
    key.chmod(0o600)
    assert read_key(str(key)) == KEY


def test_what_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"x" * 15)
    (tmp_path / "short").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "short")
    for name in ("short", "link", "none", "."):
        with pytest.raises(ValueError, match="the key"):
            read_key(str(tmp_path / name))


@pytest.mark.usefixtures("minter")
def test_a_second_minter_does_not_take_the_socket(path: str) -> None:
    with pytest.raises(ValueError, match="another minter"):
        Minter(KEY, path, Policy(SERVICE), [0])
    assert "token" in ask(path, b'{"user": "ana"}\n')


def test_a_socket_that_nobody_listens_on_is_replaced_and_a_file_is_not(tmp_path: Path) -> None:
    path = str(tmp_path / "minter")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    minter = serving(path)
    assert "token" in ask(path, b'{"user": "ana"}\n')
    minter.stop()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="no socket"):
        Minter(KEY, str(tmp_path / "file"), Policy(SERVICE), [0])


def test_the_program(tmp_path: Path) -> None:
    key, path = tmp_path / "key", tmp_path / "minter"
    key.write_bytes(KEY)
    key.chmod(0o644)
    command = [
        *(sys.executable, "-m", "connectors.slurm.minter", "--key", str(key)),
        *("--socket", str(path), "--allow-uid", str(os.geteuid()), "--service-user", SERVICE),
    ]
    platform = Path(__file__).resolve().parents[4] / "platform"
    environment = {**os.environ, "PYTHONPATH": str(platform)}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (refused.returncode, "chmod 600" in refused.stderr) == (2, True)
    key.chmod(0o600)
    running = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: is_listened_on(str(path)))
        assert claims_of(MinterTokens(str(path)).token_for(SERVICE))["sun"] == SERVICE
    finally:
        running.terminate()
        _, said = running.communicate(timeout=30)
    assert running.returncode == 0
    assert f"user={SERVICE}" in said
    assert not path.exists()


# The client


@pytest.mark.usefixtures("minter")
def test_a_token_is_kept_until_it_is_about_to_end(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = MinterTokens(path)
    first = tokens.token_for("ana")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME_S - FRESH_S - 5)
    assert tokens.token_for("ana") == first
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME_S - FRESH_S + 5)
    second = tokens.token_for("ana")
    assert second != first
    assert tokens.token_for("ana") == second


def answering(path: str, answer: bytes) -> None:
    """One peer gets `answer` at `path`."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()

    def serve() -> None:
        with listening:
            peer, _ = listening.accept()
            with peer:
                peer.recv(1_000)
                peer.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()


def told(**claims: object) -> bytes:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return json.dumps({"token": f"e30.{body}.c2ln"}).encode() + b"\n"


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (b"", "no sensible answer"),
        (b"null\n", "no sensible answer"),
        (b'{"error": "busy"}\n', "busy"),
        (b'{"token": "a b.c.d"}\n', "no token"),
        (b'{"token": "a.b.c"}\n', "not when it ends"),
        (told(exp="soon"), "not when it ends"),
        (told(sun="ana"), "not when it ends"),
        (told(exp=1_000), "ends in"),
        (b"x" * 20_000, "no sensible answer"),
    ],
)
def test_answers_that_are_no_tokens(path: str, answer: bytes, match: str) -> None:
    """Mutant: `exp` was not looked at; an expired token went to the cluster."""
    answering(path, answer)
    with pytest.raises(ClusterUnavailable, match=match):
        MinterTokens(path).token_for("ana")


@pytest.mark.usefixtures("minter")
def test_a_refusal_is_told_from_an_outage(path: str) -> None:
    with pytest.raises(TokenRefused, match="root"):
        MinterTokens(path).token_for("root")
    with pytest.raises(ClusterUnavailable, match="minter at") as outage:
        MinterTokens(f"{path}-gone").token_for("ana")
    assert not isinstance(outage.value, TokenRefused)

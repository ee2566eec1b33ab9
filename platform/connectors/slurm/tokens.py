"""Tokens of the cluster's users, from the minter, the only process with the key."""

from __future__ import annotations

import base64
import json
import re
import socket
import threading
import time
from contextlib import suppress

from connectors.errors import ClusterUnavailable

#: A token with fewer seconds left is no longer used.
FRESH_S = 60
ANSWER_BYTES_MAX = 8_192
KEPT_MAX = 10_000
_TIMEOUT_S = 5.0
_TOKEN = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)


class TokenRefused(ClusterUnavailable):
    """The minter refuses tokens for this user. Asking again alone changes nothing."""


class MinterTokens:
    """Tokens from the minter at a Unix socket, cached until a minute before they expire.

    Safe to use from several threads.
    """

    def __init__(self, socket_path: str) -> None:
        self._path = socket_path
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[str, int]] = {}

    def token_for(self, user: str) -> str:
        """Return a token of `user` that is valid for at least a minute.

        Raises TokenRefused when the minter refuses the user, and ClusterUnavailable when it does
        not answer.
        """
        now = int(time.time())
        with self._lock:
            kept = self._kept.get(user)
        if kept is not None and kept[1] - FRESH_S > now:
            return kept[0]
        token = self._ask(user)
        expires_at = expiry(token)
        if expires_at - FRESH_S <= now:
            raise ClusterUnavailable(
                f"the minter gave a token of {user} that ends in {expires_at - now} s; "
                "compare the clocks"
            )
        with self._lock:
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[user] = (token, expires_at)
        return token

    def _ask(self, user: str) -> str:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                peer.settimeout(_TIMEOUT_S)
                peer.connect(self._path)
                # The minter answers a refused peer and closes the connection before it reads the
                # request.
                with suppress(BrokenPipeError):
                    peer.sendall(json.dumps({"user": user}).encode() + b"\n")
                line = _read_line(peer)
        except OSError as error:
            raise ClusterUnavailable(f"no token: the minter at {self._path}: {error}") from error
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ClusterUnavailable(
                f"no token: the minter at {self._path} gave no sensible answer"
            )
        if isinstance(answer.get("refused"), str):
            raise TokenRefused(f"no token for {user}: {answer['refused']}")
        token = answer.get("token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ClusterUnavailable(f"no token for {user}: {str(answer.get('error'))[:200]}")
        return token


def expiry(token: str) -> int:
    """Return the expiry of `token` in epoch seconds. Raises ClusterUnavailable when it has none."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        expires_at = claims["exp"]
    except (ValueError, KeyError, IndexError, TypeError):
        raise ClusterUnavailable("a token says not when it ends") from None
    if type(expires_at) is not int:
        raise ClusterUnavailable("a token says not when it ends")
    return expires_at


def _read_line(peer: socket.socket) -> bytes:
    deadline = time.monotonic() + _TIMEOUT_S
    data = b""
    while not data.endswith(b"\n") and len(data) < ANSWER_BYTES_MAX:
        if time.monotonic() > deadline:
            raise TimeoutError("no whole answer in time")
        piece = peer.recv(ANSWER_BYTES_MAX - len(data))
        if not piece:
            break
        data += piece
    return data

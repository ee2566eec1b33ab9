r"""The process that holds the key of a Slurm cluster's tokens and makes short-lived ones with it.

    python -m connectors.slurm.minter --key FILE --socket FILE --allow-uid UID \
        [--allow-gid GID] --service-user NAME [--group NAME] [--users-file FILE]

The key makes its holder root on the cluster, so it never enters the portal's processes. They ask
here over a Unix socket, one JSON object in one line per connection:

    {"user": "ana"}  ->  {"token": "...", "expires_at": 1795234732}
                     or  {"refused": "why this user never gets one"}
                     or  {"error": "what was wrong with the request"}

The kernel reports the peer's ids. Only uids of --allow-uid get an answer. With --allow-gid, the
peer's group must also be one of these.

Tokens are made for the service user and for UNIX users from uid 1000 on, except root, slurm and
nobody. With --group, only its members get one. With --users-file, only users named in it (one a
line) get one.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import grp
import hashlib
import hmac
import json
import logging
import math
import os
import pwd
import re
import signal
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger("tidegate.minter")

LIFETIME_S = 300
REQUEST_BYTES_MAX = 1_024
PEERS_MAX = 64
#: Connections that may wait to be accepted. Peers that may not ask are closed at once.
BACKLOG = 1_024
#: Seconds between two log lines about refusals of the same uid.
REFUSALS_TOLD_S = 60
UID_MIN = 1_000
_PEER_TIMEOUT_S = 5.0
_KEY_BYTES_MIN = 16
_KEY_BYTES_MAX = 4_096
_USERS_FILE_BYTES_MAX = 4 << 20
_REFUSED_USERS = frozenset({"root", "slurm", "nobody"})
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}", re.ASCII)


class NoToken(Exception):
    """This user gets no token. The text says why."""


class BadRequest(Exception):
    """The request is invalid. The text shows a valid one."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Decides about tokens: for the service user, and for UNIX users that may run jobs."""

    service_user: str
    group: str | None = None
    users_file: str | None = None

    def check(self, user: str) -> None:
        """Raise NoToken for a user that gets none."""
        if not _NAME.fullmatch(user):
            raise NoToken("that is no name of a UNIX user")
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            raise NoToken("there is no such UNIX user where tokens are made") from None
        if user == self.service_user:
            return
        # By the entry's own name too: a directory may know one user by several spellings.
        if user in _REFUSED_USERS or entry.pw_name in _REFUSED_USERS or entry.pw_uid < UID_MIN:
            raise NoToken(f"jobs may not run as a user of the system (uid below {UID_MIN})")
        if self.group is not None and not _is_member(entry, self.group):
            raise NoToken(f"the user is not in the group {self.group}")
        if self.users_file is not None and user not in _listed(self.users_file):
            raise NoToken("the user is not in the list of users of this cluster")


def read_key(path: str) -> bytes:
    """Return the key in `path`, as Slurm reads it: every byte of the file.

    Raises ValueError for a file that users other than its owner can read.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"the key {path} cannot be read: {error.strerror}") from None
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"the key {path} is no regular file")
        if found.st_uid not in {0, os.geteuid()} or found.st_mode & 0o077:
            raise ValueError(
                f"the key {path} must be readable by its owner alone: chmod 600 it, "
                "and let it belong to root or to the user that runs this"
            )
        key = os.read(opened, _KEY_BYTES_MAX + 1)
    finally:
        os.close(opened)
    if not _KEY_BYTES_MIN <= len(key) <= _KEY_BYTES_MAX:
        raise ValueError(f"the key {path} must have {_KEY_BYTES_MIN} to {_KEY_BYTES_MAX} bytes")
    return key


def mint(key: bytes, user: str, now: int, lifetime_s: int = LIFETIME_S) -> tuple[str, int]:
    """Return a token of `user` (HS256 over the claims that Slurm reads) and its expiry time."""
    if not 1 <= lifetime_s <= LIFETIME_S:
        raise ValueError(f"a token lives 1 to {LIFETIME_S} s")
    expires_at = now + lifetime_s
    parts = ({"alg": "HS256", "typ": "JWT"}, {"exp": expires_at, "iat": now, "sun": user})
    signed = b".".join(
        base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).rstrip(b"=")
        for part in parts
    )
    signature = base64.urlsafe_b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return (signed + b"." + signature.rstrip(b"=")).decode(), expires_at


class Minter:
    """Answers on a Unix socket until `stop`. Each peer has a thread and a few seconds."""

    def __init__(
        self,
        key: bytes,
        path: str,
        policy: Policy,
        allowed_uids: Sequence[int],
        allowed_gids: Sequence[int] = (),
    ) -> None:
        self._key = key
        self._path = path
        self._policy = policy
        self._allowed_uids = frozenset(allowed_uids)
        self._allowed_gids = frozenset(allowed_gids)
        self._peers = threading.BoundedSemaphore(PEERS_MAX)
        self._refusals_told: dict[int, float] = {}
        self._is_stopping = False
        self._socket = _listen(path)

    def serve(self) -> None:
        """Answer until `stop` is called, then remove the socket."""
        try:
            while not self._is_stopping:
                try:
                    peer, _ = self._socket.accept()
                except TimeoutError:
                    continue
                if refusal := self._refusal(peer):
                    # Closed without a thread: refused peers could occupy all threads.
                    _hang_up(peer, refusal)
                    continue
                if not self._peers.acquire(blocking=False):
                    # All threads are free again in a few seconds; the peer tries again.
                    peer.close()
                    continue
                threading.Thread(target=self._serve_peer, args=(peer,), daemon=True).start()
        finally:
            self._socket.close()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def stop(self) -> None:
        """Let `serve` return within a second."""
        self._is_stopping = True

    def _refusal(self, peer: socket.socket) -> str:
        """Return why the peer may not ask; "" when it may."""
        uid, gid = _peer_ids(peer)
        refusal = ""
        if uid not in self._allowed_uids:
            refusal = f"uid {uid} may not ask for tokens"
        elif self._allowed_gids and gid not in self._allowed_gids:
            refusal = f"gid {gid} may not ask for tokens"
        if refusal:
            now_s = time.monotonic()
            if now_s - self._refusals_told.get(uid, -math.inf) >= REFUSALS_TOLD_S:
                self._refusals_told[uid] = now_s
                log.warning("refused uid %d with gid %d: it may not ask", uid, gid)
        return refusal

    def _serve_peer(self, peer: socket.socket) -> None:
        try:
            with peer:
                peer.settimeout(_PEER_TIMEOUT_S)
                answer = self._answer(peer)
                peer.sendall(json.dumps(answer).encode() + b"\n")
        except OSError as error:
            log.warning("a peer went away: %s", error)
        finally:
            self._peers.release()

    def _answer(self, peer: socket.socket) -> dict[str, object]:
        uid, _ = _peer_ids(peer)
        try:
            user = _requested_user(_read_line(peer))
        except BadRequest as error:
            return {"error": str(error)}
        try:
            self._policy.check(user)
        except NoToken as error:
            log.warning("refused uid %d a token of %r: %s", uid, user[:80], error)
            return {"refused": str(error)}
        except (OSError, ValueError) as error:
            log.warning("cannot tell whether %r may have a token: %s", user[:80], error)
            return {"error": f"cannot tell whether the user may have one: {error}"}
        token, expires_at = mint(self._key, user, int(time.time()))
        log.info("minted for uid %d: user=%s expires_at=%d", uid, user, expires_at)
        return {"token": token, "expires_at": expires_at}


def _listen(path: str) -> socket.socket:
    """Return a listening socket at `path`. A socket without a listener is replaced."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise ValueError(f"{path} is there and no socket; move it away")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PEER_TIMEOUT_S)
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
            else:
                raise ValueError(f"another minter listens on {path}")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    # The peer's uid decides whether it may ask, and nobody can forge it.
    os.chmod(path, 0o666)  # noqa: S103
    listening.listen(BACKLOG)
    listening.settimeout(0.5)
    return listening


def _hang_up(peer: socket.socket, refusal: str) -> None:
    with peer, contextlib.suppress(OSError):
        peer.setblocking(False)
        peer.sendall(json.dumps({"error": refusal}).encode() + b"\n")
        # The request is read: closing a socket with unread bytes would discard our answer.
        peer.recv(REQUEST_BYTES_MAX)


def _peer_ids(peer: socket.socket) -> tuple[int, int]:
    """Return the effective uid and gid of the process that connected."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, gid = struct.unpack("3i", credentials)
    return uid, gid


def _read_line(peer: socket.socket) -> bytes:
    deadline = time.monotonic() + _PEER_TIMEOUT_S
    data = b""
    while b"\n" not in data:
        if len(data) > REQUEST_BYTES_MAX or time.monotonic() > deadline:
            raise BadRequest(f"a request is one line of at most {REQUEST_BYTES_MAX} bytes, at once")
        piece = peer.recv(REQUEST_BYTES_MAX)
        if not piece:
            raise BadRequest("a request ends with a newline")
        data += piece
    return data.partition(b"\n")[0]


def _requested_user(line: bytes) -> str:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict) or set(request) != {"user"}:
        raise BadRequest('a request is like {"user": "ana"}')
    user = request["user"]
    if not isinstance(user, str):
        raise BadRequest('a request is like {"user": "ana"}')
    return user


def _is_member(entry: pwd.struct_passwd, group: str) -> bool:
    try:
        gid = grp.getgrnam(group).gr_gid
    except KeyError:
        return False
    return gid in os.getgrouplist(entry.pw_name, entry.pw_gid)


def _listed(path: str) -> frozenset[str]:
    """Return the users in the file. It is read each time, so that a change counts at once."""
    with open(path, "rb") as file:
        text = file.read(_USERS_FILE_BYTES_MAX + 1)
    if len(text) > _USERS_FILE_BYTES_MAX:
        raise ValueError(f"{path} is larger than {_USERS_FILE_BYTES_MAX} bytes")
    return frozenset(line.strip() for line in text.decode("ascii", "replace").splitlines())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the minter until TERM or INT. Returns 2 when it cannot start."""
    parser = argparse.ArgumentParser(
        prog="connectors.slurm.minter", description="Makes short tokens for a Slurm cluster."
    )
    parser.add_argument("--key", required=True, help="file with the cluster's JWT key, mode 600")
    parser.add_argument("--socket", required=True, help="Unix socket to listen on")
    parser.add_argument("--allow-uid", required=True, type=int, action="append")
    parser.add_argument(
        "--allow-gid", type=int, action="append", help="their group must be one of these, too"
    )
    parser.add_argument("--service-user", required=True)
    parser.add_argument("--group", help="only members of this group get tokens")
    parser.add_argument("--users-file", help="only users in this file get tokens, one a line")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        if chosen.service_user in _REFUSED_USERS:
            raise ValueError(f"the service user may not be {chosen.service_user}")
        if chosen.users_file is not None:
            _listed(chosen.users_file)
        minter = Minter(
            read_key(chosen.key),
            str(Path(chosen.socket).absolute()),
            Policy(chosen.service_user, chosen.group, chosen.users_file),
            chosen.allow_uid,
            chosen.allow_gid or (),
        )
    except (OSError, ValueError) as error:
        print(f"the minter cannot start: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: minter.stop())
    log.info("tokens for %s on %s", chosen.service_user, chosen.socket)
    minter.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())

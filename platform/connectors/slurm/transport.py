"""Calls to slurmrestd in the newest API version that both sides know.

Reads are sent again once when the connection was closed under them. Writes never are: a write whose
answer is lost raises OutcomeUnknown. The transport knows no version; dialects.py does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import httpx

from connectors.errors import (
    AnotherCluster,
    ClusterUnavailable,
    ConnectorError,
    NotOffered,
    OutcomeUnknown,
)
from connectors.slurm import answers, outgoing
from connectors.slurm.answers import Answer, AuthenticationFailed, SlurmRefused
from connectors.slurm.dialects import DIALECTS, Dialect

MAX_ANSWER_BYTES = 256 * 1024 * 1024
#: The most invalid records in one list; with more, the whole answer is invalid.
ODD_RECORDS_MAX = 100
#: A slowly arriving answer may take this many read time-outs in all.
_WHOLE_ANSWER_TIMEOUTS = 4
#: The seconds that must be left within a limit for several calls to begin another one. A write that
#: is abandoned earlier may take effect unnoticed.
_READ_WITH_S, _WRITTEN_WITH_S = 0.1, 2.0

_NEVER_SENT = (
    *(httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout),
    *(httpx.LocalProtocolError, httpx.UnsupportedProtocol),
)

Item = TypeVar("Item")


class TokenSource(Protocol):
    """A source of tokens of the cluster's users."""

    def token_for(self, user: str) -> str:
        """Return a token of `user`, valid for at least a minute. Raises ClusterUnavailable."""
        ...


class ClusterName:
    """The name that a cluster must have (None: any), and the name that it reported last."""

    def __init__(self, wanted: str | None) -> None:
        self.wanted = wanted
        self.told: str | None = None

    def note(self, names: Collection[str]) -> None:
        """Record reported names; several names are inconclusive. Raises AnotherCluster."""
        if len(names) != 1:
            return
        (name,) = names
        self.told = name
        if self.wanted is not None and name != self.wanted:
            raise another_cluster(self.wanted, name)


class SlurmTransport:
    """One cluster's slurmrestd, for several threads at once.

    Reads raise ClusterUnavailable. Writes raise other errors:

    - ClusterUnavailable only when the write certainly had no effect.
    - OutcomeUnknown when its effect is unknown.
    - SlurmRefused on a definite refusal.
    - NotOffered for a feature that this version lacks.

    Calls without a user are made as `service_user`. Nothing is written before the cluster has
    reported the name that it must have; `ask_name` asks for it. Every answer with a different name
    raises AnotherCluster.
    """

    def __init__(
        self,
        url: str,
        tokens: TokenSource,
        *,
        service_user: str,
        name: ClusterName,
        ask_name: Callable[[], None],
        version: str | None = None,
        read_timeout_s: float = 30.0,
        connect_timeout_s: float = 3.0,
        transport: httpx.BaseTransport | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        if version is not None and version not in DIALECTS:
            raise NotOffered(f"API {version} is none of {', '.join(DIALECTS)}")
        self.service_user = service_user
        self.name = name
        self._ask_name = ask_name
        self._tokens = tokens
        self._pinned = version
        self._dialect: Dialect | None = None
        self._monotonic_s = monotonic_s
        self._connect_timeout_s = connect_timeout_s
        self._lock = threading.Lock()
        #: By thread, the monotonic time at which its calls must end.
        self._own = threading.local()
        self._url = url.rstrip("/")
        self._read_timeout_s = read_timeout_s
        # Used without an httpx client: it would double the cost of a call for nothing.
        self._http = transport or httpx.HTTPTransport(trust_env=False)

    def close(self) -> None:
        """Close the connections. The transport must not be used afterwards."""
        self._http.close()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit all calls of this thread within the context to `seconds` together.

        A later call raises ClusterUnavailable. A slowly arriving answer may exceed the limit.
        """
        self._own.until_s = self._monotonic_s() + seconds
        try:
            yield
        finally:
            self._own.until_s = None

    def left_s(self) -> float | None:
        """Return the seconds left of `within` for this thread, at least 0; None outside of it."""
        until_s: float | None = getattr(self._own, "until_s", None)
        return None if until_s is None else max(0.0, until_s - self._monotonic_s())

    @property
    def version(self) -> str:
        """The API version in use; asks the cluster when it is not known yet."""
        return self.speak().version

    def read_list(
        self,
        path: str,
        key: str,
        decoder: Callable[[Dialect], Callable[[Mapping[str, Any]], Item]],
        parameters: Mapping[str, str] | None = None,
        *,
        keys: tuple[str, ...] = (),
        odd: Callable[[str], None] | None = None,
        timeout_s: float | None = None,
        overlook: str | None = None,
    ) -> tuple[Item, ...]:
        """Return every record under `key`.

        An error that begins with `overlook` is ignored if the list has records.
        """
        answer = self.read(path, parameters, timeout_s)
        if overlook and answer.errors and answer.body and answer.body.get(key):
            answer = answer.overlooking(overlook)
        if answer.error and answer.error.number == answers.NOTHING_FOUND:
            return ()
        body = self.checked(answer, key)
        decode = decoder(self.speak())
        records = answers.records(body, *(keys or (key,)))
        if odd is None:
            return tuple(decode(record) for record in records)
        found, unread = sensible(records, decode)
        for record, error in unread:
            odd(f"{key} {str(record.get('name'))[:60]!r} makes no sense: {error}")
        return tuple(found)

    def read_body(
        self, path: str, what: str, parameters: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        return self.checked(self.read(path, parameters), what)

    def checked(self, answer: Answer, what: str) -> Mapping[str, Any]:
        """Return the body of a good answer.

        Raises AuthenticationFailed for a refused token, even where the version reports it like a
        dead controller.
        """
        try:
            return answers.check_read(answer, what)
        except AuthenticationFailed:
            raise
        except ClusterUnavailable:
            self.raise_refused_token(answer, what, self.service_user)
            raise

    def check_write(self, answer: Answer, what: str, *, fine: frozenset[int] = frozenset()) -> None:
        """Check a write like `answers.check_write`, but never blame the workload for our rights.

        A refusal because of the service user's rights raises ClusterUnavailable.
        """
        try:
            answers.check_write(answer, what, fine=fine)
        except AuthenticationFailed:
            raise
        except ClusterUnavailable:
            self.raise_refused_token(answer, what, self.service_user)
            raise
        except SlurmRefused as error:
            if error.number in (answers.PERMISSION, answers.NO_SUCH_USER):
                raise ClusterUnavailable(
                    f"{what}: {self.service_user} is not allowed to; make it an operator or "
                    f"administrator of Slurm ({error})"
                ) from error
            raise

    def raise_refused_token(self, answer: Answer, what: str, user: str) -> None:
        """Raise AuthenticationFailed if the failed call was caused by a refused token of `user`.

        v0.0.38 reports a refused token like a dead controller (-1), and for writes like broken
        connections (1000, 5005). Its accounting side names it (1007) and needs no controller. From
        v0.0.40 on the controller side names it, and the accounting side does not (7000). Tokens
        last longer than a call, so a token that is refused now was refused then.
        """
        error, dialect = answer.error, self.speak()
        if error is None or not dialect.may_be_a_refused_token(error.number):
            return
        try:
            error = self._call("GET", dialect.refusal_path, user=user).error
        except ConnectorError:
            return
        if error and answers.verdict(error.number) is answers.Verdict.AUTHENTICATION:
            raise AuthenticationFailed(
                f"the cluster refuses the token of {user} ({what}); {answers.REFUSAL_HINT}"
            )

    def read(
        self,
        path: str,
        parameters: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send a GET, and once more if the connection was closed under it."""
        try:
            try:
                answer = self._call("GET", path, parameters=parameters, timeout_s=timeout_s)
            except _ConnectionClosed:
                answer = self._call("GET", path, parameters=parameters, timeout_s=timeout_s)
        except NotOffered as error:
            # Every version has every read, so this is no complete slurmrestd.
            raise ClusterUnavailable(str(error)) from error
        if answer.cluster:
            self.name.note({answer.cluster})
        return answer

    def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        what: str,
        *,
        parameters: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> Answer:
        if self.name.wanted is not None and self.name.told != self.name.wanted:
            self._ask_name()
        try:
            answer = self._call(method, path, parameters=parameters, body=body, user=user)
        except _NotAnswered as error:
            raise OutcomeUnknown(f"{what}: {error}") from error
        # An answer of another cluster says nothing about our jobs, least of all "no such job".
        if answer.cluster:
            self.name.note({answer.cluster})
        return answer

    def _call(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        user: str | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Make one call in the version in use.

        A missing address triggers one new negotiation of the version. Nothing was done then, so
        that a write may be sent again.
        """
        dialect = self.speak()
        who = self.service_user if user is None else user
        answer = self._send(method, path.format(dialect.version), parameters, body, who, timeout_s)
        if answer.is_absent and self._pinned is None:
            with self._lock:
                if self._dialect is dialect:
                    self._dialect = None
            again = self.speak()
            if again is not dialect:
                if body is not None:
                    raise ClusterUnavailable("the cluster's API version changed; send again")
                path_again = path.format(again.version)
                answer = self._send(method, path_again, parameters, body, who, timeout_s)
        if answer.is_absent:
            raise NotOffered(f"the cluster has no {method} {path.format(dialect.version)}")
        return answer

    def speak(self) -> Dialect:
        """Return the dialect in use.

        The newest version is tried first; 404 means that it is absent.
        """
        dialect = self._dialect
        if dialect is not None:
            return dialect
        for version in (self._pinned,) if self._pinned else DIALECTS:
            answer = self._ping_version(version)
            if not answer.is_absent:
                if answer.status == 401:
                    raise AuthenticationFailed(
                        f"the cluster refuses the token of {self.service_user}; "
                        f"{answers.REFUSAL_HINT}"
                    )
                with self._lock:
                    self._dialect = DIALECTS[version]
                return DIALECTS[version]
        raise ClusterUnavailable(
            f"the cluster offers none of the API versions {self._pinned or ', '.join(DIALECTS)}; "
            "is this slurmrestd's address?"
        )

    def _ping_version(self, version: str) -> Answer:
        def ping() -> Answer:
            return self._send("GET", f"/slurm/{version}/ping", None, None, self.service_user)

        try:
            try:
                return ping()
            except _ConnectionClosed:
                return ping()
        except _NotAnswered as error:
            # The call that needs the version was not sent yet.
            raise ClusterUnavailable(str(error)) from error

    def _send(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        user: str,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send one request. Raises ClusterUnavailable when it was certainly not sent.

        Raises _NotAnswered or _ConnectionClosed when it may have been carried out.
        """
        outgoing.check_name("user", user)
        headers = {
            "X-SLURM-USER-NAME": user,
            "X-SLURM-USER-TOKEN": self._tokens.token_for(user),
            "Accept-Encoding": "identity",
        }
        read_s = self._read_timeout_s if timeout_s is None else timeout_s
        connect_s = write_s = self._connect_timeout_s
        whole_s = read_s * _WHOLE_ANSWER_TIMEOUTS
        left_s = self.left_s()
        if left_s is not None:
            if left_s < (_READ_WITH_S if method == "GET" else _WRITTEN_WITH_S):
                raise ClusterUnavailable("the cluster takes too long; no more is asked now")
            connect_s = write_s = min(connect_s, left_s / 4)
            read_s = min(read_s, left_s - connect_s - write_s)
            whole_s = min(whole_s, left_s)
        else:
            write_s = read_s
        request = httpx.Request(
            method,
            self._url + path,
            params=parameters or None,
            json=body,
            headers=headers,
            extensions={
                "timeout": {
                    "connect": connect_s,
                    "read": read_s,
                    "write": write_s,
                    "pool": connect_s,
                }
            },
        )
        until_s = self._monotonic_s() + whole_s
        content = bytearray()
        try:
            response = self._http.handle_request(request)
            try:
                for piece in response.iter_bytes():
                    content += piece
                    if len(content) > MAX_ANSWER_BYTES:
                        raise _NotAnswered(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
                    if self._monotonic_s() > until_s:
                        raise _NotAnswered("the answer took too long")
            finally:
                response.close()
        except _NEVER_SENT as error:
            raise ClusterUnavailable(f"no connection to the cluster: {error}") from error
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            raise _ConnectionClosed(f"the cluster closed the connection: {error}") from error
        except httpx.TimeoutException as error:
            raise _NotAnswered(f"the cluster did not answer within {read_s:g} s") from error
        except httpx.HTTPError as error:
            raise _NotAnswered(f"the cluster did not answer: {error!r}") from error
        return answers.read_answer(response.status_code, bytes(content))


class _NotAnswered(ClusterUnavailable):
    """The request may have reached the cluster; there is no answer."""


class _ConnectionClosed(_NotAnswered):
    """The connection ended before the answer did."""


def another_cluster(wanted: str, found: str) -> AnotherCluster:
    return AnotherCluster(
        f"this address answers as {found[:100]}, and {wanted} is what answered before; nothing of "
        f"it is believed and nothing is sent. Let the address lead to {wanted} again"
    )


def sensible(
    records: Sequence[Mapping[str, Any]], decode: Callable[[Mapping[str, Any]], Item]
) -> tuple[list[Item], list[tuple[Mapping[str, Any], Exception]]]:
    """Return the decoded `records`, and the invalid ones with their errors.

    One invalid record must not hide the others. Raises ClusterUnavailable when there are more than
    ODD_RECORDS_MAX.
    """
    found: list[Item] = []
    odd: list[tuple[Mapping[str, Any], Exception]] = []
    for record in records:
        try:
            found.append(decode(record))
        except (ClusterUnavailable, ValueError, TypeError, OverflowError) as error:
            odd.append((record, error))
            if len(odd) > ODD_RECORDS_MAX:
                raise ClusterUnavailable(
                    f"more than {ODD_RECORDS_MAX} records of the cluster make no sense: {error}"
                ) from error
    return found, odd


def path_part(name: str) -> str:
    return quote(name, safe="")

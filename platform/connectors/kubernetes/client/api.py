"""The API server of a Kubernetes cluster: plain dicts over the official client's connections.

The official client reads kubeconfigs, tokens and certificates and renews them. Its models are not
used, because they drop the fields that they do not know. Paths are strings such as
`/apis/batch/v1/namespaces/NS/jobs/NAME`.

Reads raise ClusterUnavailable, NotFound or another KubeRefused. A write raises ClusterUnavailable
when it certainly had no effect. It raises OutcomeUnknown when its effect is unknown, and
KubeRefused on a definite refusal.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, cast
from urllib.parse import urlencode

import orjson
import urllib3

from connectors.errors import AnotherCluster, ClusterUnavailable, ConnectorError, OutcomeUnknown
from connectors.kubernetes.objects.naming import FIELD_MANAGER

log = logging.getLogger(__name__)

Json = dict[str, Any]

CONNECT_TIMEOUT_S = 3.0
READ_TIMEOUT_S = 10.0
#: A write may wait 10 s for a webhook. Its time-out is longer, so that the API server's answer
#: says which webhook was silent.
WRITE_TIMEOUT_S = 13.0
#: Seconds until the last part of a slow answer begins; that part may take WRITE_TIMEOUT_S. The
#: total is below 30 s, and below the 34 s that an API server without its storage waits.
WHOLE_ANSWER_S = 16.0
#: Seconds after which the server ends a watch, and after which a silent watch is dropped.
WATCH_S = 25
_SILENCE_S = 28.0
PAGE = 500
MAX_ANSWER_BYTES = 256 << 20
_MAX_ERROR_BYTES = 1 << 20
#: Connections kept for calls at the same time; more are opened and closed as they are needed.
_CONNECTIONS = 32
_LISTS_BEGUN_ANEW = 3
#: A write needs a confirmation of the cluster's identity within so many seconds.
CONFIRMED_S = 10.0
IDENTITY_PATH = "/api/v1/namespaces/kube-system"
_CHUNK = 1 << 16

_NEVER_SENT = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.LocationParseError,
)
#: The cause of an eviction that a PodDisruptionBudget refuses for now, and the server's text for
#: the separate error where there are several budgets.
_BUDGET = "DisruptionBudget"
_SEVERAL_BUDGETS = "This pod has more than one PodDisruptionBudget"
_WEBHOOK_AWAY = ("failed calling webhook", "failed to call webhook")
#: The beginning of a message where a webhook answered. The code is then the webhook's: 4xx for a
#: policy, and 404 if the webhook does not know a new namespace yet.
_WEBHOOK_SAYS = re.compile(r'admission webhook "[^"]*" denied the request', re.ASCII)


@dataclass(frozen=True, slots=True)
class Cause:
    """One problem of an object: its field, and the server's reason and message."""

    field: str
    reason: str
    message: str


class KubeRefused(ConnectorError):
    """A definite refusal of one request: repeating it changes nothing."""

    def __init__(
        self, code: int, reason: str, message: str, causes: tuple[Cause, ...] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.causes = causes


class NotFound(KubeRefused):
    """No such object, namespace or kind exists."""


class AlreadyExists(KubeRefused):
    """An object of that name exists."""


class Conflict(KubeRefused):
    """The object has changed, is a different one, or another manager owns its fields."""


class Forbidden(KubeRefused):
    """Our rights are insufficient, or a policy refuses the request."""

    @property
    def is_for_all(self) -> bool:
        """Return whether RBAC forbids our account to do this to any object."""
        return ' is forbidden: User "' in self.message and '" cannot ' in self.message


class MayNotGo(KubeRefused):
    """The Pod is not evicted now, because of its PodDisruptionBudgets."""


class Gone(KubeRefused):
    """The resource version to resume from is too old: list anew."""


class WebhookAway(ClusterUnavailable):
    """A webhook for the call does not answer; the API server itself does."""


class StreamSilent(ClusterUnavailable):
    """A stream was silent for longer than allowed."""


@dataclass(frozen=True, slots=True)
class KubeList:
    """One complete list. `observed_at` is the server's time in epoch seconds."""

    items: list[Json]
    resource_version: str
    observed_at: int


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a watch. `kind` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    kind: str
    object: Json


@dataclass(frozen=True, slots=True)
class Probe:
    """The cluster's current time, and its globally unique uid."""

    observed_at: int
    uid: str


class Stream:
    """The bytes of an answer as they come. `close` ends it from any thread."""

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        self._answer = answer
        self.observed_at = _date_of(answer)

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._answer.stream(_CHUNK)
        except urllib3.exceptions.ReadTimeoutError as error:
            raise StreamSilent("the stream says nothing any more") from error
        # A socket that was shut down under the reader may fail in any of these ways.
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as error:
            raise ClusterUnavailable(f"the stream ended: {error}") from error
        finally:
            self._answer.close()

    def close(self) -> None:
        """End it: its reader gets the end or ClusterUnavailable."""
        with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
            self._answer.shutdown()


class Watch:
    """The events of one watch. It ends when the server ends it.

    Raises Gone and ClusterUnavailable. `close` ends it from any thread.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Event]:
        rest = b""
        for chunk in self._stream:
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_ANSWER_BYTES:
                raise ClusterUnavailable("an event of a watch is too large")
            for line in lines:
                if line:
                    yield _event(line)

    def close(self) -> None:
        """End it: its reader gets the end or ClusterUnavailable."""
        self._stream.close()


class KubeApi:
    """One cluster, for several threads at once.

    `identity` is the uid that the cluster must have. With it, nothing is written unless the cluster
    has confirmed that uid within `CONFIRMED_S`. Another uid raises AnotherCluster. `calls` counts
    the requests sent. `read_s` and `write_s` are how long the answer to a read and to a write may
    be silent. `lasts_s` is the time from now on after which nothing more is sent or read.
    """

    def __init__(
        self,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        identity: str | None = None,
        read_s: float = READ_TIMEOUT_S,
        write_s: float = WRITE_TIMEOUT_S,
        lasts_s: float = float("inf"),
    ) -> None:
        self._opening = threading.Lock()
        self._read_s = read_s
        self._write_s = write_s
        self._ends_s = time.monotonic() + lasts_s
        self._kubeconfig = kubeconfig
        self._context = context
        self._client: Any = None
        self._opened_from: tuple[int, int, int] | None = None
        self.identity = identity
        self._confirmed_s = -float("inf")
        self.calls = 0

    def probe(self) -> Probe:
        """Ask the cheapest question, for time and uid. Raises AnotherCluster."""
        answer = self._read("GET", IDENTITY_PATH)
        metadata = _object(answer.body, IDENTITY_PATH).get("metadata")
        uid = str(metadata.get("uid", "")) if isinstance(metadata, dict) else ""
        if not uid:
            raise ClusterUnavailable("the API server does not tell the uid of its kube-system")
        if self.identity is not None and uid != self.identity:
            raise AnotherCluster(
                f"the API server answers for another cluster: its namespace kube-system has uid "
                f"{uid}, and ours {self.identity}"
            )
        self._confirmed_s = time.monotonic()
        return Probe(answer.observed_at, uid)

    def get(self, path: str) -> Json:
        """Return one object. Raises NotFound."""
        return _object(self._read("GET", path).body, path)

    def list(self, path: str, *, labels: str = "", fields: str = "") -> KubeList:
        """Return all matching objects of a collection, page by page, with kind and apiVersion."""
        for _ in range(_LISTS_BEGUN_ANEW):
            with contextlib.suppress(Gone):
                return self._list(path, _selectors(labels, fields))
        raise ClusterUnavailable(f"{path} changes faster than it can be listed")

    def version(self, path: str) -> int:
        """Return the current resource version of the collection `path`.

        It never falls, unless the cluster was restored from a backup.
        """
        page = _object(self._read("GET", path, {"limit": "1"}).body, path)
        try:
            return int(page["metadata"]["resourceVersion"])
        except (KeyError, TypeError, ValueError) as error:
            raise ClusterUnavailable(f"{path} has a version that is no number") from error

    def create(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Json:
        """Create an object in the collection `path`. Raises AlreadyExists."""
        query = _write_query(dry_run=dry_run)
        return self._write("POST", path, body, query, "application/json")

    def try_create(self, path: str, body: Mapping[str, Any]) -> tuple[Json, tuple[str, ...]]:
        """Return the object as the collection `path` would store it, and the server's warnings.

        Nothing is stored. Raises as `create` does.
        """
        return self._written("POST", path, body, _write_query(dry_run=True), "application/json")

    def apply(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        force: bool = False,
        dry_run: bool = False,
        subresource: str = "",
        manager: str = FIELD_MANAGER,
    ) -> Json:
        """Server-side apply of the fields in `body` to the object `path`, as `manager`.

        `force` takes fields from other managers; without it they raise Conflict.
        """
        query = {**_write_query(dry_run=dry_run), "force": "true" if force else "false"}
        query["fieldManager"] = manager
        whole = f"{path}/{subresource}" if subresource else path
        return self._write("PATCH", whole, body, query, "application/apply-patch+yaml")

    def merge_patch(self, path: str, body: Mapping[str, Any], *, dry_run: bool = False) -> Json:
        """Change the fields in `body`. None removes a field, and a list replaces the list."""
        query = _write_query(dry_run=dry_run)
        return self._write("PATCH", path, body, query, "application/merge-patch+json")

    def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        grace_s: int | None = None,
        propagation: str | None = None,
    ) -> None:
        """Delete the object `path`. An absent object, or one with another `uid`, is left alone.

        `grace_s` replaces the Pod's own grace. `propagation` is Background, Foreground or Orphan.
        """
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if propagation is not None:
            options["propagationPolicy"] = propagation
        try:
            self._write("DELETE", path, options, {}, "application/json")
        except NotFound:
            return
        except Conflict:
            if uid is None:
                raise

    def evict(self, path: str, *, name: str, namespace: str, uid: str, grace_s: int) -> None:
        """Evict the Pod `path` as its PodDisruptionBudgets allow. Raises MayNotGo.

        An absent Pod, or one with another `uid`, is left alone.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"gracePeriodSeconds": grace_s, "preconditions": {"uid": uid}},
        }
        with contextlib.suppress(NotFound, Conflict):
            self.create(f"{path}/eviction", body)

    def watch(
        self,
        path: str,
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str,
        timeout_s: int = WATCH_S,
    ) -> Watch:
        """Return the events of a collection after `resource_version`. Raises Gone."""
        query = {
            **_selectors(labels, fields),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
        }
        return Watch(self.stream(path, query=query))

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None, silence_s: float = _SILENCE_S
    ) -> Stream:
        """Return the answer of `path` as it comes, such as a followed log.

        Raises StreamSilent after `silence_s` without a byte.
        """
        answer = self._send("GET", path, query=query, silence_s=silence_s)
        if answer.status != 200:
            raise self._refusal(answer, _limited(answer, _MAX_ERROR_BYTES), "GET", path)
        return Stream(answer)

    def close(self) -> None:
        """Close the connections."""
        with self._opening:
            if self._client is not None:
                self._client.rest_client.pool_manager.clear()

    def _list(self, path: str, selectors: Mapping[str, str]) -> KubeList:
        items: list[Json] = []
        query = {**selectors, "limit": str(PAGE)}
        while True:
            answer = self._read("GET", path, query)
            page = _object(answer.body, path)
            kind = str(page.get("kind", "")).removesuffix("List")
            found, metadata = page.get("items") or [], page.get("metadata") or {}
            if not isinstance(metadata, dict) or not _are_objects(found):
                raise ClusterUnavailable(f"{path} answers what is no list of objects")
            for item in found:
                items.append({"apiVersion": page.get("apiVersion"), "kind": kind, **item})
            if not (following := metadata.get("continue")):
                return KubeList(items, str(metadata.get("resourceVersion", "")), answer.observed_at)
            query = {**selectors, "limit": str(PAGE), "continue": following}

    def _read(self, method: str, path: str, query: Mapping[str, str] | None = None) -> _Answer:
        """Read, and once more if the connection broke or our rights were not known yet."""
        try:
            return self._ask(method, path, query)
        except _TooSlow:
            raise
        except (_Broken, Forbidden):
            return self._ask(method, path, query)

    def _ask(self, method: str, path: str, query: Mapping[str, str] | None) -> _Answer:
        answer = self._send(method, path, query=query, silence_s=self._read_s)
        body = _limited(answer, MAX_ANSWER_BYTES, self._ends_s)
        if answer.status >= 300:
            raise self._refusal(answer, body, method, path)
        return _Answer(body, _date_of(answer))

    def _write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        query: Mapping[str, str],
        content_type: str,
    ) -> Json:
        found, warnings = self._written(method, path, body, query, content_type)
        for warning in warnings:
            log.warning("%s %s: %s", method, path, warning[:500])
        return found

    def _written(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        query: Mapping[str, str],
        content_type: str,
    ) -> tuple[Json, tuple[str, ...]]:
        """Return the answer to a write, with its warnings."""
        if self.identity is not None and time.monotonic() - self._confirmed_s > CONFIRMED_S:
            self.probe()
        what = f"{method} {path}"
        try:
            answer = self._send(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                silence_s=self._write_s,
            )
            data = _limited(answer, MAX_ANSWER_BYTES, self._ends_s)
        except _Broken as error:
            raise OutcomeUnknown(f"{what}: {error}") from error
        if answer.status >= 300:
            raise self._refusal(answer, data, method, path)
        try:
            return _object(data, path), tuple(map(_warning, answer.headers.getlist("Warning")))
        except ClusterUnavailable as error:
            raise OutcomeUnknown(str(error)) from error

    def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "",
        silence_s: float,
    ) -> urllib3.BaseHTTPResponse:
        left_s = self._ends_s - time.monotonic()
        if left_s <= 0:
            raise ClusterUnavailable("it took too long to answer")
        client = self._opened()
        headers = {"Accept": "application/json", "User-Agent": FIELD_MANAGER}
        if content_type:
            headers["Content-Type"] = content_type
        url = client.configuration.host + path
        if query:
            url += "?" + urlencode(query)
        try:
            client.update_params_for_auth(headers, [], ["BearerToken"], "", method, None)
        except Exception as error:
            # The cause is a credential program, its file or its answer, and never the job.
            raise ClusterUnavailable(f"the credentials cannot be read: {error}") from error
        self.calls += 1
        try:
            answer = client.rest_client.pool_manager.request(
                method,
                url,
                body=None if body is None else orjson.dumps(body),
                headers=headers,
                timeout=urllib3.Timeout(
                    connect=min(CONNECT_TIMEOUT_S, left_s),
                    read=min(silence_s, left_s),
                ),
                retries=False,
                redirect=False,
                preload_content=False,
            )
        except _NEVER_SENT as error:
            raise ClusterUnavailable(f"the API server cannot be reached: {error}") from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _Broken(f"the API server does not answer: {error}") from error
        return cast(urllib3.BaseHTTPResponse, answer)

    def _opened(self) -> Any:
        """Return the client, reopened if its kubeconfig was replaced or rewritten."""
        with self._opening:
            version = _version_of(self._kubeconfig)
            if self._client is None or version not in (None, self._opened_from):
                before = self._client
                self._client = _open_client(self._kubeconfig, self._context)
                if before is not None:
                    before.rest_client.pool_manager.clear()
                self._opened_from = version
                self._confirmed_s = -float("inf")
            return self._client

    def _refusal(
        self, answer: urllib3.BaseHTTPResponse, body: bytes, method: str, path: str
    ) -> ConnectorError:
        status = _status_of(body)
        code = answer.status
        words = str(status.get("message") or body[:500].decode(errors="replace") or f"HTTP {code}")
        reason = str(status.get("reason", ""))
        if code == 403 and "is forbidden: User " in words and not self._is_ready():
            return ClusterUnavailable(f"the API server is not ready yet: {words}")
        details = status.get("details")
        listed = details.get("causes") if isinstance(details, dict) else None
        causes = tuple(_cause(one) for one in listed or ()) if _are_mappings(listed) else ()
        if _SEVERAL_BUDGETS in words or any(one.reason == _BUDGET for one in causes):
            return MayNotGo(code, reason, words, causes)
        if code == 401:
            return ClusterUnavailable(
                f"the API server does not know whose credentials these are ({words}): they have "
                "expired or were revoked; write the kubeconfig anew, it is read again by itself"
            )
        webhook_failed = (code == 404 or code >= 500) and _WEBHOOK_SAYS.match(words) is not None
        # None of these requests reached the storage.
        if any(away in words for away in _WEBHOOK_AWAY):
            return WebhookAway(f"{method} {path}: {words}")
        if webhook_failed or code in (429, 503):
            return ClusterUnavailable(f"{method} {path}: {words}")
        if code >= 500 or code < 400:
            unknown = ClusterUnavailable if method == "GET" else OutcomeUnknown
            return unknown(f"{method} {path}: {code} {words}")
        return _kind_of_refusal(code, reason)(code, reason, words, causes)

    def _is_ready(self) -> bool:
        try:
            answer = self._send("GET", "/readyz", silence_s=self._read_s)
            _limited(answer, _MAX_ERROR_BYTES)
        except ClusterUnavailable:
            return False
        return answer.status == 200


class _Broken(ClusterUnavailable):
    """The request was sent, or may have been, and no complete answer came."""


class _TooSlow(_Broken):
    """The answer takes too long or is too large."""


@dataclass(frozen=True, slots=True)
class _Answer:
    body: bytes
    observed_at: int


def _version_of(path: str | None) -> tuple[int, int, int] | None:
    """Return a value that changes when the file is rewritten; None where there is no file."""
    if path is None:
        return None
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _open_client(kubeconfig: str | None, context: str | None) -> Any:
    """Return the official client for a kubeconfig, or for the Pod that we run in.

    Its import takes half a second, so only processes that use such a cluster import it.
    """
    from kubernetes import client
    from kubernetes import config as untyped

    config: Any = untyped
    configuration = client.Configuration()
    configuration.connection_pool_maxsize = _CONNECTIONS
    try:
        if kubeconfig is None:
            config.load_incluster_config(client_configuration=configuration)
        else:
            config.load_kube_config(
                config_file=kubeconfig,
                context=context,
                client_configuration=configuration,
                persist_config=False,
            )
        configuration.retries = False
        return client.ApiClient(configuration)
    except (config.ConfigException, OSError, ValueError) as error:
        where = "in-cluster configuration" if kubeconfig is None else f"kubeconfig {kubeconfig}"
        raise ClusterUnavailable(f"the {where} cannot be used: {error}") from error


def _limited(
    answer: urllib3.BaseHTTPResponse, most_bytes: int, ends_s: float = float("inf")
) -> bytes:
    """Return the complete answer, bounded in size and time. Raises ClusterUnavailable."""
    ends_at = min(ends_s, time.monotonic() + WHOLE_ANSWER_S)
    parts: list[bytes] = []
    size = 0
    try:
        # Read only the bytes that are there: a slow answer would delay a whole chunk.
        while part := answer.read1(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > most_bytes or time.monotonic() > ends_at:
                answer.close()
                raise _TooSlow(f"an answer of {size} bytes in {WHOLE_ANSWER_S} s is not taken")
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise _Broken(f"the answer broke off: {error}") from error
    answer.release_conn()
    return b"".join(parts)


def _warning(header: str) -> str:
    """Return the text of a header `299 - "text"`, in which quotes are escaped."""
    text = header.partition('"')[2].rpartition('"')[0]
    return text.replace('\\"', '"').replace("\\\\", "\\") or header


def _object(body: bytes, path: str) -> Json:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ClusterUnavailable(f"{path} answers what is no JSON") from error
    if not isinstance(found, dict):
        raise ClusterUnavailable(f"{path} answers what is no object")
    return found


def _status_of(body: bytes) -> Json:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return status if isinstance(status, dict) else {}


def _event(line: bytes) -> Event:
    said = _object(line, "a watch")
    kind, thing = str(said.get("type")), said.get("object")
    if not isinstance(thing, dict):
        raise ClusterUnavailable("a watch told an event without an object")
    if kind != "ERROR":
        return Event(kind, thing)
    # The stream itself was answered with 200.
    words = str(thing.get("message", "the watch failed"))
    if thing.get("code") == 410:
        raise Gone(410, str(thing.get("reason", "")), words)
    raise ClusterUnavailable(words)


def _are_mappings(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, dict) for one in found)


def _are_objects(found: object) -> bool:
    return _are_mappings(found) and all(
        isinstance(one.get("metadata"), dict) for one in cast(list[Json], found)
    )


def _cause(said: Mapping[str, Any]) -> Cause:
    field, reason, message = (str(said.get(name, "")) for name in ("field", "reason", "message"))
    return Cause(field, reason, message)


def _date_of(answer: urllib3.BaseHTTPResponse) -> int:
    try:
        return int(parsedate_to_datetime(answer.headers["Date"]).timestamp())
    except (KeyError, ValueError, TypeError) as error:
        raise ClusterUnavailable("the API server does not tell its time") from error


def _kind_of_refusal(code: int, reason: str) -> type[KubeRefused]:
    if code == 409:
        return AlreadyExists if reason == "AlreadyExists" else Conflict
    return {403: Forbidden, 404: NotFound, 410: Gone}.get(code, KubeRefused)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in chosen.items() if value}


def _write_query(*, dry_run: bool) -> dict[str, str]:
    # Strict: otherwise the cluster would silently drop a field that it does not know.
    query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
    return {**query, "dryRun": "All"} if dry_run else query

"""The few calls to the API server that the bed itself makes."""

from __future__ import annotations

import http.client
import json
import select
import ssl
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kubebed.processes import client_tls
from kubebed.settings import HOST, Settings

Document = dict[str, Any]
_CALL_S = 30
_AT_ONCE = 8


class Refused(Exception):
    """The API server said no; `code` is the status."""

    def __init__(self, said: str, code: int) -> None:
        super().__init__(said)
        self.code = code


class Api:
    """The API server as a user of the bed sees it; one connection per thread."""

    def __init__(self, settings: Settings, user: str = "admin") -> None:
        self._port = settings.port("apiserver")
        self.tls: ssl.SSLContext = client_tls(settings, user)
        self._local = threading.local()
        self._links: list[http.client.HTTPSConnection] = []

    def connection(self, timeout_s: float = _CALL_S) -> http.client.HTTPSConnection:
        """A connection of the caller's own."""
        return http.client.HTTPSConnection(HOST, self._port, context=self.tls, timeout=timeout_s)

    def call(
        self, method: str, path: str, body: Document | None = None, kind: str = "application/json"
    ) -> Document:
        """The answer to one request. Raises Refused, and OSError where there is no answer."""
        data = None if body is None else json.dumps(body)
        try:
            status, told = self._exchange(method, path, data, kind)
        except (OSError, http.client.HTTPException) as error:
            if method == "POST":
                raise ConnectionError(f"{method} {path}: {error!r}") from error
            # The server may have closed a connection that waited, or be another since.
            status, told = self._exchange_anew(method, path, data, kind)
        if status >= 400:
            raise Refused(f"{method} {path}: {status} {told.get('message')}", status)
        return told

    def _exchange_anew(
        self, method: str, path: str, data: str | None, kind: str
    ) -> tuple[int, Document]:
        try:
            return self._exchange(method, path, data, kind)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(f"{method} {path}: {error!r}") from error

    def _exchange(
        self, method: str, path: str, data: str | None, kind: str
    ) -> tuple[int, Document]:
        link = getattr(self._local, "link", None)
        if link is not None and _was_closed(link):
            link.close()  # opened again by the request
        if link is None:
            link = self._local.link = self.connection()
            self._links.append(link)
        try:
            link.request(method, path, data, {"Content-Type": kind})
            response = link.getresponse()
            told = response.read()
        except (OSError, http.client.HTTPException):
            link.close()
            raise
        if not response.headers.get("Content-Type", "").startswith("application/json"):
            # Of a group that it does not serve, the server says so in plain words.
            return response.status, {"message": told.decode(errors="replace").strip()}
        return response.status, dict(json.loads(told))

    def close(self) -> None:
        """Close the connections of every thread."""
        for link in self._links:
            link.close()

    def apply(self, document: Document) -> Document:
        """Create the object or bring it to this shape (server-side apply)."""
        path = f"{path_of(document)}?fieldManager=bed&force=true"
        return self.call("PATCH", path, document, "application/apply-patch+yaml")

    def apply_all(self, documents: Iterable[Document]) -> None:
        """Apply each, some at a time."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self.apply, documents))


def _was_closed(link: http.client.HTTPSConnection) -> bool:
    """Whether the server has hung up on a connection that waits: nothing else makes it readable."""
    return link.sock is not None and bool(select.select([link.sock], [], [], 0)[0])


def path_of(document: Document) -> str:
    """Where the API server has the object."""
    group, _, version = str(document["apiVersion"]).rpartition("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    metadata = document["metadata"]
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    kind = str(document["kind"]).lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    return f"{root}{scope}/{plural}/{metadata['name']}"

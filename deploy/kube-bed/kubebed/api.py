"""The few calls to the API server that the bed itself makes."""

from __future__ import annotations

import http.client
import json
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
_PLURALS = {"Topology": "topologies"}


class Refused(Exception):
    """The API server said no; `code` is the status."""

    def __init__(self, said: str, code: int) -> None:
        super().__init__(said)
        self.code = code


class Api:
    """The API server as a user of the bed sees it; one connection per thread."""

    def __init__(self, settings: Settings, user: str = "admin") -> None:
        self._port = settings.port("apiserver")
        self._tls: ssl.SSLContext = client_tls(settings, user)
        self._local = threading.local()

    def connection(self, timeout_s: float = _CALL_S) -> http.client.HTTPSConnection:
        """A connection of the caller's own."""
        return http.client.HTTPSConnection(HOST, self._port, context=self._tls, timeout=timeout_s)

    def call(
        self, method: str, path: str, body: Document | None = None, kind: str = "application/json"
    ) -> Document:
        """The answer to one request. Raises Refused, and OSError where there is no answer."""
        link = getattr(self._local, "link", None)
        if link is None:
            link = self._local.link = self.connection()
        data = None if body is None else json.dumps(body)
        try:
            link.request(method, path, data, {"Content-Type": kind})
            response = link.getresponse()
            told = json.loads(response.read() or b"{}")
        except (OSError, http.client.HTTPException) as error:
            link.close()
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        if response.status >= 400:
            raise Refused(
                f"{method} {path}: {response.status} {told.get('message')}", response.status
            )
        return dict(told)

    def apply(self, document: Document) -> Document:
        """Create the object or bring it to this shape (server-side apply)."""
        path = f"{path_of(document)}?fieldManager=bed&force=true"
        return self.call("PATCH", path, document, "application/apply-patch+yaml")

    def apply_all(self, documents: Iterable[Document]) -> None:
        """Apply each, some at a time."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self.apply, documents))


def path_of(document: Document) -> str:
    """Where the API server has the object."""
    group, _, version = str(document["apiVersion"]).rpartition("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    metadata = document["metadata"]
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    kind = str(document["kind"])
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    return f"{root}{scope}/{plural}/{metadata['name']}"

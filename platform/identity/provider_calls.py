"""Calls to identity providers: bounded in time and size, to allowed addresses only."""

from __future__ import annotations

import socket
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError

from identity.addresses import check_address
from primitives.errors import InvalidRequest
from webapi.outgoing import Deadline, NoAnswer, resolve

#: Seconds for the connection, and for each wait for more of the answer.
CALL_TIMEOUT_S = 5.0
#: Seconds for a whole call, from the connection to the last byte.
ANSWER_TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 1024 * 1024
_CHUNK_BYTES = 16 * 1024


class AddressRefused(requests.RequestException):
    """The portal may not call this address."""


class ProviderSession(requests.Session):
    """Calls of one sign-in. A redirect is an error, because it could lead to an inner server."""

    # The types of requests name each of the twenty arguments.
    def request(self, method: Any, url: Any, **options: Any) -> requests.Response:  # type: ignore[override]
        """Return the whole answer. Raises requests.RequestException, also for a redirect."""
        try:
            check_address(str(url))
        except InvalidRequest as refused:
            raise AddressRefused(refused.detail) from refused
        given = {**options, "timeout": CALL_TIMEOUT_S, "allow_redirects": False, "stream": True}
        with Deadline(ANSWER_TIMEOUT_S) as deadline, _DeadlineAdapter(deadline) as adapter:
            # Of this call alone: a connection that was kept would have the deadline of another.
            self.mount("https://", adapter)
            self.mount("http://", adapter)
            try:
                response = self._whole_answer(method, url, given)
            except requests.RequestException as error:
                if deadline.is_over:
                    raise _too_slow(url) from error
                raise
        if deadline.is_over:
            raise _too_slow(url)
        return response

    def _whole_answer(self, method: Any, url: Any, given: dict[str, Any]) -> requests.Response:
        with super().request(method, url, **given) as response:
            if response.is_redirect:
                raise requests.TooManyRedirects(f"{url} redirects to another address")
            body = bytearray()
            for chunk in response.iter_content(_CHUNK_BYTES):
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    raise requests.RequestException(f"{url} answers with more than 1 MiB")
            # Readers of the response find the bounded body there, as without streaming.
            response._content = bytes(body)
            return response


def _too_slow(url: object) -> requests.Timeout:
    return requests.Timeout(f"{url} does not finish its answer")


class _DeadlineAdapter(HTTPAdapter):
    """Makes connections that end with a deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        super().__init__()

    def __enter__(self) -> _DeadlineAdapter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def init_poolmanager(self, *given: Any, **options: Any) -> None:
        """Let the pools make connections of the deadline."""
        deadline = self._deadline

        def connect(connection: HTTPConnection) -> socket.socket:
            try:
                return deadline.connect(resolve(connection.host, connection.port), connection.port)
            except (OSError, NoAnswer) as error:
                raise NewConnectionError(connection, str(error)) from error

        class Plain(HTTPConnection):
            _new_conn = connect

        class Secure(HTTPSConnection):
            _new_conn = connect

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(HTTPSConnectionPool):
            ConnectionCls = Secure

        super().init_poolmanager(*given, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}

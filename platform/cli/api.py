"""The REST API for the commands: time-outs, safe retries, readable errors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cli.errors import Refused, Unreachable, Waiting
from cli.output import tell
from cli.settings import Settings

if TYPE_CHECKING:  # httpx is slow to import, so only commands that ask a server load it
    import httpx

TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
#: Number of tries of a request when the network or the server fails for a moment.
TRIES = 4
PAUSE_S = 0.5
PAUSE_S_MAX = 10.0
_AGAIN = frozenset({502, 503, 504})
PAGE = 500


def sleep(seconds: float) -> None:
    """Wait. A function of its own, so that tests can replace it."""
    time.sleep(seconds)


class Api:
    """The requests of one command. All of them are safe to repeat."""

    def __init__(
        self, settings: Settings, *, version: str, transport: httpx.BaseTransport | None = None
    ) -> None:
        import httpx

        self.settings = settings
        self._client = httpx.Client(
            base_url=f"{settings.server}/api/v1/",
            headers={
                # A login without a token has none yet.
                **({"Authorization": f"Bearer {settings.token}"} if settings.token else {}),
                "User-Agent": f"tidegate-cli/{version}",
                "Accept": "application/json",
            },
            transport=transport,
            event_hooks={"response": [self._tell_deprecation]},
        )
        self._remarked: set[str] = set()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, /, **parameters: object) -> dict[str, Any]:
        """Return the JSON object at `path`. Parameters that are None are omitted."""
        return _object(self._send("GET", path, parameters=parameters))

    def get_once(self, path: str, /, *, timeout_s: float, **parameters: object) -> dict[str, Any]:
        """Return the JSON object at `path` with a single try, for optional data."""
        return _object(self._send("GET", path, parameters=parameters, tries=1, timeout_s=timeout_s))

    def get_text(self, path: str, **parameters: object) -> str:
        """Return the body at `path` as text."""
        return self._send("GET", path, parameters=parameters, headers={"Accept": "*/*"}).text

    def download(self, path: str) -> Iterator[bytes]:
        """Yield the body at `path` in chunks. A broken connection is not tried again."""
        from httpx import Timeout, TransportError

        timeout = Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        headers = {"Accept": "*/*"}
        try:
            with self._client.stream("GET", path, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                yield from _checked(response).iter_bytes()
        except TransportError as error:
            raise Unreachable(
                f"The download from {self.settings.server} broke off. Try again."
            ) from error

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        **p: object,
    ) -> dict[str, Any]:
        """Send `body` with the Idempotency-Key `key`, and return the answer.

        Omit the key only for requests that are safe to repeat.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        return _object(self._send("POST", path, parameters=p, body=body or {}, headers=headers))

    def get_tagged(self, path: str) -> tuple[dict[str, Any], str]:
        """Return the JSON object at `path`, and its ETag."""
        return _tagged(self._send("GET", path, parameters={}))

    def post_tagged(
        self, path: str, body: Mapping[str, Any] | None = None, *, if_match: str | None = None
    ) -> tuple[dict[str, Any], str]:
        """Send `body`, and return the answer and its ETag.

        Use it for requests that change nothing, or that `if_match` protects from a repeat.
        """
        headers = {} if if_match is None else {"If-Match": if_match}
        return _tagged(self._send("POST", path, parameters={}, body=body or {}, headers=headers))

    def patch(
        self, path: str, body: Mapping[str, Any], *, if_match: str | None = None
    ) -> dict[str, Any]:
        """Change the object at `path`. With `if_match`, change only that version."""
        headers = {} if if_match is None else {"If-Match": if_match}
        return _object(self._send("PATCH", path, parameters={}, body=body, headers=headers))

    def put(
        self, path: str, body: Mapping[str, Any], *, if_match: str | None = None
    ) -> dict[str, Any]:
        """Create or replace the object at `path`. With `if_match`, replace only that version."""
        headers = {} if if_match is None else {"If-Match": if_match}
        return _object(self._send("PUT", path, parameters={}, body=body, headers=headers))

    def delete(self, path: str, *, if_match: str | None = None) -> None:
        """Delete the object at `path`. With `if_match`, delete only that version."""
        headers = {} if if_match is None else {"If-Match": if_match}
        self._send("DELETE", path, parameters={}, headers=headers)

    def items(self, path: str, /, *, most: int, **parameters: object) -> Iterator[dict[str, Any]]:
        """Yield at most `most` items of a list, page by page."""
        from httpx import URL

        given = {**parameters, "limit": min(most, PAGE)}
        cursor: str | None = None
        while most > 0:
            page = self.get(path, **given, cursor=cursor)
            found = page.get("items")
            if not isinstance(found, list):
                raise Unreachable("The server's answer is not a list.")
            yield from found[:most]
            most -= len(found)
            following = page.get("next")
            if not following or not found:
                return
            cursor = URL(str(following)).params.get("cursor")

    def username(self) -> str:
        """Return the username of the token's owner."""
        login = self.settings.login
        if login:
            return login.split("@", 1)[0]
        return str(self.get("session")["user"]["username"])

    def _tell_deprecation(self, response: httpx.Response) -> None:
        """Remark once for each command that the server will end the requested operation."""
        if "Deprecation" not in response.headers:
            return
        operation = f"{response.request.method} {response.request.url.path}"
        if operation not in self._remarked:
            self._remarked.add(operation)
            sunset = response.headers.get("Sunset", "a date that it does not name")
            tell(f"Remark: the server ends {operation} on {sunset}. Update this command.")

    def _send(
        self,
        method: str,
        path: str,
        *,
        parameters: Mapping[str, object],
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        tries: int = TRIES,
        timeout_s: float = TIMEOUT_S,
    ) -> httpx.Response:
        from httpx import Timeout, TransportError

        timeout = Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
        wanted = {name: str(value) for name, value in parameters.items() if value is not None}
        for number in range(1, tries + 1):
            pause_s = min(PAUSE_S * 2 ** (number - 1), PAUSE_S_MAX)
            try:
                response = self._client.request(
                    method, path, params=wanted, json=body, headers=headers, timeout=timeout
                )
            except TransportError as error:
                if number == tries:
                    reason = str(error) or type(error).__name__
                    raise Unreachable(
                        f"{self.settings.server} does not answer ({reason}). Is the address "
                        "right and the server up?"
                    ) from error
            else:
                if response.status_code not in _AGAIN or number == tries:
                    return _checked(response)
                pause_s = max(pause_s, _retry_after_s(response))
            sleep(pause_s)
        raise AssertionError("the last try returns or raises")


def _retry_after_s(response: httpx.Response) -> float:
    text = response.headers.get("Retry-After", "")
    return min(float(text), PAUSE_S_MAX) if text.isascii() and text.isdigit() else 0.0


def _checked(response: httpx.Response) -> httpx.Response:
    if response.is_success:
        _refuse_waiting(response)
        return response
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if response.status_code < 400 or not isinstance(problem, dict) or "detail" not in problem:
        raise Unreachable(
            f"{response.request.url.host} answered {response.status_code}, but not as Tidegate "
            "does. Is the address right?"
        )
    raise Refused(response.status_code, problem)


def _refuse_waiting(response: httpx.Response) -> None:
    """Raise Waiting for a change that a second person decides."""
    if response.status_code == 202:
        answer = response.json()
        if isinstance(answer, dict) and {"request", "url", "detail"} <= answer.keys():
            raise Waiting(answer)


def _tagged(response: httpx.Response) -> tuple[dict[str, Any], str]:
    return _object(response), response.headers.get("ETag", "")


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Unreachable(
            f"{response.request.url.host} answered, but not as Tidegate does. Is the address right?"
        )
    return found

"""The meaning of slurmrestd's answers, by one rule for all its versions.

The HTTP status is not reliable: refusals come as 200, accepted jobs as 500, and an empty list may
be a database that is down. So the body is read, and its errors before its values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import orjson

from connectors.errors import ClusterUnavailable, NotOffered, OutcomeUnknown, WorkloadRejected

NO_CHANGE = 1900
PERMISSION = 2002
NO_SUCH_USER = 2010
NO_SUCH_JOB = 2017
TRY_AGAIN = 2020
ALREADY_DONE = 2021
NODE_STATE = 2180
NO_DATABASE = 7000
NOTHING_FOUND = 9003
_UNSPECIFIED = {None, 0, -1}
_AUTHENTICATION = 1007
# No connection to the controller, its back-off, a job in transition, a standby controller, and no
# connection to the database: the call was not carried out and may be sent again.
_NOT_NOW = {1001, 1800, 1804, 1805, TRY_AGAIN, 2027, NO_DATABASE}
#: Refusals that are not final. Some concern the partition, user, account or QoS: no request names
#: them, and an administrator can create them. Others concern time, nodes, GPUs and features, which
#: another cluster may offer.
NOT_SET_UP = frozenset(
    {2000, 2003, 2010, 2045, 2066, *(2006, 2014, 2015, 2029, 2050, 2051, 2070, 2072, 2101, 2115)}
)
_MAX_TEXT = 600
#: Appended to every error about a refused token.
REFUSAL_HINT = "does the minter have this cluster's key, and do the clocks agree?"


class AuthenticationFailed(ClusterUnavailable):
    """The cluster calls the token expired, forged or another user's. Nothing was done."""


class SlurmRefused(WorkloadRejected):
    """A definite refusal by the cluster. `number` is Slurm's error number, None without one."""

    def __init__(self, text: str, number: int | None) -> None:
        super().__init__(text)
        self.number = number


@dataclass(frozen=True, slots=True)
class SlurmError:
    """One error in an answer. `number` is Slurm's (slurm_errno.h), None without one."""

    number: int | None
    text: str


class Verdict(Enum):
    """The effect of a failed call on the cluster."""

    REFUSED = "refused for good"
    NOT_NOW = "not done, may be sent again"
    AUTHENTICATION = "not done, for its token"
    UNKNOWN = "nobody knows"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `body` is None where it is not a JSON object."""

    status: int
    body: Mapping[str, Any] | None
    errors: tuple[SlurmError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_absent(self) -> bool:
        """Return whether slurmrestd lacks this address, by API version or method."""
        return self.status in (404, 405) and self.body is None

    @property
    def cluster(self) -> str:
        """The name of the cluster that answered; "" with versions before v0.0.40."""
        found: object = self.body
        for key in ("meta", "slurm", "cluster"):
            found = found.get(key) if isinstance(found, Mapping) else None
        return found if isinstance(found, str) else ""

    @property
    def error(self) -> SlurmError | None:
        """The most informative error, with the texts of all errors."""
        if not self.errors:
            return None
        numbers = [error.number for error in self.errors if error.number not in _UNSPECIFIED]
        number = numbers[0] if numbers else self.errors[0].number
        texts = dict.fromkeys(error.text for error in self.errors if error.text)
        return SlurmError(number, "; ".join(texts)[:_MAX_TEXT] or "no text")

    def overlooking(self, text: str) -> Answer:
        """Return this answer without errors that begin with `text`; it is good if none remain."""
        kept = tuple(error for error in self.errors if not error.text.startswith(text))
        return replace(self, errors=kept, status=self.status if kept else 200)

    @property
    def ignored(self) -> str | None:
        """Slurm's message when it ignored a part of our request, which is a bug of ours."""
        for text in self.warnings:
            if text.startswith("Ignoring ") or "Expected OpenAPI type" in text:
                return text[:_MAX_TEXT]
        return None


def _parsed(content: bytes) -> Any:
    """Return the JSON in `content`; None when it is invalid.

    It must be fast: job lists of megabytes come each second.
    """
    try:
        return orjson.loads(content)
    except ValueError:
        # Slurm passes on users' text in any encoding, and invalid numbers.
        try:
            return json.loads(content.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None


def read_answer(status: int, content: bytes) -> Answer:
    """Parse an answer; one that is not a JSON object has `body` None."""
    body = _parsed(content)
    if not isinstance(body, dict):
        return Answer(status, None)
    return Answer(
        status,
        body,
        (*_errors(body.get("errors")), *_statuses(body.get("status"))),
        tuple(_warnings(body.get("warnings"))),
    )


def _errors(entries: object) -> Iterable[SlurmError]:
    if entries is None:
        return
    for entry in entries if isinstance(entries, list) else [entries]:
        if not isinstance(entry, dict):
            yield SlurmError(None, str(entry)[:_MAX_TEXT])
            continue
        # The key is error_number, error_code (submit) or errno (nodes) with v0.0.38.
        number = next(
            (
                entry[key]
                for key in ("error_number", "error_code", "errno")
                if isinstance(entry.get(key), int)
            ),
            None,
        )
        texts = (entry.get("description"), entry.get("error"))
        yield SlurmError(number, ": ".join(dict.fromkeys(str(text) for text in texts if text)))


def _statuses(entries: object) -> Iterable[SlurmError]:
    """Yield the errors that DELETE reports by job; a successful job has code 0."""
    for entry in entries if isinstance(entries, list) else ():
        error = entry.get("error") if isinstance(entry, dict) else None
        if isinstance(error, dict) and error.get("code"):
            number = error["code"] if isinstance(error["code"], int) else None
            yield SlurmError(number, str(error.get("message") or error.get("string") or ""))


def _warnings(entries: object) -> Iterable[str]:
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            yield str(entry.get("description") or entry.get("warning") or "")


def verdict(number: int | None) -> Verdict:
    """Return what an error of `number` implies about the effect of a call (slurm_errno.h)."""
    if number == _AUTHENTICATION:
        return Verdict.AUTHENTICATION
    if number in _NOT_NOW:
        return Verdict.NOT_NOW
    if number is not None and (2000 <= number <= 2999 or 7001 <= number <= 7999):
        return Verdict.REFUSED
    if number is not None and 9000 <= number <= 9999:
        return Verdict.REFUSED
    return Verdict.UNKNOWN


def check_read(answer: Answer, what: str) -> Mapping[str, Any]:
    """Return the body of an answer to a read. Raises ClusterUnavailable if it has errors."""
    error = answer.error
    if answer.status == 401 or (error and verdict(error.number) is Verdict.AUTHENTICATION):
        raise AuthenticationFailed(f"the cluster refuses our token ({what}); {REFUSAL_HINT}")
    if error is not None:
        text = f"{what}: {error.text} (Slurm error {error.number})"
        if error.number in _UNSPECIFIED:
            text += "; slurmrestd answers, is slurmctld (for accounting: slurmdbd) down behind it?"
        raise ClusterUnavailable(text)
    if answer.body is None or answer.status != 200:
        raise ClusterUnavailable(
            f"{what}: the answer is no {what} (HTTP status {answer.status}); is this slurmrestd?"
        )
    if answer.ignored is not None:
        raise ClusterUnavailable(f"{what}: a part of our request was left out: {answer.ignored}")
    return answer.body


def records(body: Mapping[str, Any], *keys: str) -> list[Mapping[str, Any]]:
    """Return the list under the first of `keys` that the body has."""
    for key in keys:
        if key in body:
            found = body[key]
            if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
                raise ClusterUnavailable(f"the cluster's {key} are no list of records")
            return found
    raise ClusterUnavailable(f"the cluster's answer has no {keys[0]}")


def check_write(answer: Answer, what: str, *, fine: frozenset[int] = frozenset()) -> None:
    """Raise the error of a failed write; errors in `fine` mean that there was nothing to do.

    Raises SlurmRefused (a definite refusal), AuthenticationFailed or ClusterUnavailable (not done),
    NotOffered (this version ignored a part of the request) or OutcomeUnknown.
    """
    error = answer.error
    if error is not None:
        if error.number not in fine:
            raise failure(answer, what)
    elif answer.body is None or answer.status >= 300:
        raise failure(answer, what)
    elif answer.ignored is not None:
        raise NotOffered(f"{what}: the cluster left out a part of our request: {answer.ignored}")


def failure(answer: Answer, what: str) -> Exception:
    """The exception for a write that was answered without success."""
    error = answer.error
    if error is None:
        return _failure_without_words(answer.status, what)
    text = f"{what}: {error.text} (Slurm error {error.number})"
    match verdict(error.number):
        case Verdict.REFUSED:
            return SlurmRefused(text, error.number)
        case Verdict.AUTHENTICATION:
            return AuthenticationFailed(f"the cluster refuses our token ({what}); {REFUSAL_HINT}")
        case Verdict.NOT_NOW:
            return ClusterUnavailable(text)
        case Verdict.UNKNOWN:
            return OutcomeUnknown(text)


def _failure_without_words(status: int, what: str) -> Exception:
    if status == 401:
        return AuthenticationFailed(f"the cluster refuses our token ({what}); {REFUSAL_HINT}")
    if status in (404, 405):
        return NotOffered(f"{what}: the cluster has no such call")
    if 300 <= status < 500 and status != 408:
        return ClusterUnavailable(f"{what}: not accepted (HTTP status {status})")
    return OutcomeUnknown(f"{what}: an answer without words (HTTP status {status})")

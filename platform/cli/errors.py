"""Errors of commands: one sentence on standard error, and a documented exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Exit codes of Tidegate itself. `wait` exits with the job's own code instead.
USAGE = 2
REFUSED = 3
UNREACHABLE = 4
TIMED_OUT = 124
CANCELLED = 130
STILL_OPEN = 75


class CliError(Exception):
    """A command failed. The message says what is wrong and what to do; scripts read `exit_code`."""

    def __init__(self, message: str, *, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class Refused(CliError):
    """The server refused the request; `problem` is its problem document."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = problem
        super().__init__(_told(status, problem), exit_code=REFUSED)


class Waiting(CliError):
    """The server stored the change as a request: a second person decides about it."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        request = str(answer["request"])
        super().__init__(
            f"{answer['detail']}\nSee it with: tidegate requests show {request[-8:]}",
            exit_code=STILL_OPEN,
        )


class Unreachable(CliError):
    """The server did not answer, or gave an invalid answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=UNREACHABLE)


def _told(status: int, problem: Mapping[str, Any]) -> str:
    title = str(problem.get("title") or f"The server answered {status}")
    detail = str(problem.get("detail") or "")
    errors = [item for item in problem.get("errors") or () if isinstance(item, Mapping)]
    lines = [title]
    if detail and not errors:
        lines[0] = f"{title}: {detail}"
    lines += [
        f"  {str(item.get('pointer', '')).removeprefix('/')}: {item.get('detail', '')}"
        for item in errors
    ]
    if status == 401:
        lines.append("Run `tidegate login` with a fresh access token.")
    if status >= 500 and problem.get("request_id"):
        lines.append(f"(request {problem['request_id']})")
    return "\n".join(lines)

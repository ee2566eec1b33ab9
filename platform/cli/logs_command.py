"""`tidegate logs`: a job's output, once or until its end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import api as api_module
from cli.api import Api
from cli.context import open_api
from cli.errors import CliError, Refused, Unreachable
from cli.job_lookup import FINAL, JobArgument, id_of_job, of_one_job
from cli.output import tell
from cli.polling import FAILURES_MAX, POLL_S
from cli.saving import new_file
from primitives.state_words import state_phrase

#: Number of polls without a log after which the reason is printed, once.
_LOOKS_IN_SILENCE = 3
_LOG_PIECE = 262_144
_LOG_PIECE_MIN = 16
_MATCHES_OF_PAGE = 500
#: Pages of one search, of up to 16 MiB of the log each.
_SEARCH_PAGES_MAX = 1_000
#: Numbers of bytes before the end of a log that are searched for its last lines.
_TAIL_SIZES = (_LOG_PIECE, 4 * _LOG_PIECE, 16 * _LOG_PIECE)
_OTHER_STREAM = {"stdout": "stderr", "stderr": "stdout"}


def logs(
    ctx: typer.Context,
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new output until the job ends.")
    ] = False,
    rank: Annotated[
        int | None,
        typer.Option(min=0, help="Rank of the process. Default: 0; with --search, all ranks."),
    ] = None,
    stderr: Annotated[
        bool, typer.Option("--stderr", help="Print standard error instead of standard output.")
    ] = False,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Number of the attempt. Default: the latest.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option(min=1, metavar="LINES", help="Print only the last lines.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Print the lines with TEXT, of all ranks and streams."),
    ] = None,
    case: Annotated[
        bool, typer.Option("--case", help="With --search: upper and lower case differ.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --search: only lines from this time on."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --search: only lines until this time."),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--zip", metavar="FILE", help="Store the logs of all ranks of an attempt in FILE."
        ),
    ] = None,
) -> None:
    """Print a job's log. With -f, print new output of all attempts too.

    A job has two logs: standard output, and with --stderr standard error. --search looks in both.
    """
    api = open_api(ctx)
    if archive is not None:
        if follow or stderr or rank or tail is not None or search is not None:
            raise CliError(
                "--zip stores all ranks and streams. Leave out -f, --rank, --stderr, --tail and "
                "--search."
            )
        _store_all(api, id_of_job(api, job), attempt, archive)
        return
    if search is not None:
        if follow or tail is not None:
            raise CliError("--search reads the log as it is now. Leave out -f and --tail.")
        _print_matches(
            api,
            id_of_job(api, job),
            q=search,
            case="true" if case else None,
            rank=rank,
            stream="stderr" if stderr else None,
            attempt=attempt,
            since=since,
            until=until,
        )
        return
    if case or since is not None or until is not None:
        raise CliError("--case, --since and --until need --search TEXT.")
    reader = LogReader(
        api,
        id_of_job(api, job),
        rank=rank or 0,
        stream="stderr" if stderr else "stdout",
        attempt=attempt,
        tail=tail,
    )
    if follow:
        _follow(reader, is_fixed=attempt is not None)
    else:
        reader.print_what_is_there()
    if not reader.has_printed and reader.attempt is not None:
        _tell_of_the_other_stream(reader, "" if attempt is None else f" --attempt {attempt}")


def _store_all(api: Api, job_id: str, attempt: int | None, archive: Path) -> None:
    query = "" if attempt is None else f"?attempt={attempt}"
    with new_file(archive, force=False, hint="Choose another name.") as target:
        for chunk in api.download(f"jobs/{job_id}/logs/download{query}"):
            target.write(chunk)
    tell(f"{archive}: the logs of all ranks.")


def _print_matches(api: Api, job_id: str, **asked: Any) -> None:
    """Print the lines that a search finds, each with its rank, stream and time.

    It ends after `_SEARCH_PAGES_MAX` pages, and then remarks how to go on.
    """
    from httpx import URL

    cursor: str | None = None
    found = untimed = 0
    for _ in range(_SEARCH_PAGES_MAX):
        page = of_one_job(
            api, job_id, "/logs/search", **asked, limit=_MATCHES_OF_PAGE, cursor=cursor
        )
        for match in page["items"]:
            at = match["at"] or "unknown time"
            print(f"rank {match['rank']} {match['stream']} {at}: {match['text']}")
        found, untimed = found + len(page["items"]), untimed + page["untimed"]
        cursor = page["next"] and URL(str(page["next"])).params.get("cursor")
        if cursor is None:
            break
    if untimed:
        tell(f"Matching lines without a known time, which are left out: {untimed}.")
    if cursor is not None:
        tell("The log is too large to search at once. Search on with --since, --rank or --stderr.")
    elif not found:
        tell("No line of the log has this text.")


def _tell_of_the_other_stream(reader: LogReader, attempt: str) -> None:
    """Print that a log is empty, and whether the job wrote to the other stream."""
    other = _OTHER_STREAM[reader.stream]
    try:
        piece = reader.piece(other, 0, _LOG_PIECE_MIN)
    except Refused:
        piece = None
    if piece is None or not piece["text"]:
        tell(f"Nothing was written to {reader.stream}.")
        return
    rank = f" --rank {reader.rank}" if reader.rank else ""
    option = " --stderr" if other == "stderr" else ""
    tell(
        f"Nothing was written to {reader.stream}, but {other} has output: "
        f"tidegate logs {reader.job_id}{option}{rank}{attempt}"
    )


class LogReader:
    """Prints a log in pieces, and can continue after a failed piece."""

    def __init__(
        self,
        api: Api,
        job_id: str,
        *,
        rank: int,
        stream: str,
        attempt: int | None,
        tail: int | None,
    ) -> None:
        self.api = api
        self.job_id = job_id
        self.rank = rank
        self.stream = stream
        self.attempt = attempt
        self.offset = 0
        #: How many lines of the existing output are wanted; None for all.
        self.tail = tail
        self.has_printed = False
        self._looks_in_vain = 0

    def found_nothing(self, why: str) -> None:
        """Count a poll without a log. After a few polls, print the reason."""
        self._looks_in_vain += 1
        if self._looks_in_vain == _LOOKS_IN_SILENCE:
            tell(f"No log yet. Waiting: {why}")

    def piece(self, stream: str, offset: int, limit: int) -> dict[str, Any]:
        """Return at most `limit` bytes of a stream of the rank, from `offset` on."""
        return of_one_job(
            self.api,
            self.job_id,
            "/logs",
            rank=self.rank,
            stream=stream,
            attempt=self.attempt,
            offset=offset,
            limit=limit,
        )

    def print_what_is_there(self) -> bool:
        """Print up to the present end of the log, and return whether the stream has ended."""
        if self.tail is not None:
            self._print_last_lines(self.tail)
            self.tail = None
        while True:
            piece = self.piece(self.stream, self.offset, _LOG_PIECE)
            self.has_printed = self.has_printed or piece["text"] != ""
            sys.stdout.write(piece["text"])
            sys.stdout.flush()
            has_grown = piece["next_offset"] > piece["offset"]
            # The next piece must belong to the same attempt, even if the job is requeued meanwhile.
            self.attempt, self.offset = piece["attempt"], piece["next_offset"]
            if piece["is_final"] or not has_grown:
                if piece["is_final"] and piece["is_truncated"]:
                    tell("(the log was cut at its size limit)")
                return bool(piece["is_final"])

    def _print_last_lines(self, count: int) -> None:
        """Print the last `count` lines, or fewer if they are not in the last 4 MiB."""
        for size in _TAIL_SIZES:
            piece = self.piece(self.stream, -size, _LOG_PIECE)
            begin, text = piece["offset"], piece["text"]
            while piece["next_offset"] > piece["offset"] and not piece["is_final"]:
                self.attempt = piece["attempt"]
                piece = self.piece(self.stream, piece["next_offset"], _LOG_PIECE)
                text += piece["text"]
            lines = text.splitlines(keepends=True)
            if begin == 0 or len(lines) > count:
                break
        self.has_printed = text != ""
        sys.stdout.write("".join(lines[-count:]))
        self.attempt, self.offset = piece["attempt"], piece["next_offset"]

    def go_to_next_attempt(self) -> None:
        """Start with the next attempt."""
        assert self.attempt is not None
        self.attempt += 1
        self.offset = 0
        tell(f"--- attempt {self.attempt} ---")


def _follow(reader: LogReader, *, is_fixed: bool) -> None:
    """Print until the job has ended, attempt by attempt.

    A fixed attempt is printed until its end.
    """
    failures = 0
    while True:
        try:
            job = of_one_job(reader.api, reader.job_id, "")
            is_over = _follow_once(reader, job, is_fixed=is_fixed)
            failures = 0
        except Unreachable:
            is_over = False
            failures += 1
            if failures == FAILURES_MAX:
                raise
        if is_over:
            return
        api_module.sleep(POLL_S)


def _follow_once(reader: LogReader, job: dict[str, Any], *, is_fixed: bool) -> bool:
    latest, is_final = job["attempt"], job["state"] in FINAL
    if latest == 0:
        if is_final:
            tell(f"The job {state_phrase(job['state'])} and never started, so there is no log.")
        return is_final
    if reader.attempt is None:
        reader.attempt = latest
    if reader.attempt > latest:
        raise CliError(f"The job has no attempt {reader.attempt}.")
    ranks = len((job["current_attempt"] or {}).get("slots", ())) or reader.rank + 1
    if job["launch"] == "batch":
        ranks = 1
    elif job["launch"] == "manifest":
        # Every Pod has a log, those without GPUs too. The server knows how many there are.
        ranks = reader.rank + 1
    if reader.rank >= ranks:
        raise CliError(f"The job has {ranks} ranks, the last of them is rank {ranks - 1}.")
    while True:
        try:
            has_ended = reader.print_what_is_there()
        except Refused as refusal:
            if refusal.status != 404 or is_final:
                raise
            # The attempt has no log yet, or it never got that far.
            reader.found_nothing(str(refusal))
            has_ended = reader.attempt < latest
        if has_ended and not is_fixed and reader.attempt < latest:
            reader.go_to_next_attempt()
            continue
        return has_ended and (is_fixed or is_final)

"""Both sides of a reconciliation, with defaults that agree."""

from __future__ import annotations

from uuid import UUID

from billing.reconciliation import MeteredRun, Piece, Span
from connectors.accounts import AccountedRun

#: Small, so that a second is a second.
DAY = Span(100, 200)
ACCOUNT = "ai-company_research_nlp"


def an_id(number: int) -> UUID:
    return UUID(int=number)


def a_key(number: int) -> str:
    return f"tg-{an_id(number)}"


def a_metered_run(
    number: int = 1,
    *pieces: tuple[int, int | None, int],
    account: str = ACCOUNT,
    pool: str = "h100",
    key: str | None = "",
    native_id: str | None = None,
    submitted_at: int | None = None,
) -> MeteredRun:
    """The attempt `number`, by default 8 GPUs over [110, 150)."""
    return MeteredRun(
        attempt_id=an_id(number),
        job_id=an_id(1000 + number),
        account=account,
        pool=pool,
        pieces=tuple(Piece(*piece) for piece in (pieces or ((110, 150, 8_000),))),
        key=a_key(number) if key == "" else key,
        native_id=native_id or str(number),
        submitted_at=submitted_at,
    )


def a_run(
    number: int = 1,
    started_at: int = 110,
    ended_at: int | None = 150,
    *,
    mgpu: int = 8_000,
    account: str = ACCOUNT,
    pool: str = "h100",
    key: str | None = "",
    native_id: str | None = None,
    submitted_at: int = 90,
    user: str = "bob",
) -> AccountedRun:
    """What the cluster has of the attempt `number`."""
    key = a_key(number) if key == "" else key
    return AccountedRun(
        native_id=native_id or str(number),
        submitted_at=submitted_at,
        key=key,
        name=key or "train.sh",
        user=user,
        account=account,
        pool=pool,
        mgpu=mgpu,
        started_at=started_at,
        ended_at=ended_at,
        state="RUNNING" if ended_at is None else "COMPLETED",
    )

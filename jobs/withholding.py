"""Queued jobs that the arbiter is not offered, and why: they wait for no GPUs, so they block nobody
in their team's queue and hold nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import connection

DEPENDENCY = "dependency"


@dataclass(frozen=True, slots=True)
class Withheld:
    """Why `job` is not offered; `numbers` as those of an explanation."""

    job: str
    code: str
    numbers: Mapping[str, int] = field(default_factory=dict)


def withheld_jobs() -> tuple[Withheld, ...]:
    """All of them, as of the caller's transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT d.job_id::text, count(*) FROM jobs_dependency d
            JOIN jobs_job j ON j.id = d.job_id AND j.state = 'queued'
            WHERE d.closed_at IS NULL GROUP BY d.job_id
            """
        )
        return tuple(
            Withheld(job, DEPENDENCY, {"jobs_waited_for": count})
            for job, count in cursor.fetchall()
        )


def withheld_sentence(withheld: Withheld) -> str:
    """Why it is not offered, without naming anybody."""
    count = withheld.numbers["jobs_waited_for"]
    return f"It waits for {count:,} other jobs." if count > 1 else "It waits for another job."

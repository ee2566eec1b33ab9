"""The history of a job's reasons for waiting: one line for each change of the cause.

Numbers change in nearly every cycle, and only the job itself has the latest ones. A line has the
numbers of the moment at which its cause began. Each job keeps its latest `LINES_MAX` lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection

from jobs.queue.reason_documents import HELD_BY_USER, stored_reason

#: The number of lines that each job keeps. A job whose cause changes in every cycle keeps some
#: minutes.
LINES_MAX = 100

#: Few jobs have so many lines; for the others no line is searched.
_DROP_OLD = """
DELETE FROM jobs_jobreason r USING added a
WHERE a.number > %s AND r.job_id = a.job_id AND r.number <= a.number - %s
"""


def write_reasons(documents: Sequence[Mapping[str, Any]], now: datetime) -> list[tuple[UUID, UUID]]:
    """Store `documents` (`id` of a job, `document`) on the jobs that are still queued.

    A job that has just begun to wait, or waits for another cause, gets a line in its history. One
    statement.

    Returns the job and the organization of each job that was written.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH given AS (
                SELECT * FROM jsonb_to_recordset(%s::jsonb) AS v (id uuid, document jsonb)
            ), written AS (
                UPDATE jobs_job j SET explanation = v.document, explained_at = %s
                FROM given v JOIN jobs_job old ON old.id = v.id
                WHERE j.id = v.id AND j.state = 'queued'
                RETURNING j.id, j.organization_id, v.document, old.explanation IS NULL AS is_new
            ), added AS (
                INSERT INTO jobs_jobreason (job_id, number, since, code, document)
                SELECT w.id, coalesce(l.number, 0) + 1, %s, w.document ->> 'code', w.document
                FROM written w
                LEFT JOIN LATERAL (
                    SELECT number, code, document ->> 'node' AS node FROM jobs_jobreason
                    WHERE job_id = w.id ORDER BY number DESC LIMIT 1
                ) l ON true
                WHERE w.is_new OR (l.code, l.node)
                    IS DISTINCT FROM (w.document ->> 'code', w.document ->> 'node')
                RETURNING job_id, number
            ), dropped AS ({_DROP_OLD})
            SELECT id, organization_id FROM written
            """,  # noqa: S608 - the part is a constant of this module
            [orjson.dumps(documents).decode(), now, now, LINES_MAX, LINES_MAX],
        )
        return list(cursor.fetchall())


def note_held(newly_held: Sequence[tuple[UUID, str]], now: datetime) -> None:
    """Add a line with the reason to the history of each of these newly held jobs.

    Their rows must be locked, or new.
    """
    if not newly_held:
        return
    lines = [
        {"id": str(job), "document": stored_reason(HELD_BY_USER, sentence, now)}
        for job, sentence in newly_held
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            f"""
            WITH added AS (
                INSERT INTO jobs_jobreason (job_id, number, since, code, document)
                SELECT v.id, coalesce(max(r.number), 0) + 1, %s, v.document ->> 'code', v.document
                FROM jsonb_to_recordset(%s::jsonb) AS v (id uuid, document jsonb)
                LEFT JOIN jobs_jobreason r ON r.job_id = v.id
                GROUP BY v.id, v.document
                RETURNING job_id, number
            ) {_DROP_OLD}
            """,  # noqa: S608 - the part is a constant of this module
            [now, orjson.dumps(lines).decode(), LINES_MAX, LINES_MAX],
        )

"""Who may hear of a job: exactly those who see it, as `jobs.queries.visible_jobs` has it."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from live.publishing import person, prefixes_of, readers_below


def readers_of_jobs(own: psycopg.Connection, ids: Sequence[str]) -> set[str]:
    """Return the audiences of the jobs with these ids: their users, and whoever may see the jobs
    of their teams. One statement."""
    found = own.execute(
        """
        SELECT DISTINCT n.path, j.user_id
        FROM jobs_job j JOIN tenants_node n ON n.id = j.team_id
        WHERE j.id = ANY(%s::uuid[])
        """,
        [list(ids)],
    ).fetchall()
    users = {person(user_id) for _, user_id in found}
    return users | {
        readers_below(prefix)
        for path in {path for path, _ in found}
        for prefix in prefixes_of(path)
    }

"""The cluster's id of an attempt."""

from __future__ import annotations

from uuid import UUID

from django.db import connection


def record_native_id(attempt_id: UUID, native_id: str) -> None:
    """Record the cluster's id of the attempt. The first recorded id wins.

    The attempt may have been asked to stop since.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE jobs_attempt
            SET native_id = coalesce(native_id, %s),
                state = CASE state WHEN 'reserved' THEN 'starting' ELSE state END
            WHERE id = %s AND (native_id IS NULL OR state = 'reserved')
            """,
            [native_id, attempt_id],
        )

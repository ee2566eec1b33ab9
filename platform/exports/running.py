"""Writes the files of requested exports, one at a time, and deletes old ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q

from exports import files
from exports.contents import batches_of, columns_of
from exports.manifests import Sums, manifest_of
from exports.models import PERMILLE, Export, ExportFormat, ExportState
from exports.reports import ReportWriter
from exports.tables import Column
from exports.writers import Writer, writer_of
from live.publishing import publish
from primitives.errors import PortalError
from tenants.access import actor_of

logger = logging.getLogger(__name__)

#: A worker that did not report for this long has died.
SILENT_AFTER = timedelta(minutes=2)
#: How often an export is begun at most.
TRIES_MAX = 3
#: How long the list names an export whose file was removed.
_NAMED_FOR = timedelta(days=400)
#: Files that one task deletes at most.
_DROPPED_MAX = 1_000
_MIB = 1 << 20

Clock = Callable[[], datetime]


def run_next(clock: Clock) -> bool:
    """Write the file of the oldest export that no worker writes. Return whether there was one.

    A failure is stored with the export, in a sentence for the person who requested it.
    """
    export = _claim(clock())
    if export is None:
        return False
    try:
        manifest = _write(export, clock)
    except SoftTimeLimitExceeded:
        _fail(export, "The export took too long. Choose a shorter period or one pool.", clock())
    except PortalError as error:
        _fail(export, error.detail, clock())
    except OSError:
        logger.exception("the file of export %s cannot be written", export.pk)
        _fail(
            export,
            "The file could not be written. Ask the operator about the folder of exports.",
            clock(),
        )
    else:
        _finish(export, manifest, clock())
    return True


@transaction.atomic
def _claim(now: datetime) -> Export | None:
    """Take the oldest export that waits, or that a worker began and left."""
    waiting = Q(state=ExportState.QUEUED) | Q(
        state=ExportState.RUNNING, seen_at__lt=now - SILENT_AFTER
    )
    rows = Export.objects.select_for_update(skip_locked=True, of=("self",)).filter(waiting)
    export = (
        rows.select_related("organization", "requested_by__organization").order_by("pk").first()
    )
    if export is None:
        return None
    if export.tries >= TRIES_MAX:
        _store_failure(export, "The worker stopped several times. Ask the operator.", now)
        return None
    export.state = ExportState.RUNNING
    export.tries += 1
    export.seen_at = now
    export.progress_permille = 0
    export.save(update_fields=["state", "tries", "seen_at", "progress_permille"])
    return export


def _write(export: Export, clock: Clock) -> Any:
    """Write the file, and return its manifest."""
    # The rights of now count, not those at the request.
    batches = batches_of(export, actor_of(export.requested_by))
    sums, columns = Sums(), columns_of(export)
    try:
        with _writer(export, columns) as writer:
            for rows, progress_permille in batches:
                writer.write(rows)
                sums.add(rows)
                _report(export.pk, progress_permille, clock())
    finally:
        # The stream's transaction ends here, also where the file cannot be written.
        batches.close()
    size_bytes, sha256 = files.complete(export.pk)
    return manifest_of(export, columns, sums, size_bytes=size_bytes, sha256=sha256, now=clock())


def _writer(export: Export, columns: Sequence[Column]) -> Writer:
    path = files.part_of(export.pk)
    if export.format == ExportFormat.PDF:
        return ReportWriter(path, export)
    return writer_of(export.format, path, columns)


def _report(export_id: UUID, progress_permille: int, now: datetime) -> None:
    """Store the progress by another connection: the stream's transaction reads only."""
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute(
                "UPDATE exports_export SET progress_permille = %s, seen_at = %s"
                " WHERE id = %s AND state = 'running'",
                [progress_permille, now, export_id],
            )
    finally:
        other.close()


@transaction.atomic
def _finish(export: Export, manifest: Any, now: datetime) -> None:
    Export.objects.filter(pk=export.pk, state=ExportState.RUNNING).update(
        state=ExportState.DONE,
        progress_permille=PERMILLE,
        ended_at=now,
        manifest=manifest,
        size_bytes=manifest["size_bytes"],
        sha256=manifest["sha256"],
    )
    publish("reports", organization_id=export.organization_id)


def _fail(export: Export, message: str, now: datetime) -> None:
    files.drop(export.pk)
    _store_failure(export, message, now)


@transaction.atomic
def _store_failure(export: Export, message: str, now: datetime) -> None:
    Export.objects.filter(pk=export.pk).update(
        state=ExportState.FAILED, message=message[:500], ended_at=now
    )
    publish("reports", organization_id=export.organization_id)


def drop_old(now: datetime) -> int:
    """Delete files past their retention, and those beyond the bounds of sizes.

    The list names such exports for longer, so that a person can make the file again. Returns how
    many files were deleted. Others follow the next time.
    """
    until = now - timedelta(days=settings.EXPORTS_KEPT_DAYS)
    ended = Export.objects.filter(state=ExportState.DONE, removed_at=None, ended_at__lt=until)
    old = set(ended.values_list("pk", flat=True)[:_DROPPED_MAX])
    bounds = [settings.EXPORTS_KEPT_MIB_EACH * _MIB, settings.EXPORTS_KEPT_MIB * _MIB]
    with connection.cursor() as cursor:
        cursor.execute(_WITHOUT_ROOM, [*bounds, _DROPPED_MAX])
        old |= {pk for (pk,) in cursor.fetchall()}
    for pk in old:
        files.drop(pk)
    Export.objects.filter(pk__in=old).update(removed_at=now)
    Export.objects.filter(
        Q(state=ExportState.FAILED, ended_at__lt=until) | Q(removed_at__lt=now - _NAMED_FOR)
    ).delete()
    return len(old)


# Each organization keeps its newest files. If all together are too large, the largest
# organizations lose their oldest ones, so an equal share of the room is safe from others.
_WITHOUT_ROOM = """
WITH own AS (
    SELECT id, size_bytes,
           SUM(size_bytes) OVER (PARTITION BY organization_id ORDER BY id DESC) AS own_bytes
    FROM exports_export WHERE state = 'done' AND removed_at IS NULL
),
together AS (
    SELECT id, own_bytes, SUM(size_bytes) OVER (ORDER BY own_bytes, id DESC) AS all_bytes FROM own
)
SELECT id FROM together WHERE own_bytes > %s OR all_bytes > %s ORDER BY id LIMIT %s
"""

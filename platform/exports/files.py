"""The folder of exported files. A file has the id of its export as its name."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from uuid import UUID

from django.conf import settings

_CHUNK_BYTES = 1 << 20


def file_of(export_id: UUID) -> Path:
    """Return the path of an export's file."""
    return folder() / str(export_id)


def part_of(export_id: UUID) -> Path:
    """Return the path of a file that is being written."""
    return folder() / f"{export_id}.part"


def folder() -> Path:
    """Return the folder, which exists afterwards. Only the portal's own user may read it."""
    path = Path(settings.EXPORTS_DIR)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def complete(export_id: UUID) -> tuple[int, str]:
    """Give a written file its name, and return its size in bytes and its SHA-256."""
    part = part_of(export_id)
    digest = hashlib.sha256()
    with part.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
        # Only a file that is on the disk may be reported as complete.
        os.fsync(file.fileno())
        size = file.tell()
    part.replace(file_of(export_id))
    return size, digest.hexdigest()


def drop(export_id: UUID) -> None:
    """Delete an export's files, if there are any."""
    file_of(export_id).unlink(missing_ok=True)
    part_of(export_id).unlink(missing_ok=True)

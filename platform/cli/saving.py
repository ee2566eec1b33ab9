"""Files that appear under their name only when they are complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cli.errors import CliError


@contextmanager
def new_file(file: Path, *, force: bool = True, hint: str = "") -> Iterator[IO[bytes]]:
    """Open a file for writing. An existing file is replaced at the end, if there was no error.

    Raises CliError where it cannot be written, and, without `force`, where it exists; `hint` says
    how to choose another name.
    """
    if file.exists() and not force:
        raise CliError(f"{file} exists. {hint}")
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as target:
            yield target
        part.replace(file)
    except OSError as error:
        raise CliError(f"{file} cannot be written: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)

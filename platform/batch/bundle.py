"""The programs of this package as one file, for places that do not have this source tree."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from pathlib import Path

#: The modules of `primitives` that the programs use.
_PRIMITIVES = ("__init__.py", "hostlist.py")
#: Files that only the portal uses.
_NOT_IN_JOBS = frozenset({"bundle.py", "program.py"})
#: The earliest time that a zip file knows: the same code gives the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


@cache
def bundle() -> bytes:
    """Return a zip file that Python runs: `python3 -I -S FILE srun ARGUMENTS`."""
    here = Path(__file__).parent
    files = {f"batch/{path.name}": path for path in here.glob("*.py")}
    files = {name: path for name, path in files.items() if path.name not in _NOT_IN_JOBS}
    primitives = here.parent / "primitives"
    files |= {f"primitives/{name}": primitives / name for name in _PRIMITIVES}
    files["__main__.py"] = here / "program.py"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _TIME)
            archive.writestr(entry, files[name].read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return packed.getvalue()

"""A script that runs one of the programs of this package: `python -I -S program.py srun ...`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036 - images are older than the portal
        sys.exit(f"{sys.argv[1]}: error: python3 is older than 3.10 here.")
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from batch.programs import run

    sys.exit(run(sys.argv[1], sys.argv[2:], os.environ))

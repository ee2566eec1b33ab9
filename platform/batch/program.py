"""A script that runs one of the programs of this package: `python -I -S program.py srun ...`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    if sys.argv[1] == "srun":
        from batch.srun import main
    else:
        from batch.scontrol import main
    sys.exit(main(sys.argv[2:], os.environ))

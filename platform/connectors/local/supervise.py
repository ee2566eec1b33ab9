"""Run as a script: supervise the attempt in the directory given, in a process of its own.

`python -I -S supervise.py ATTEMPT_DIRECTORY` returns at once; the supervisor then runs in the
background, or another one already did.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from connectors.local.supervisor import main

    main(sys.argv[1])

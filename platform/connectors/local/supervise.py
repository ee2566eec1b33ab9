"""A script that supervises the attempt in the given directory, in a process of its own.

`python -I -S supervise.py ATTEMPT_DIRECTORY` returns at once. A supervisor then runs in the
background, started now or earlier.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from connectors.local.supervisor import main

    main(sys.argv[1])

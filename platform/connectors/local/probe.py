"""A script that tries the isolation of jobs here and prints what is refused, and why.

`python -I -S probe.py UID` runs a shell in a sandbox, and as user UID if we are root. It prints
{"no_users": ..., "no_namespaces": ...} with the reasons; "" means that it works.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from connectors.local.probing import main

    main(int(sys.argv[1]))

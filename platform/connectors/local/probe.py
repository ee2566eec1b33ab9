"""Run as a script: try out how jobs can be isolated here, and print what was refused, and why.

`python -I -S probe.py UID` runs a shell as user UID, if we are root, and in a sandbox. It prints
{"no_users": ..., "no_namespaces": ...}: why not, in words, or "" where it works.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from connectors.local.probing import main

    main(int(sys.argv[1]))

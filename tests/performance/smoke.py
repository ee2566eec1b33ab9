"""Runs every benchmark with small numbers, on one PostgreSQL: python tests/performance/smoke.py

That they run is all that this shows. Ends with the first that fails, and with its exit status.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import bed  # noqa: F401 - first: it finds our packages

from servers import plan_servers

HERE = Path(__file__).resolve().parent
_WITHIN_S = 600


def main() -> int:
    """Run them, and return an exit status."""
    plan = plan_servers()
    try:
        plan.start_postgres(durable=True)
        for file in sorted(HERE.glob("bench_*.py")):
            print(f"== {file.relative_to(HERE.parents[1])} --smoke", flush=True)
            began = time.monotonic()
            done = subprocess.run([sys.executable, str(file), "--smoke"], timeout=_WITHIN_S)
            print(f"   {time.monotonic() - began:.0f} s", flush=True)
            if done.returncode:
                return done.returncode
    finally:
        plan.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())

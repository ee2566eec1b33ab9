"""The command line: `tidegate --help` as a whole process, beside a Python that does nothing.

python tests/performance/bench_cli_start.py [--smoke]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

TIDEGATE = Path(sys.executable).with_name("tidegate")


def seconds(*command: str | Path) -> float:
    """Wall-clock time of one run of `command`."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return time.perf_counter() - begin


def main() -> None:
    """Print median and largest of both, taken in turns."""
    times = 3 if "--smoke" in sys.argv else 21
    help_s, bare_s = [], []
    for _ in range(times):
        help_s.append(seconds(TIDEGATE, "--help"))
        bare_s.append(seconds(sys.executable, "-c", "pass"))
    for name, taken in (("tidegate --help", help_s), ("python -c pass", bare_s)):
        print(f"{name:16} median {statistics.median(taken):.3f} s, largest {max(taken):.3f} s")


main()

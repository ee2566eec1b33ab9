"""The programs that a batch job finds on its PATH, on a cluster without Slurm."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from batch.command_line import Refused

PROGRAMS = ("sbatch", "scancel", "scontrol", "squeue", "srun")


def run(name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program and return its exit code. A refusal goes to standard error."""
    try:
        # Each imports only what it needs: scripts call them thousands of times.
        if name == "srun":
            from batch.srun import main
        elif name == "scontrol":
            from batch.scontrol import main
        elif name == "squeue":
            from batch.squeue import main
        elif name == "scancel":
            from batch.scancel import main
        else:
            from batch.sbatch import main
        return main(arguments, environment)
    except Refused as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 1

"""`scontrol` inside of a batch job, on a cluster without Slurm."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from primitives.hostlist import contract, expand


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Carry out a subcommand of scontrol and return its exit code."""
    words = [word for word in arguments if not word.startswith("-")]
    try:
        if words[:1] == ["show"] and words[1:2] == ["hostnames"]:
            for name in expand(words[2] if len(words) > 2 else _nodes(environment)):
                print(name)
            return 0
        if words[:1] == ["show"] and words[1:2] == ["hostlist"]:
            names = words[2].split(",") if len(words) > 2 else []
            print(contract(names))
            return 0
    except ValueError as error:
        print(f"scontrol: error: {error}", file=sys.stderr)
        return 1
    print(
        f"scontrol: error: `scontrol {' '.join(words[:2])}` is not offered on this cluster; "
        "`scontrol show hostnames` and `scontrol show hostlist` are.",
        file=sys.stderr,
    )
    return 1


def _nodes(environment: Mapping[str, str]) -> str:
    return environment.get("SLURM_JOB_NODELIST", "")

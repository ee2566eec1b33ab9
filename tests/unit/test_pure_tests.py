"""A run of pure tests alone loads no Django, starts no server and asks for no cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pure_folders import PURE

ROOT = Path(__file__).resolve().parents[2]
_RUN = """
import json, os, sys, pytest
code = int(pytest.main(sys.argv[1:]))
loaded = {"django", "psycopg", "redis", "valkey", "slurm_bed", "kube_bed", "portal_fixtures"}
print()
print(json.dumps({
    "code": code,
    "loaded": sorted(loaded & sys.modules.keys()),
    "servers": os.environ.get("TIDEGATE_TEST_SERVERS"),
    "hypothesis": "hypothesis" in sys.modules,
}))
"""


def _run(*words: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, "-q", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("words", "hypothesis"),
    [
        (("tests/unit/primitives", "tests/unit/credits/test_credit_settlement.py"), True),
        (("tests/unit/arbiter/test_arbiter_budget.py",), False),
        (("--collect-only", *map(str, PURE)), True),
    ],
    ids=["run", "without laws", "all"],
)
def test_pure_tests_load_no_django(words: tuple[str, ...], hypothesis: bool) -> None:
    """Planted: a pure test imports `jobs.lifecycle`; all runs load the portal's fixtures."""
    assert _run(*words) == {"code": 0, "loaded": [], "servers": None, "hypothesis": hypothesis}

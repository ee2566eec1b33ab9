"""The programs as one file run where this source tree is not."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from batch.bundle import bundle
from batch.places import PLACES_VARIABLE


def test_the_file_runs_tasks_without_the_source_tree(tmp_path: Path) -> None:
    """Planted: no `primitives` in it."""
    path = tmp_path / "programs.pyz"
    path.write_bytes(bundle())
    environment = {
        "PATH": os.defpath,
        "TMPDIR": str(tmp_path),
        "SLURM_JOB_ID": "77",
        PLACES_VARIABLE: "node-1:0-1",
        "SLURM_JOB_NODELIST": "node-1",
    }

    def run(*words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(path), *words],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stdout, done.stderr

    assert run("scontrol", "show", "hostnames") == (0, "node-1\n", "")
    code, said, complaint = run("srun", "-l", "-n", "2", "sh", "-c", "exit $SLURM_PROCID")
    assert (code, said) == (1, "")
    assert complaint == "srun: error: node-1: task 1: Exited with exit code 1\n"


def test_the_same_code_gives_the_same_file() -> None:
    """A ConfigMap that is applied again must not differ. Against: the times of the files."""
    first = bundle()
    bundle.cache_clear()
    assert bundle() == first
    assert len(first) < 40_000


def test_the_programs_run_with_python_3_10() -> None:
    """Images have older versions than the portal. Planted: `datetime.UTC`, which 3.10 lacks."""
    with zipfile.ZipFile(io.BytesIO(bundle())) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert len(texts) > 15
    imported = set()
    for name, text in texts.items():
        tree = ast.parse(text, name, feature_version=(3, 10))
        imported |= {
            f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
    since_3_11 = {"datetime.UTC", "enum.StrEnum", "enum.ReprEnum", "typing.Self"}
    assert imported & since_3_11 == set()

"""The real sbatch 22.05, asked how it reads `#SBATCH` lines.

A slurmctld of its own, without slurmd, munge and slurmdbd, takes the jobs, held. Its nodes are
cloud nodes, so that `sbatch --test-only` says on how many nodes a job would start.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NODES = 64
CPUS = 128
GPUS = 8
#: Jobs 1, 2, 3 wait, for --dependency.
DEPENDENCIES = 3
_TIMEOUT_S = 20
_START_TIMEOUT_S = 30
_CONF = """\
ClusterName=oracle
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/pid
SlurmctldLogFile={folder}/log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
GresTypes=gpu
DebugFlags=gres
MaxArraySize=1000001
MaxJobCount=100000
ResumeProgram=/bin/true
SuspendProgram=/bin/true
SuspendTime=INFINITE
ResumeTimeout=3600
NodeName=n[1-{nodes}] CPUs={cpus} SocketsPerBoard=2 CoresPerSocket={cores} ThreadsPerCore=1 \
RealMemory=2000000 Gres=gpu:h100:{gpus} State=CLOUD
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=h100 Nodes=ALL MaxTime=INFINITE State=UP
"""
_DEFINED = re.compile(r"^sbatch: ([a-z-]+) +: (.*)$")
_STARTS = re.compile(r" on nodes (\S+) in partition")
_GRES = re.compile(r"gres:gpu\(\d+\) type:(\S+?)\(\d+\) job:(\d+)")


def why_absent() -> str:
    """Return why there is no oracle here, or ""."""
    missing = [name for name in ("sbatch", "slurmctld", "scontrol") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed"
    return "" if os.geteuid() == 0 else "its slurmctld runs as root"


class Oracle:
    """A running slurmctld. `read` asks it about one script."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
            cwd=self._folder,
            env={"PATH": "/usr/bin:/bin:/usr/sbin", "SLURM_CONF": str(self._folder / "slurm.conf")},
        )

    def is_up(self) -> bool:
        """Return whether slurmctld answers."""
        return self._run("scontrol", "ping").stdout.find("UP") >= 0

    def add_jobs(self, count: int) -> None:
        """Submit held jobs, with ids from 1 on, on which others can depend."""
        for _ in range(count):
            self._run("sbatch", "--hold", "--wrap=true")

    def version(self) -> str:
        """Return the version of sbatch."""
        return self._run("sbatch", "--version").stdout.strip()

    def read(self, lines: Sequence[str]) -> dict[str, Any]:
        """Return how sbatch and slurmctld read a script with these lines after the first.

        `accepts` is whether the job is taken. `defined` are the options as sbatch parsed them. The
        rest is slurmctld's: `tasks`, `cpus`, `gpus` in all with as few nodes as are asked for,
        `gpus_per_node`, their `gpu_types`, `time_limit`, `array`, `array_at_once`, `dependency`,
        and on how many nodes it would start (`starts_on`, None where it cannot).
        """
        script = self._folder / "script"
        script.write_text("\n".join(["#!/bin/bash", *lines, "hostname", ""]), encoding="utf-8")
        log_bytes = self._log.stat().st_size
        answer = self._run("sbatch", "-vv", "--hold", str(script))
        said = answer.stderr.splitlines()
        # A heterogeneous job prints its parts one after the other; the first counts.
        block = answer.stderr.partition("end of defined options")[0].splitlines()
        folder = str(self._folder)
        defined = {
            found[1]: found[2].replace(folder, "FOLDER")
            for line in block
            if (found := _DEFINED.match(line))
        }
        for own in ("verbose", "hold", "test-only"):
            if own != "hold" or not any("hold" in line or "-H" in line for line in lines):
                defined.pop(own, None)
        taken = re.search(r"Submitted batch job (\d+)", answer.stdout)
        if taken is None:
            words = [line for line in said if "rror" in line or "fatal" in line or "option" in line]
            error = (words or said or [""])[-1].replace(str(script), "SCRIPT")
            return {"accepts": False, "error": error[:160]}
        job = taken[1]
        shown = self._run("scontrol", "show", "job", "-o", job).stdout.splitlines()[0]
        with self._log.open(encoding="utf-8") as log:
            log.seek(log_bytes)
            told = log.read()
        start = self._run("sbatch", "--test-only", str(script)).stderr
        self._run("scancel", job)
        return {"accepts": True, "defined": defined, **_job(shown, told, job), **_starts(start)}


def _job(shown: str, log: str, job: str) -> dict[str, Any]:
    """Return what slurmctld made of the job, from `scontrol show job` and its log."""
    facts = dict(word.split("=", 1) for word in shown.split() if "=" in word)
    gpus, types = 0, []
    each = None
    for part in log.split("gres_job_state ")[1:]:
        found, total = _GRES.match(part), re.search(r"total_gres:(\d+)", part)
        if found is not None and total is not None and found[2] == job:
            gpus += int(total[1])
            per_node = re.search(r"gres_per_node:(\d+)", part)
            each = each if per_node is None else int(per_node[1])
            types += [] if found[1] == "(null)" else [found[1]]
    array, _, at_once = facts.get("ArrayTaskId", "").partition("%")
    return {
        "tasks": int(facts["NumTasks"]),
        "cpus": int(facts["NumCPUs"]),
        "gpus": gpus,
        "gpus_per_node": each,
        "gpu_types": sorted(types),
        "time_limit": facts["TimeLimit"],
        "array": array or None,
        "array_at_once": int(at_once) if at_once else None,
        "dependency": None if facts["Dependency"] == "(null)" else facts["Dependency"],
    }


def _starts(text: str) -> dict[str, Any]:
    found = _STARTS.search(text)
    return {"starts_on": None if found is None else _width(found[1])}


def _width(hosts: str) -> int:
    """Return how many nodes a list such as n[1-3,7] names."""
    inside = re.search(r"\[(.*)\]", hosts)
    if inside is None:
        return 1
    ends = [part.split("-") for part in inside[1].split(",")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def running_oracle() -> Iterator[Oracle]:
    """Run a slurmctld of its own in a folder of its own; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="sbatch-oracle-") as name:
        folder = Path(name)
        (folder / "state").mkdir()
        (folder / "log").touch()
        conf = _CONF.format(
            port=_free_port(), folder=folder, nodes=NODES, cpus=CPUS, cores=CPUS // 2, gpus=GPUS
        )
        (folder / "slurm.conf").write_text(conf, encoding="utf-8")
        gres = f"NodeName=n[1-{NODES}] Name=gpu Type=h100 Count={GPUS}\n"
        (folder / "gres.conf").write_text(gres, encoding="utf-8")
        with (folder / "out").open("wb") as out:
            server = subprocess.Popen(
                ["slurmctld", "-D", "-c", "-f", str(folder / "slurm.conf")], stdout=out, stderr=out
            )
        try:
            oracle = Oracle(folder)
            until = time.monotonic() + _START_TIMEOUT_S
            while not oracle.is_up():
                if server.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((folder / "out").read_text(encoding="utf-8")[-2_000:])
                time.sleep(0.1)
            oracle.add_jobs(DEPENDENCIES)
            yield oracle
        finally:
            server.kill()
            server.wait(timeout=_TIMEOUT_S)

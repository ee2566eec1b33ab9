"""A job of a local cluster attacks the portal, its own records and its neighbours, and fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders.connector_builders import (
    a_key,
    a_workload,
    eventually,
    is_alive,
    until_released,
    until_running,
    whole_log,
)
from connectors.errors import ClusterUnavailable, WorkloadRejected
from connectors.local import connector as local_connector
from connectors.local import publishing
from connectors.local.isolation import Isolation, Level, isolation_here
from connectors.local.sandbox import Sandbox
from connectors.protocol import ClusterConnector, Outcome, RankSlot
from connectors.registry import open_connector

HERE = Path(__file__).parent
ATTACK = (HERE / "attacking_job.py").read_text()
ALICE, BOB = "1880000001", "1880000002"
MARKER = "SECRET_OF_THE_PORTAL=for-its-eyes-only"
SOMEBODY = 12_345
#: What only namespaces keep from a job.
SEEN_WITHOUT_NAMESPACES = {
    "reads what anybody may read of the portal",
    "sees other processes",
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users may pass through, unlike those of pytest."""
    made = Path(tempfile.mkdtemp(prefix="tidegate-attack-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def portal(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Stands for a process of the portal: with a secret in its environment, and ours."""
    name, _, value = MARKER.partition("=")
    process = subprocess.Popen(["sleep", "1000"], env={name: value})
    yield process
    process.kill()
    process.wait()


def options_in(folder: Path) -> dict[str, Any]:
    return {
        "root": str(folder / "state" / "local"),
        "nodes": {"count": 2, "gpus": 8, "pool": "h100", "prefix": "node-"},
        "use_real_gpus": False,
        "limits": {"processes": 64, "file_mib": 16},
        "hidden": [str(folder / "state"), "/etc/hostname"],
    }


def attack(
    connector: ClusterConnector, folder: Path, portal: subprocess.Popen[bytes]
) -> dict[str, Any]:
    """Run a neighbour's job and the attack beside it; what the attack got."""
    state = folder / "state"
    (state / "env").write_text("TIDEGATE_SECRET_KEY=for-its-eyes-only")
    (state / "env").chmod(0o600)
    (state / "open").write_text("a file that every user of the machine may read")
    neighbour = a_workload(
        f"echo {MARKER} > private; echo started; sleep 1000",
        environment={"OF_ANOTHER_JOB": MARKER},
        mgpu=1000,
        cluster_user=BOB,
    )
    connector.submit(neighbour)
    until_running(connector, neighbour.key)
    eventually(lambda: whole_log(connector, neighbour.key) == "started\n")
    attempts = state / "local" / "attempts"
    target = {
        "secret": str(state / "env"),
        "open_secret": str(state / "open"),
        "marker": MARKER,
        "victim": portal.pid,
        "attempts": str(attempts),
        "neighbour": str(attempts / neighbour.key / "work" / "private"),
    }
    key = a_key()
    script = f"#!/usr/bin/python3\n{ATTACK}"
    environment = {"ATTACK": json.dumps(target)}
    connector.submit(
        a_workload(script, key=key, mgpu=1000, environment=environment, cluster_user=ALICE)
    )
    ended = until_released(connector, key)
    told = whole_log(connector, key, stream="stderr")
    assert (ended.outcome, told) == (Outcome.SUCCEEDED, ""), (ended, told)
    neighbour_runs = connector.observe().observations[neighbour.key].is_released is False
    connector.stop(neighbour.key)
    until_released(connector, neighbour.key)
    got: dict[str, Any] = json.loads(whole_log(connector, key))
    return {**got, "ends a neighbour": None if neighbour_runs else "ended"}


def successes(got: dict[str, Any]) -> dict[str, Any]:
    return {what: found for what, found in got.items() if found is not None}


@pytest.mark.skipif(os.geteuid() != 0, reason="users of their own take root")
def test_every_attack_fails_where_the_portal_is_root(
    folder: Path, portal: subprocess.Popen[bytes]
) -> None:
    here = isolation_here(int(ALICE))
    assert (here.level, here.why) == (Level.FULL, "")
    connector = open_connector("local", options_in(folder), "attacked")
    connector.prepare()
    assert successes(attack(connector, folder, portal)) == {}
    assert is_alive(portal.pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="users of their own take root")
def test_without_namespaces_users_keep_jobs_apart(
    folder: Path, portal: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    only_users = Isolation(Level.USERS, "for a test")
    monkeypatch.setattr(local_connector, "isolation_here", lambda uid: only_users)
    connector = open_connector("local", options_in(folder), "attacked")
    connector.prepare()
    got = successes(attack(connector, folder, portal))
    assert set(got) == SEEN_WITHOUT_NAMESPACES
    assert is_alive(portal.pid)


def test_every_attack_fails_where_the_portal_is_not_root(folder: Path) -> None:
    """In user namespaces: all jobs are the portal's own user, and see nothing of it."""
    if os.geteuid() == 0:
        os.chown(folder, SOMEBODY, SOMEBODY)
        command = as_somebody()
    else:
        command = []
    done = subprocess.run(
        [*command, sys.executable, __file__, str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd="/",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["level"] == Level.NAMESPACES, found
    assert found["got"] == {}


def as_somebody() -> list[str]:
    """Before a command: as a user without rights, who can reach our Python wherever it is."""
    python = sys.base_prefix
    prepare = (
        f"mount -t tmpfs -o mode=755 t /mnt && mkdir /mnt/p && mount --bind {python} /mnt/p && "
        f"mount -t tmpfs -o mode=755 t /root && mkdir -p {python} && mount --bind /mnt/p {python} "
        f'&& exec setpriv --reuid {SOMEBODY} --regid {SOMEBODY} --clear-groups "$@"'
    )
    return ["unshare", "-m", "/bin/sh", "-c", prepare, "sh"]


def main_without_root(folder: Path) -> None:
    """The attack from a process that is not root; prints what it got."""
    connector = open_connector("local", options_in(folder), "attacked")
    connector.prepare()
    name, _, value = MARKER.partition("=")
    portal = subprocess.Popen(["sleep", "1000"], env={name: value})
    got = successes(attack(connector, folder, portal))
    if not is_alive(portal.pid):
        got["signals the portal"] = "it is gone"
    portal.kill()
    print(json.dumps({"level": isolation_here(int(ALICE)).level, "got": got}))


@pytest.mark.parametrize("number", ["0", "1", "999", "1880065536", "root", "-1"])
def test_no_job_runs_as_a_user_of_the_machine(folder: Path, number: str) -> None:
    connector = open_connector("local", options_in(folder), "attacked")
    connector.prepare()
    with pytest.raises(WorkloadRejected, match="not of the jobs' range"):
        connector.submit(a_workload(cluster_user=number))
    with pytest.raises(ClusterUnavailable, match="no user number"):
        connector.submit(a_workload(cluster_user=None))
    assert connector.observe().observations == {}


def test_a_number_that_the_machine_has_given_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.local.options.is_taken", lambda number: number == int(ALICE))
    connector = open_connector("local", options_in(folder), "attacked")
    connector.prepare()
    with pytest.raises(WorkloadRejected, match="is somebody's on this machine"):
        connector.submit(a_workload(cluster_user=ALICE))


def test_what_cannot_be_isolated_as_promised_does_not_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank whose sandbox fails is never started without one."""
    connector = open_connector("local", options_in(folder), "attacked")
    connector.prepare()
    build = publishing._sandbox

    def without_stage(*arguments: Any) -> Sandbox:
        sandbox = build(*arguments)
        sandbox.stage = str(folder / "no-such-stage")
        return sandbox

    monkeypatch.setattr(publishing, "_sandbox", without_stage)
    key = a_key()
    connector.submit(a_workload(f"touch {folder}/ran", key=key, cluster_user=ALICE))
    ended = until_released(connector, key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.START_FAILED, {})
    assert "no sandbox" in ended.message


def test_a_link_that_another_rank_puts_into_its_tmp_leads_nowhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt's folder lies below `/tmp`, where the ranks of a job write. Planted: places in
    the view reached by their paths, so that root makes folders wherever the link leads."""
    connector = open_connector("local", options_in(folder), "attacked")
    connector.prepare()
    build = publishing._sandbox
    outside = folder / "outside"
    outside.mkdir()

    def with_link(*arguments: Any) -> Sandbox:
        sandbox = build(*arguments)
        sandbox.tmp = str(folder / "tmp")
        (folder / "tmp").mkdir()
        (folder / "tmp" / folder.name).symlink_to(outside)
        return sandbox

    monkeypatch.setattr(publishing, "_sandbox", with_link)
    key = a_key()
    connector.submit(a_workload("true", key=key, cluster_user=ALICE))
    ended = until_released(connector, key)
    assert (ended.outcome, ended.exit_codes) == (Outcome.START_FAILED, {})
    assert f"a symbolic link is in the way of the sandbox: '{folder.name}'" in ended.message
    assert list(outside.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="without root no cgroup is looked for")
def test_each_rank_has_a_cgroup_with_what_the_job_asks_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In folders that are laid out as the kernel's. Planted: memory of all ranks together; a rank
    that could not be bounded runs all the same."""
    cgroups = folder / "cgroups"
    cgroups.mkdir()
    here = isolation_here(int(ALICE))
    bounding = Isolation(here.level, here.why, str(cgroups))
    monkeypatch.setattr(local_connector, "isolation_here", lambda uid: bounding)
    connector = open_connector("local", options_in(folder), "attacked")
    connector.prepare()

    def run() -> tuple[Outcome | None, str]:
        slots = (RankSlot("node-001", 1000), RankSlot("node-002", 1000))
        workload = replace(
            a_workload("ls -A /sys/fs/cgroup", slots=slots, cluster_user=ALICE),
            memory_mib_per_node=512,
            cpus_per_node=2,
        )
        connector.submit(workload)
        ended = until_released(connector, workload.key)
        return ended.outcome, whole_log(connector, workload.key)

    assert run() == (Outcome.SUCCEEDED, "")
    written = sorted(cgroups.iterdir())
    assert [path.name.rpartition("-")[2] for path in written] == ["0", "1"]
    for path in written:
        assert {each.name: each.read_text() for each in path.iterdir()} == {
            "cgroup.procs": "0",
            "cpu.max": "200000 100000",
            "memory.max": "536870912",
            "pids.max": "64",
        }
    cgroups.rename(folder / "gone")
    cgroups.write_text("no folder")
    outcome, _ = run()
    assert outcome is Outcome.START_FAILED


def test_an_own_home_outlives_an_attempt_and_is_nobody_elses(folder: Path) -> None:
    connector = open_connector("local", options_in(folder), "attacked")
    connector.prepare()

    def run(script: str, number: str) -> str:
        workload = a_workload(script, cluster_user=number)
        connector.submit(workload)
        until_released(connector, workload.key)
        return whole_log(connector, workload.key)

    assert run("echo kept > ~/checkpoint; echo $HOME", ALICE).endswith(f"homes/{ALICE}\n")
    assert run("cat ~/checkpoint", ALICE) == "kept\n"
    assert run(f"cat ~/../{ALICE}/checkpoint 2>/dev/null; ls ~", BOB) == ""


if __name__ == "__main__":
    main_without_root(Path(sys.argv[1]))

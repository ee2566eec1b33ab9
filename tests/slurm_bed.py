"""The real Slurm that the Slurm suite runs against: found, or started, or its absence said aloud.

`deploy/slurm-bed/start.sh` starts one, as root, and finds a running one. Where that cannot be,
every test that asks for `slurm_bed` is skipped and the summary says in one line that the Slurm
suite did not run and why; with TIDEGATE_REQUIRE_SLURM=1 those tests fail instead.

One bed serves all workers of a run. A test that only submits and watches shares it; a test that
takes daemons down carries `@pytest.mark.disturbs_slurm` and has it alone. One that changes
accounts, associations or QoS carries `@pytest.mark.writes_slurm_accounts`: two writers at once
break the tree of associations in slurmdbd 22.05 for good (an account becomes its own ancestor), and
it hangs or ends.
"""

import fcntl
import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent / "deploy" / "slurm-bed"
FOLDER_VARIABLE = "TIDEGATE_SLURM_BED"
REQUIRE_VARIABLE = "TIDEGATE_REQUIRE_SLURM"
STARTER_VARIABLE = "TIDEGATE_SLURM_STARTER"
DID_NOT_RUN = "The Slurm suite did not run: "
DOOR = "door.lock"  # had while one waits for its turn
ONE_TEST = "test.lock"  # shared while a test runs; had alone by one that disturbs
ACCOUNTS = "accounts.lock"  # had alone by whoever changes accounts
IN_USE = "use.lock"  # shared for as long as a run uses the bed; had alone to stop it
_START_TIMEOUT_S = 280
_COMMAND_TIMEOUT_S = 120
_ALONE_TIMEOUT_S = 280
_OURS = pytest.StashKey[str]()
_SERVERS = {
    "sql": "run/mariadbd.pid",
    "dbd": "run/slurmdbd.pid",
    "ctld": "run/slurmctld.pid",
    "rest": "run/slurmrestd.pid",
}
_BY_ITSELF = "by-itself.txt"  # what Slurm did that no test asked for
#: In the words of sinfo, which marks a silent node with a star.
_AT_WORK = {
    "idle",
    "mixed",
    "allocated",
    "completing",
    "planned",
    "reserved",
}
_writing: set[Path] = set()


class NoSlurm(Exception):
    """There is no bed, or it cannot be had; the text says why."""


@dataclass(frozen=True)
class BedPartition:
    """A partition of equal nodes."""

    name: str
    gres_type: str
    node_count: int
    gpus_per_node: int
    first_node: str


@dataclass(frozen=True)
class BedCores:
    """The partition of equal nodes without GPUs."""

    partition: str
    node_count: int
    cores_per_node: int
    first_node: str


@dataclass(frozen=True)
class SlurmBed:
    """Where the bed is, who may use it, and the switches of its daemons.

    `output_root` and `working_directory` hold the word `{user}`. A daemon's name is `rest`,
    `ctld`, `dbd`, `sql` or the name of a node.
    """

    folder: Path
    cluster: str
    url: str
    jwt_key_file: Path
    service_user: str
    users: tuple[str, ...]
    user_ids: Mapping[str, int]
    partitions: Mapping[str, BedPartition]
    cores: BedCores
    output_root: str
    working_directory: str
    slurm_conf: Path
    min_job_age_s: int
    kill_wait_s: int
    node_timeout_s: int
    has_private_names: bool
    api_version: str  # the only one that it offers; "" for all that its release has

    def run(self, command: list[str], *, timeout_s: int = _COMMAND_TIMEOUT_S) -> str:
        """What one of Slurm's own commands prints, asked as root of this bed."""
        done = subprocess.run(
            command,
            env=os.environ | {"SLURM_CONF": str(self.slurm_conf)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout}")
        return done.stdout

    def token(self, user: str, lifetime_s: int = 3600) -> str:
        """A JSON web token for a UNIX user, made by Slurm."""
        printed = self.run(["scontrol", "token", f"username={user}", f"lifespan={lifetime_s}"])
        return printed.strip().removeprefix("SLURM_JWT=")

    def _daemon(self, verb: str, names: tuple[str, ...]) -> None:
        _script("daemon.sh", verb, *names, folder=self.folder)

    def stop(self, *names: str) -> None:
        """End daemons in good order."""
        self._daemon("stop", names)

    def start(self, *names: str) -> None:
        """Start daemons that are down, wake those that are frozen."""
        self._daemon("start", names)

    def restart(self, *names: str) -> None:
        """End and start daemons."""
        self._daemon("restart", names)

    def kill9(self, *names: str) -> None:
        """Kill daemons without warning; what they started goes on."""
        self._daemon("kill9", names)

    def freeze(self, *names: str) -> None:
        """Let daemons hang: their ports stay open and nothing answers."""
        self._daemon("freeze", names)

    def thaw(self, *names: str) -> None:
        """Let frozen daemons go on."""
        self._daemon("thaw", names)

    def crash(self, *nodes: str) -> None:
        """Nodes lose their power: slurmd, step daemons and jobs are gone at once."""
        self._daemon("crash", nodes)

    def ended(self) -> list[str]:
        """Those of Slurm's own servers that run no more: 22.05 has faults that end them."""
        return [name for name, pid_file in _SERVERS.items() if not _runs(self.folder / pid_file)]

    def nodes_without_work(self) -> list[str]:
        """Nodes that are given no jobs, each with its state and why: down or drained, or silent
        since they were frozen or had no controller."""
        printed = self.run(["sinfo", "-hN", "-o", "%N|%T|%E"])
        found = {}
        for line in printed.splitlines():
            name, state, reason = line.split("|", 2)
            if state.rstrip("+-") not in _AT_WORK:
                found[name] = f"{name} ({state}, {reason.strip()})"
        return list(found.values())

    def until_nodes_take_work(self, *, timeout_s: int = 90) -> None:
        """Do what an operator does about nodes that are given no jobs, and wait until all are."""
        deadline = time.monotonic() + timeout_s
        while idle := self.nodes_without_work():
            if time.monotonic() > deadline:
                raise AssertionError(f"nodes take no work after {timeout_s} s: {idle[:5]}")
            names = ",".join(told.split()[0] for told in idle)
            # Not all states can be left so, and one that is only silent answers by itself.
            with suppress(AssertionError):
                self.run(["scontrol", "update", f"node={names}", "state=RESUME"])
            time.sleep(0.5)

    @contextmanager
    def account_writing(self) -> Iterator[None]:
        """Accounts, associations and QoS are changed inside the block, by nobody else."""
        if self.folder in _writing:
            yield
            return
        with _hold(self.folder, ACCOUNTS, alone=True):
            _writing.add(self.folder)
            try:
                yield
            finally:
                _writing.remove(self.folder)

    @contextmanager
    def without(self, *names: str) -> Iterator[None]:
        """These daemons are down inside the block."""
        self.stop(*names)
        try:
            yield
        finally:
            self.start(*names)

    @contextmanager
    def frozen(self, *names: str) -> Iterator[None]:
        """These daemons hang inside the block."""
        self.freeze(*names)
        try:
            yield
        finally:
            self.start(*names)

    def empty(self, *, timeout_s: int = 60) -> None:
        """Cancel every job and wait until none holds a node."""
        for state in ("PENDING", "RUNNING", "SUSPENDED"):
            self.run(["scancel", f"--state={state}"])
        deadline = time.monotonic() + timeout_s
        while left := self.run(["squeue", "-h", "-t", "all", "-o", "%i %T %N"]):
            busy = [line for line in left.splitlines() if _holds_a_node(line)]
            if not busy:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"jobs do not end within {timeout_s} s: {busy[:5]}")
            time.sleep(0.2)


def _runs(pid_file: Path) -> bool:
    try:
        state = Path(f"/proc/{int(pid_file.read_text())}/stat").read_text()
    except (OSError, ValueError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def _holds_a_node(line: str) -> bool:
    return line.split()[1] in {"PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING"}


def the_folder() -> Path:
    """Where the bed of this run is, by environment or by default; the scripts read the same."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named or Path(os.environ.get("TMPDIR") or "/tmp") / "tidegate-slurm-bed")


def read_bed(folder: Path) -> SlurmBed:
    """The running bed that `bed.json` in `folder` describes."""
    told = json.loads((folder / "bed.json").read_text())
    return SlurmBed(
        folder=folder,
        cluster=told["cluster"],
        url=told["url"],
        jwt_key_file=Path(told["jwt_key_file"]),
        service_user=told["service_user"],
        users=tuple(told["users"]),
        user_ids=told["user_ids"],
        partitions={
            name: BedPartition(
                name=name,
                gres_type=partition["gres_type"],
                node_count=partition["nodes"],
                gpus_per_node=partition["gpus_per_node"],
                first_node=partition["first_node"],
            )
            for name, partition in told["partitions"].items()
        },
        cores=BedCores(
            partition=told["cores"]["partition"],
            node_count=told["cores"]["nodes"],
            cores_per_node=told["cores"]["cores_per_node"],
            first_node=told["cores"]["first_node"],
        ),
        output_root=told["output_root"],
        working_directory=told["working_directory"],
        slurm_conf=Path(told["slurm_conf"]),
        min_job_age_s=told["min_job_age_s"],
        kill_wait_s=told["kill_wait_s"],
        node_timeout_s=told["node_timeout_s"],
        has_private_names=told["private_names"],
        api_version=told["api_version"],
    )


def _script(
    name: str, *words: str, folder: Path, timeout_s: int = _COMMAND_TIMEOUT_S
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [str(SCRIPTS / name), *words],
        env=os.environ | {FOLDER_VARIABLE: str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        told = done.stderr.strip() or done.stdout.strip() or f"{name} failed"
        raise NoSlurm(told.removeprefix("Slurm bed: "))
    return done


def start_bed(folder: Path) -> SlurmBed:
    """The bed in `folder`, started where it does not run. Raises NoSlurm with the reason."""
    if os.geteuid() != 0:
        raise NoSlurm("Slurm's daemons need root, and these tests run without it")
    try:
        _script("start.sh", folder=folder, timeout_s=_START_TIMEOUT_S)
    except subprocess.TimeoutExpired as over:
        raise NoSlurm(f"start.sh was not done after {_START_TIMEOUT_S} s") from over
    return read_bed(folder)


@contextmanager
def _hold(
    folder: Path, name: str, *, alone: bool, within_s: int = _ALONE_TIMEOUT_S
) -> Iterator[None]:
    """Share a lock with other workers, or have it alone; bounded, as flock itself is not."""
    deadline = time.monotonic() + within_s
    with (folder / name).open("w") as file:
        while True:
            try:
                fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NoSlurm("other tests have kept the Slurm bed busy") from None
                time.sleep(0.1)
        yield


@contextmanager
def _turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """A test's turn on the bed. All come through one door, and who wants the bed alone waits in it:
    workers with one short test after the other would never let go of it at the same moment."""
    with ExitStack() as held:
        with ExitStack() as door:
            door.enter_context(_hold(folder, DOOR, alone=True))
            held.enter_context(_hold(folder, ONE_TEST, alone=alone))
        yield


def did_not_run(reason: NoSlurm) -> NoReturn:
    """End a test that needs a bed: skipped aloud, or failed where the suite must run."""
    said = DID_NOT_RUN + " ".join(str(reason).split())
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(f"{said} ({REQUIRE_VARIABLE}=1 makes this a failure)", pytrace=False)
    pytest.skip(said)


@pytest.fixture(scope="session")
def slurm_bed() -> Iterator[SlurmBed]:
    """A real Slurm: 64 nodes of 8 H100, 16 of 8 A100 and 2 without GPUs, unless the running bed is
    another."""
    try:
        bed = start_bed(the_folder())
    except NoSlurm as reason:
        did_not_run(reason)
    with _hold(bed.folder, IN_USE, alone=False):
        yield bed


@pytest.fixture(autouse=True)
def _slurm_turn(request: pytest.FixtureRequest) -> Iterator[None]:
    if not _uses_slurm(request.node):
        yield
        return
    alone = request.node.get_closest_marker("disturbs_slurm") is not None
    bed: SlurmBed = request.getfixturevalue("slurm_bed")
    writes = request.node.get_closest_marker("writes_slurm_accounts") is not None
    with ExitStack() as held:
        # In this order: a test that shares the bed may want to write for a moment.
        held.enter_context(_turn(bed.folder, alone=alone))
        if writes:
            held.enter_context(bed.account_writing())
        _mend(bed, f"before {request.node.nodeid}")
        yield
        if alone:
            start_bed(bed.folder)  # a test that failed half-way may have left something down
            bed.until_nodes_take_work()
        else:
            _mend(bed, f"in {request.node.nodeid}")


def _uses_slurm(item: pytest.Item) -> bool:
    return "slurm_bed" in getattr(item, "fixturenames", ()) or any(
        item.get_closest_marker(name) is not None for name in ("slurm", "disturbs_slurm")
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What fails on the real Slurm is tried once more, and the summary says so: Slurm 22.05 loses,
    hangs and ends by itself at times. What is broken of ours fails twice. Chaos counts at once."""
    for item in items:
        if _uses_slurm(item) and item.get_closest_marker("chaos") is None:
            item.add_marker(pytest.mark.flaky(reruns=1))


def _mend(bed: SlurmBed, when: str) -> None:
    """Start again what ended by itself and have all nodes take work, so that one fault of Slurm
    fails one test at most; the summary tells of it."""
    if ended := bed.ended():
        _note(bed, f"ended by itself: {', '.join(ended)} {when}")
        start_bed(bed.folder)
    try:
        idle = bed.nodes_without_work()
    except (AssertionError, subprocess.TimeoutExpired) as silence:
        _note(bed, f"did not answer: {silence} {when}")
        bed.kill9("ctld")
        start_bed(bed.folder)
        idle = bed.nodes_without_work()
    if idle:
        _note(bed, f"took no work: {', '.join(idle)} {when}")
        bed.until_nodes_take_work()


def _note(bed: SlurmBed, what: str) -> None:
    with (bed.folder / _BY_ITSELF).open("a") as file:
        file.write(f"{what}\n")


def pytest_configure(config: pytest.Config) -> None:
    """Name this run, so that its end stops the bed that it started and no other."""
    config.addinivalue_line("markers", "slurm: uses the real Slurm of this run")
    config.addinivalue_line("markers", "writes_slurm_accounts: changes accounts of the real Slurm")
    config.addinivalue_line("markers", "disturbs_slurm: needs the real Slurm of this run alone")
    if not hasattr(config, "workerinput"):
        config.stash[_OURS] = os.environ[STARTER_VARIABLE] = uuid.uuid4().hex


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []


def _starter(folder: Path) -> str:
    try:
        return (folder / "starter").read_text()
    except OSError:
        return ""


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """One line if the suite did not run; and the end of a bed that this run started."""
    reasons = {
        text[text.index(DID_NOT_RUN) :]
        for report in terminalreporter.stats.get("skipped", [])
        if DID_NOT_RUN in (text := _reason(report))
    }
    for reason in sorted(reasons):
        terminalreporter.write_line(reason, red=True, bold=True)
    folder = the_folder()
    by_itself = folder / _BY_ITSELF
    for line in _lines(by_itself):
        terminalreporter.write_line(f"Of the real Slurm {line}", yellow=True)
    by_itself.unlink(missing_ok=True)
    ours = config.stash.get(_OURS, None)
    if ours is None or _starter(folder) != ours:
        return
    # After a failure the daemons' logs are worth more than a clean machine.
    words = [] if exitstatus else ["--purge"]
    try:
        with _hold(folder, IN_USE, alone=True, within_s=5):
            _script("stop.sh", *words, folder=folder)
    except (NoSlurm, subprocess.TimeoutExpired) as reason:
        terminalreporter.write_line(f"The Slurm bed was not stopped: {reason}", red=True)
    else:
        if exitstatus:
            terminalreporter.write_line(f"The Slurm bed's logs are in {folder / 'log'}")


def _reason(report: object) -> str:
    told = getattr(report, "longrepr", None)
    return str(told[2]) if isinstance(told, tuple) else str(told)

"""The client against a real Slurm with its accounting."""

import base64
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from builders.slurm_rest_builders import a_submission
from connectors.errors import ClusterUnavailable, NotOffered, OutcomeUnknown
from connectors.slurm.answers import AuthenticationFailed, SlurmRefused
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.neutral import Account, Association, Qos, SlurmJob, SlurmNode, User
from connectors.slurm.rest import SlurmRest
from slurm_bed import SlurmBed

pytestmark = [pytest.mark.slurm, pytest.mark.writes_slurm_accounts]

TRAP = "#!/bin/bash\ntrap 'exit 7' USR1\nfor _ in $(seq 600); do sleep 0.1; done\n"


def a_token(bed: SlurmBed, user: str, *, lifetime_s: int = 600, key: bytes | None = None) -> str:
    """A token as the cluster's minter makes it: HS256 over `sun` and `exp`."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    now = int(time.time())
    claims = {"iat": now, "exp": now + lifetime_s, "sun": user}
    signed = ".".join(part(json.dumps(words).encode()) for words in ({"alg": "HS256"}, claims))
    key = bed.jwt_key_file.read_bytes() if key is None else key
    return f"{signed}.{part(hmac.new(key, signed.encode(), hashlib.sha256).digest())}"


@dataclass
class Tokens:
    """Tokens of everybody, or bad ones."""

    bed: SlurmBed
    lifetime_s: int = 600
    key: bytes | None = None

    def token_for(self, user: str) -> str:
        return a_token(self.bed, user, lifetime_s=self.lifetime_s, key=self.key)


def a_live_client(bed: SlurmBed, **tokens: Any) -> SlurmRest:
    return SlurmRest(bed.url, Tokens(bed, **tokens), service_user=bed.service_user)


@pytest.fixture
def client(slurm_bed: SlurmBed) -> Iterator[SlurmRest]:
    """A client of the bed."""
    made = a_live_client(slurm_bed)
    yield made
    made.close()


@dataclass(frozen=True)
class Team:
    """An account with one user in it."""

    account: str
    user: str


@pytest.fixture
def team(slurm_bed: SlurmBed, client: SlurmRest) -> Iterator[Team]:
    """A new account below root with a user of the bed; both are gone afterwards."""
    made = Team(f"rest-{uuid.uuid4().hex[:12]}", slurm_bed.users[-1])
    client.accounting.put_account(Account(made.account, "A team", "tests"))
    client.accounting.put_association(
        Association(made.account, slurm_bed.cluster, parent_account="root")
    )
    client.accounting.add_user(made.user, account=made.account, cluster=slurm_bed.cluster)
    client.accounting.put_user(User(made.user, made.account))
    client.accounting.put_association(
        Association(made.account, slurm_bed.cluster, user=made.user, is_default=True)
    )
    yield made
    for job in client.controller.jobs().jobs:
        if job.account == made.account:
            client.controller.cancel(job.job_id)
    eventually(lambda: all_over(client, made.account))
    slurm_bed.run(["sacctmgr", "-i", "delete", "user", made.user])
    client.accounting.delete_account(made.account)


def all_over(client: SlurmRest, account: str) -> bool:
    return not [
        job
        for job in client.controller.jobs().jobs
        if job.account == account and job.state in {"PENDING", "RUNNING", "SUSPENDED"}
    ]


def eventually(found: Callable[[], Any], within_s: int = 30) -> Any:
    """The first true value of `found`."""
    deadline = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.1)
    return value


def in_state(client: SlurmRest, job_id: int, state: str) -> Callable[[], SlurmJob | None]:
    def found() -> SlurmJob | None:
        job = client.controller.job(job_id)
        return job if job and job.state == state and not job.state_flags else None

    return found


def submit(client: SlurmRest, team: Team, **changes: Any) -> int:
    values: dict[str, Any] = {
        "name": f"rest-{uuid.uuid4().hex}",
        "account": team.account,
        "qos": "normal",
        "script": TRAP,
        "working_directory": "/tmp",
        "standard_output": "/dev/null",
        "standard_error": "/dev/null",
        "time_limit_minutes": 5,
        "memory_mb_per_node": 100,
        "cpus_per_task": 1,
    }
    return client.controller.submit(team.user, a_submission(**{**values, **changes}))


def test_the_bed_answers(slurm_bed: SlurmBed, client: SlurmRest) -> None:
    newest = {"22.05": "v0.0.38", "24.11": "v0.0.42", "26.05": "v0.0.45"}
    release = ".".join(slurm_bed.run(["scontrol", "--version"]).split()[-1].split(".")[:2])
    assert client.version == (slurm_bed.api_version or newest[release])
    assert client.controller.ping() is True
    diag = client.controller.diag()
    assert abs(diag.observed_at - int(time.time())) <= 5
    assert slurm_bed.cluster in client.accounting.clusters()


def test_nodes_and_partitions(slurm_bed: SlurmBed, client: SlurmRest) -> None:
    nodes = {node.name: node for node in client.controller.nodes()}
    partitions = {partition.name: partition for partition in client.controller.partitions()}
    for name, told in slurm_bed.partitions.items():
        found = partitions[name]
        assert found.state == "UP"
        assert len(found.nodes) == told.node_count
        assert found.gpus == {told.gres_type: told.node_count * told.gpus_per_node}
        for node in found.nodes:
            assert nodes[node].gpus == {told.gres_type: told.gpus_per_node}
            assert name in nodes[node].partitions


def test_a_job_from_its_hold_to_its_history(
    slurm_bed: SlurmBed, client: SlurmRest, team: Team
) -> None:
    began = client.controller.diag().observed_at
    job_id = submit(client, team, name="rest-story", comment="für Ana")
    held = client.controller.job(job_id)
    assert held is not None
    assert (held.name, held.comment, held.user, held.account) == (
        *("rest-story", "für Ana"),
        *(team.user, team.account),
    )
    assert (held.state, held.reason, held.is_held) == ("PENDING", "JobHeldUser", True)
    assert (held.node_count, held.time_limit_s) == (3, 300)
    assert "Requeue=0" in slurm_bed.run(["scontrol", "show", "job", str(job_id)]).split()
    assert held.gpus_requested == {"h100": 6}
    client.controller.set_hold(job_id, True)
    assert client.controller.job(job_id).reason == "JobHeldAdmin"  # type: ignore[union-attr]
    client.controller.set_hold(job_id, False)
    running = eventually(in_state(client, job_id, "RUNNING"))
    assert len(running.nodes) == 3
    assert running.gpus_by_node == dict.fromkeys(running.nodes, 2)
    assert running.start_time >= running.submit_time >= began
    assert job_id in {job.job_id for job in client.controller.jobs().jobs}
    # The shell must have set its trap before the signal comes.
    eventually(lambda: client.controller.diag().observed_at > running.start_time + 1)
    client.controller.cancel(job_id, signal="USR1")
    ended = eventually(in_state(client, job_id, "FAILED"))
    assert (ended.exit_code, ended.exit_signal, ended.nodes) == (7, None, running.nodes)
    client.controller.cancel(job_id)

    def recorded() -> Any:
        try:
            runs = client.accounting.job_history(job_id)
        except ClusterUnavailable:
            return None
        return runs if runs and runs[0].end_time else None

    (run,) = eventually(recorded)
    assert (run.name, run.user, run.account, run.state) == (
        *("rest-story", team.user),
        *(team.account, "FAILED"),
    )
    assert (run.start_time, run.end_time) == (ended.start_time, ended.end_time)
    assert (run.gpus, run.nodes) == ({"h100": 6}, running.nodes)
    until = client.controller.diag().observed_at + 1
    assert client.accounting.history(start=began, end=until, account=team.account) == (run,)
    assert client.accounting.history(start=began, end=until, account="root") == ()
    assert (
        client.accounting.history(start=began - 7_200, end=began - 3_600, account=team.account)
        == ()
    )


def test_a_cancelled_job(client: SlurmRest, team: Team) -> None:
    job_id = submit(client, team, hold=False)
    running = eventually(in_state(client, job_id, "RUNNING"))
    eventually(lambda: client.controller.diag().observed_at > running.start_time + 1)
    client.controller.cancel(job_id)
    ended = eventually(in_state(client, job_id, "CANCELLED"))
    assert ended.exit_signal == 15
    assert client.controller.job(99_999_999) is None
    client.controller.cancel(99_999_999)
    client.controller.cancel(99_999_999, signal="USR1")
    assert client.accounting.job_history(99_999_999) == ()


def test_a_change_is_in_the_next_list(client: SlurmRest, team: Team) -> None:
    """Unchanged answers keep the last list; what changes in the same second is not lost."""
    first = client.controller.jobs()
    for _ in range(5):
        job_id = submit(client, team)
        listed = client.controller.jobs()
        assert job_id in {job.job_id for job in listed.jobs}
        assert listed.observed_at >= first.observed_at
        client.controller.cancel(job_id)
        states = {job.job_id: job.state for job in client.controller.jobs().jobs}
        assert states[job_id] == "CANCELLED"


@pytest.mark.parametrize(
    ("changes", "number"),
    [
        ({"partition": "nope"}, 2000),
        ({"account": "nope"}, 2045),
        ({"qos": "nope"}, 2066),
        ({"gpus_per_node": 9, "hold": False}, 2014),
        ({"gres_type": "b200", "hold": False}, 2014),
        ({"constraint": "nope"}, 2029),
    ],
)
def test_refusals_are_definite(
    client: SlurmRest, team: Team, changes: dict[str, Any], number: int
) -> None:
    with pytest.raises(SlurmRefused) as caught:
        submit(client, team, **changes)
    assert caught.value.number == number


@pytest.mark.disturbs_slurm
def test_a_node_is_drained_where_the_version_can(slurm_bed: SlurmBed, client: SlurmRest) -> None:
    name = slurm_bed.partitions["a100"].first_node

    def node() -> SlurmNode:
        return next(node for node in client.controller.nodes() if node.name == name)

    if not DIALECTS[client.version].changes_nodes:
        with pytest.raises(NotOffered):
            client.controller.set_node(name, drain=True, reason="test")
        return
    client.controller.set_node(name, drain=True, reason="test")
    assert ("DRAIN" in node().state_flags, node().reason) == (True, "test")
    client.controller.set_node(name, drain=False, reason="")
    eventually(lambda: node().takes_work)


def test_a_qos_there_and_back(client: SlurmRest, team: Team) -> None:
    name = f"rest-{uuid.uuid4().hex[:12]}"

    def read() -> Qos | None:
        return next((qos for qos in client.accounting.qos() if qos.name == name), None)

    full = Qos(
        name,
        "Borrowed",
        priority=5,
        flags=("DENY_LIMIT",),
        preempts=("normal",),
        preempt_mode=("CANCEL",),
        grace_s=3,
        group_tres={"gres/gpu": 0, "gres/gpu:h100": 12},
        user_tres={"gres/gpu": 4},
        job_tres={"cpu": 9},
    )
    # No other version than v0.0.38 takes out the last that is preempted.
    kept = () if client.version == "v0.0.38" else full.preempts
    bare = Qos(name, "Borrowed", priority=6, group_tres={"gres/gpu": 8}, preempts=kept)
    for wanted in (full, full, bare, full):
        client.accounting.put_qos(wanted)
        assert read() == wanted
    client.accounting.put_qos(bare)
    client.accounting.put_association(
        Association(
            team.account,
            cluster_of(client, team),
            user=team.user,
            qos=("normal", name),
            group_tres={"gres/gpu": 3},
        )
    )
    (association,) = client.accounting.associations(user=team.user, account=team.account)
    assert set(association.qos) == {"normal", name}
    assert association.group_tres == {"gres/gpu": 3}
    client.accounting.put_association(
        Association(
            team.account,
            cluster_of(client, team),
            user=team.user,
            qos=("normal",),
            group_tres={"gres/gpu": None},
        )
    )
    (association,) = client.accounting.associations(user=team.user, account=team.account)
    assert (association.qos, association.group_tres) == (("normal",), {})
    client.accounting.delete_qos(name)
    assert read() is None
    client.accounting.delete_qos(name)


def cluster_of(client: SlurmRest, team: Team) -> str:
    return client.accounting.associations(account=team.account)[0].cluster


def test_accounts_and_associations_there_and_back(
    slurm_bed: SlurmBed, client: SlurmRest, team: Team
) -> None:
    assert Account(team.account, "A team", "tests") in client.accounting.accounts()
    client.accounting.put_account(Account(team.account, "A team", "tests"))
    child = f"{team.account}-child"
    client.accounting.put_account(Account(child, "A child", "tests"))
    written = Association(
        child, slurm_bed.cluster, parent_account=team.account, group_tres={"gres/gpu": 16}
    )
    client.accounting.put_association(written)
    client.accounting.put_association(written)
    (read,) = client.accounting.associations(account=child)
    assert (read.parent_account, read.user, read.group_tres) == (
        *(team.account, ""),
        {"gres/gpu": 16},
    )
    changed = Association(child, slurm_bed.cluster, group_tres={"gres/gpu": 8})
    if client.accounting.changes_accounts_by_detour:
        with pytest.raises(NotOffered):
            client.accounting.put_association(changed)
    else:
        client.accounting.put_association(changed)
        (read,) = client.accounting.associations(account=child)
        assert (read.parent_account, read.group_tres) == (team.account, {"gres/gpu": 8})
    client.accounting.put_association(Association(child, slurm_bed.cluster, user=team.user))
    assert {item.account for item in client.accounting.associations(user=team.user)} == {
        team.account,
        child,
    }
    client.accounting.delete_association(child, cluster=slurm_bed.cluster, user=team.user)
    client.accounting.delete_association(child, cluster=slurm_bed.cluster, user=team.user)
    assert {item.user for item in client.accounting.associations(account=child)} == {""}
    listed = next(user for user in client.accounting.users() if user.name == team.user)
    # From v0.0.40 on the association alone tells which account is the default.
    named = team.account if client.version == "v0.0.38" else ""
    assert listed == User(team.user, named, "None")
    (member,) = client.accounting.associations(account=team.account, user=team.user)
    assert member.is_default
    client.accounting.delete_account(child)
    client.accounting.delete_account(child)
    assert client.accounting.associations(account=child) == ()


@pytest.mark.parametrize("bad", [{"lifetime_s": -10}, {"key": b"x" * 32}])
def test_a_refused_token_is_told_from_a_dead_controller(
    slurm_bed: SlurmBed, bad: dict[str, Any]
) -> None:
    client = a_live_client(slurm_bed, **bad)
    if client.version != "v0.0.38":
        assert client.controller.ping() is False
    for call in (
        *([client.controller.ping] if client.version == "v0.0.38" else []),
        client.controller.diag,
        client.controller.jobs,
        client.controller.nodes,
        client.accounting.qos,
        lambda: client.controller.submit(slurm_bed.users[0], a_submission()),
        lambda: client.controller.set_hold(1, True),
        lambda: client.controller.cancel(1),
        lambda: client.accounting.put_account(Account("never", "Never", "never")),
    ):
        with pytest.raises(AuthenticationFailed):
            call()
    client.close()


@pytest.mark.disturbs_slurm
def test_without_the_accounting_its_reads_fail_and_jobs_go_on(
    slurm_bed: SlurmBed, client: SlurmRest, team: Team
) -> None:
    with slurm_bed.without("dbd"):
        for call in (
            lambda: client.accounting.history(start=0, end=client.controller.diag().observed_at),
            lambda: client.accounting.job_history(1),
            client.accounting.accounts,
            client.accounting.associations,
            client.accounting.qos,
            client.accounting.users,
        ):
            with pytest.raises(ClusterUnavailable):
                call()
        with pytest.raises(ClusterUnavailable):
            client.accounting.put_account(Account("never", "Never", "never"))
        job_id = submit(client, team)
        assert client.controller.job(job_id) is not None
    eventually(lambda: works(client.accounting.accounts))


def works(call: Callable[[], Any]) -> bool:
    try:
        call()
    except ClusterUnavailable:
        return False
    return True


@pytest.mark.disturbs_slurm
def test_a_restart_of_slurmrestd_is_survived(
    slurm_bed: SlurmBed, client: SlurmRest, team: Team
) -> None:
    """The connection that was kept is gone then: reads are sent again."""
    assert client.controller.ping()
    slurm_bed.restart("rest")
    assert client.controller.ping()
    with slurm_bed.without("rest"):
        with pytest.raises(ClusterUnavailable) as caught:
            submit(client, team)
        assert not isinstance(caught.value, OutcomeUnknown)
    assert client.controller.ping()


@pytest.mark.disturbs_slurm
def test_a_submission_to_a_frozen_slurmrestd_may_have_happened(
    slurm_bed: SlurmBed, team: Team
) -> None:
    impatient = SlurmRest(
        slurm_bed.url, Tokens(slurm_bed), service_user=slurm_bed.service_user, read_timeout_s=1.0
    )
    assert impatient.controller.ping()
    with slurm_bed.frozen("rest"), pytest.raises(OutcomeUnknown):
        submit(impatient, team)
    impatient.close()

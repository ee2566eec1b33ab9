"""Who may have tokens of a real Slurm, and who does without."""

from __future__ import annotations

import pytest

from builders.api_callers import by_token
from builders.loop_builders import a_job
from builders.portal_builders import Company, a_grant
from builders.slurm_loop import SlurmLoop
from clusters.models import Cluster
from conformance.rigs import SlurmRig
from connectors.registry import open_connector
from slurm.hands_on_slurm import bob, company, loop
from tenants.models import User
from tenants.roles import Role

__all__ = ["bob", "company", "loop"]

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.timeout(400),
]


_PROBE = """
import json, os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect(sys.argv[1])
    try:
        peer.sendall(b'{"user": "tidegate"}\\n')
    except BrokenPipeError:
        pass  # it hangs up on strangers
    print(json.loads(peer.makefile().readline()))
try:
    open(sys.argv[2]).read()
except PermissionError:
    print("no key")
"""


def test_another_user_than_the_observer_gets_neither_token_nor_key(slurm_rig: SlurmRig) -> None:
    """As docs/slurm.md wants the web workers: only the observer's uid is allowed to ask."""
    bed = slurm_rig.bed
    printed = bed.run(
        ["python3", "-c", _PROBE, slurm_rig.options["token_socket"], str(bed.jwt_key_file)]
    )
    assert printed.splitlines() == ["{'error': 'uid 65534 may not ask for tokens'}", "no key"]


def test_a_web_worker_reads_logs_without_minter_and_cluster(
    loop: SlurmLoop, company: Company, bob: User
) -> None:
    job = a_job(company.nlp, bob, company.pool, script="echo hello")
    loop.until(job, "succeeded", "failed")
    away = {"token_socket": "/nowhere/minter", "url": "http://127.0.0.1:1"}
    Cluster.objects.filter(pk=loop.cluster.pk).update(options={**loop.rig.options, **away})
    a_grant(bob, Role.RESEARCHER, company.nlp)
    answer = by_token(bob).get(f"jobs/{job.id}/logs")
    assert (answer.status_code, answer.json()["text"]) == (200, "hello\n")


def test_no_option_of_a_cluster_holds_the_key(slurm_rig: SlurmRig) -> None:
    for name in ("jwt_key", "jwt_key_file", "token"):
        with pytest.raises(ValueError, match=f"unknown options of a Slurm cluster: {name}"):
            open_connector("slurm", {**slurm_rig.options, name: "x"}, "any")

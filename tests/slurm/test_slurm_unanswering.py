"""Clusters that do not answer, or not sensibly: what their page says; and no other is slower."""

from __future__ import annotations

import http.server
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from builders.api_callers import by_token
from builders.job_builders import a_body
from builders.portal_builders import a_cluster, a_company, a_grant, a_user, an_actor
from clusters.models import Cluster
from conformance.rigs import SlurmRig
from connectors.slurm.minter import Minter, Policy
from jobs.models import Job
from quotas.fleet import cluster_message
from slurm.company_on_slurm import poll
from slurm.hands_on_slurm import sbatch
from slurm.portal_processes import portal_processes
from slurm_bed import SlurmBed
from tenants.access import actor_of
from tenants.roles import Role

BEHIND = (
    "statistics: request failed: Unspecified error (Slurm error -1); slurmrestd answers, is "
    "slurmctld (for accounting: slurmdbd) down behind it?"
)
SAID = {
    "slurmrestd is down": "no connection to the cluster: [Errno 111] Connection refused",
    "slurmctld is down": BEHIND,
    "slurmrestd hangs": "the cluster did not answer within 30 s",
    "slurmctld hangs": BEHIND,
    "a forged token": (
        "the cluster refuses the token of tidegate (statistics); does the minter have this "
        "cluster's key, and do the clocks agree?"
    ),
    "no minter of ours": (
        "The options of local are wrong: option token_socket names /nowhere/minter, which is none "
        "of the minters that may be asked; whoever runs this installation can add it to "
        "TIDEGATE_SLURM_MINTERS and restart it."
    ),
    "not JSON": ("statistics: the answer is no statistics (HTTP status 200); is this slurmrestd?"),
    "errors and 200": "statistics: no database (Slurm error 7000)",
    "not found": (
        "the cluster offers none of the API versions v0.0.45, v0.0.44, v0.0.43, v0.0.42, "
        "v0.0.41, v0.0.40, v0.0.38; is this slurmrestd's address?"
    ),
    "an option is wrong": (
        "The options of local are wrong: option settle_s must be a whole number from 0 to 600."
    ),
    "slurmdbd is down": "",
}


pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slurm,
    pytest.mark.timeout(400),
]


class Babbler(http.server.BaseHTTPRequestHandler):
    """Answers every request with the same words, whatever is asked."""

    body = b""
    status = 200

    def do_GET(self) -> None:
        """The words."""
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def a_babbler(body: bytes, status: int = 200) -> Iterator[str]:
    """The address of somebody who is no slurmrestd."""
    handler = type("Handler", (Babbler,), {"body": body, "status": status})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_cluster_that_fails_says_how_and_no_other_is_slower(
    frail_bed: SlurmBed, tmp_path: Path
) -> None:
    """The real observer watches a Slurm to which one thing after the other happens, and a `local`
    cluster whose jobs are timed meanwhile."""
    rig = SlurmRig(frail_bed)
    company = a_company()
    slurm, here = company.cluster, a_cluster("here", seen_at=None)
    slurm.nodes.all().delete()
    Cluster.objects.filter(pk=slurm.pk).update(kind="slurm", options=rig.options, seen_at=None)
    here.options = {
        "root": str(tmp_path / "here"),
        "nodes": {"count": 4, "gpus": 8, "pool": "h100", "prefix": "node-"},
        "use_real_gpus": False,
        # What jobs write, tests look at.
        "isolation": "off",
    }
    here.save()
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    caller, root = by_token(bob), an_actor(None, Role.PLATFORM_ADMIN, "root")
    times: dict[str, list[float]] = {"usual": []}

    def run_a_job_here() -> None:
        began = time.monotonic()
        body = a_body(team="ai-company/research/nlp", cluster="here", script="exit 0")
        answer = caller.post("jobs", body)
        assert answer.status_code == 201, answer.content
        job = Job.objects.filter(pk=answer.json()["id"], state="succeeded")
        assert poll(job.exists, within_s=60, every_s=0.05)
        times[next(reversed(times))].append(round(time.monotonic() - began, 2))

    def page() -> tuple[str, str]:
        """What the cluster's page says to an administrator, and to others, without times."""
        slurm.refresh_from_db()
        plain = cluster_message(actor_of(bob), slurm, None)
        return cluster_message(root, slurm, None), plain.partition(" since")[0]

    def is_well() -> bool:
        return page() == ("", "")

    @contextmanager
    def options(**changes: object) -> Iterator[None]:
        Cluster.objects.filter(pk=slurm.pk).update(options={**rig.options, **changes})
        yield
        Cluster.objects.filter(pk=slurm.pk).update(options=rig.options)

    @contextmanager
    def babble(body: bytes, status: int = 200) -> Iterator[None]:
        with a_babbler(body, status) as url, options(url=url):
            yield

    @contextmanager
    def a_forger() -> Iterator[None]:
        path = str(rig.scratch / "forger")
        forger = Minter(b"x" * 32, path, Policy(frail_bed.service_user), [os.geteuid()])
        threading.Thread(target=forger.serve, daemon=True).start()
        with options(token_socket=path):
            yield
        forger.stop()

    refusal = json.dumps({"errors": [{"error_number": 7000, "error": "no database"}]}).encode()
    faults: dict[str, AbstractContextManager[None]] = {
        "slurmrestd is down": frail_bed.without("rest"),
        "slurmctld is down": frail_bed.without("ctld"),
        "slurmrestd hangs": frail_bed.frozen("rest"),
        "slurmctld hangs": frail_bed.frozen("ctld"),
        "a forged token": a_forger(),
        "no minter of ours": options(token_socket="/nowhere/minter"),
        "not JSON": babble(b"<html>Welcome</html>"),
        "errors and 200": babble(refusal),
        "not found": babble(b"{", 404),
        "an option is wrong": options(settle_s="soon"),
    }
    found: dict[str, tuple[str, str]] = {}
    with portal_processes(tmp_path / "processes.log") as processes:
        for role in ("arbiter", "observer"):
            processes.start(role)
        assert poll(lambda: is_well() and here.nodes.exists(), within_s=60)
        for _ in range(3):
            run_a_job_here()
        for name, fault in faults.items():
            times[name] = []
            with fault:
                deadline = time.monotonic() + 90
                while is_well() and time.monotonic() < deadline:
                    run_a_job_here()
                found[name] = page()
                run_a_job_here()
            assert poll(is_well, within_s=90), (name, page())
        # Without its accounting the cluster goes on; of an empty queue it could not tell whose.
        sbatch(frail_bed, "-p", "h100", "--hold")
        with frail_bed.without("dbd"):
            run_a_job_here()
            time.sleep(3)
            found["slurmdbd is down"] = page()
    rig.close()
    print(times)
    assert {plain for _, plain in found.values()} == {"Not reachable", ""}
    assert {name: words for name, (words, _) in found.items()} == SAID
    # Whatever hangs, hangs for 30 s or for good.
    assert max(seconds for each in times.values() for seconds in each) < max(times["usual"]) + 10

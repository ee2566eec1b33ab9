"""The recipes of docs/guide/programs.md, and the generated client, against the real application."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import connection
from rest_framework.request import Request
from rest_framework.views import APIView

from builders.api_callers import a_token
from builders.app_server import serving
from builders.job_builders import a_job, an_attempt
from builders.portal_builders import Company, a_company, a_grant, a_user
from clusters.models import Cluster
from jobs.models import Job
from primitives.clock import SystemClock
from primitives.errors import TooManyRequests
from quotas.models import Quota
from tenants.models import User
from tenants.roles import Role
from webapi.request_limits import RequestLimit

pytestmark = pytest.mark.django_db(transaction=True)

REPO = Path(__file__).resolve().parents[2]
GENERATED = REPO / "var/client"


def recipes() -> dict[str, str]:
    """The program of each heading, with the lines that all begin with."""
    text = (REPO / "docs/guide/programs.md").read_text()
    head, *sections = text.split("\n## ")
    (start,) = re.findall(r"```python\n(.*?)```", head, re.DOTALL)
    found = {}
    for section in sections:
        for body in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            found[section.partition("\n")[0]] = start + "\n\n" + body
    return found


@dataclass(frozen=True)
class Site:
    """A running server, and Ada, who administers the organization that it serves."""

    company: Company
    ada: User
    address: str
    token: str

    def play(self, heading: str, *arguments: str) -> str:
        """Run a recipe as Ada, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", recipes()[heading], *arguments],
            env={"TIDEGATE_SERVER": self.address, "TIDEGATE_TOKEN": self.token},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def site(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    # The server's thread gives its connection back after each request, so that the test
    # database can be emptied.
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    company = a_company()
    Cluster.objects.update(seen_at=SystemClock().now())
    ada = a_user(company.organization, "ada")
    a_grant(ada, Role.ORGANIZATION_ADMIN, company.organization)
    with serving() as address:
        yield Site(company, ada, address, a_token(ada)[1])


def test_a_job_is_submitted_once(site: Site) -> None:
    """Against: a recipe without the key."""
    first, again = site.play("Submit a job once"), site.play("Submit a job once")
    job = Job.objects.get()
    assert first.splitlines()[-1] == again.splitlines()[-1] == f"{job.pk} queued"
    assert job.time_limit_s == 7200


def test_the_end_of_a_job_is_awaited(site: Site) -> None:
    job = a_job(site.company, site.ada, state="cancelled")
    assert site.play("Wait for the end of a job", str(job.pk)) == "cancelled\n"


def test_a_list_is_read_to_its_end(site: Site) -> None:
    jobs = [a_job(site.company, site.ada, state="running") for _ in range(3)]
    for job in jobs:
        an_attempt(job, cluster=site.company.cluster)
    found = {line.split()[0] for line in site.play("Read a whole list").splitlines()}
    assert found == {str(job.pk) for job in jobs}


def test_a_quota_is_changed_from_its_version(site: Site) -> None:
    quota = Quota.objects.get(node=site.company.nlp, pool__name="h100")
    site.play("Change what others may change")
    changed = Quota.objects.get(pk=quota.pk)
    assert changed.guaranteed_mgpu == quota.guaranteed_mgpu - 1000
    assert changed.version == quota.version + 1


def test_charges_are_read_line_by_line(site: Site) -> None:
    assert site.play("Read the charges of a month").splitlines()[0].startswith("team,pool,")


def test_a_busy_portal_is_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: a recipe that sends its request once. The first answer is 429, the second 200."""
    answers = iter([False, True])

    def allow(self: RequestLimit, request: Request, view: APIView) -> bool:
        if next(answers):
            return True
        raise TooManyRequests("Wait 1 s.", retry_after_s=1)

    monkeypatch.setattr(RequestLimit, "allow_request", allow)
    assert site.play("Wait when asked to") == "ada@ai-company\n"
    assert list(answers) == []


def test_the_generated_client_lists_jobs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: a document from which no client can be generated. `make client` writes it."""
    if not GENERATED.is_dir():
        pytest.skip("There is no generated client: run `make client`.")
    monkeypatch.syspath_prepend(GENERATED)
    job = a_job(site.company, site.ada)
    package = importlib.import_module("tidegate_client")
    list_jobs = importlib.import_module("tidegate_client.api.jobs.list_jobs")
    with package.AuthenticatedClient(base_url=site.address, token=site.token) as client:
        page = list_jobs.sync(client=client)
    assert [str(each.id) for each in page.items] == [str(job.pk)]

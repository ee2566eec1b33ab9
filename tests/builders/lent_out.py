"""GPUs that a team borrows and another team's job waits for."""

from __future__ import annotations

from datetime import timedelta

from builders.job_builders import a_job, an_attempt
from builders.portal_builders import NOW, Company, a_company, a_user
from jobs.models import Job
from quotas.models import Quota


def lent_out() -> tuple[Company, Job, Job]:
    """A company with a node of 8 GPUs, a job `lost` that borrows, and a job `gains` that waits.

    research is guaranteed 4 GPUs, and its teams nlp and vision none. production keeps its 4 GPUs.
    vision has run `lost` on 4 GPUs for an hour, with ten minutes to go. nlp's `gains` needs 4.
    """
    company = a_company(nodes=1)
    for node in (company.nlp, company.vision):
        Quota.objects.filter(node=node).update(guaranteed_mgpu=0)
    for node in (company.production, company.inference):
        Quota.objects.filter(node=node).update(lend_limit_mgpu=0)
    user = a_user(company.organization)
    lost = a_job(
        company,
        user,
        team=company.vision,
        name="lost",
        state="running",
        mgpu_per_node=4_000,
        time_limit_s=4_200,
    )
    an_attempt(
        lost, cluster=company.cluster, started_at=NOW - timedelta(hours=1), guaranteed_mgpu=0
    )
    gains = a_job(company, user, name="gains", mgpu_per_node=4_000, time_limit_s=1_200)
    return company, lost, gains

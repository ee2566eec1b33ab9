"""A job that reaches its cost cap (R-112), on a cluster of any kind."""

from __future__ import annotations

from billing.spending import cost_of_jobs
from builders.billing_builders import a_rate_card
from builders.connector_builders import eventually
from builders.loop_builders import LoopOn, a_job
from builders.portal_builders import Company
from jobs.execution.cost_caps import stop_at_cost_caps
from jobs.models import Job, JobEvent
from tenants.models import User

_EURO = 10**9
_TEN_YEARS_S = 315_360_000
#: It says that it got its notice, and ends well.
SCRIPT = (
    "exec 2> /dev/null; trap 'echo noticed; exit 0' TERM; echo began; while :; do sleep 0.1; done"
)


def stopped_at_its_cap(loop: LoopOn, company: Company, user: User) -> Job:
    """Run a job of 2 GPUs with `SCRIPT` into its cap of 6 EUR, at 2 EUR a second; return it ended.

    It must not be stopped before, must be stopped once, and must not be queued again.
    """
    prices = dict.fromkeys(("guaranteed", "borrowed"), 3600 * _EURO)
    a_rate_card(company.organization, prices, pool=company.pool, start=-_TEN_YEARS_S)
    job = a_job(company.nlp, user, company.pool, gpus=2, script=SCRIPT, cost_cap_nano=6 * _EURO)
    loop.until(job, "running")
    eventually(lambda: stop_at_cost_caps(loop.clock.now()))
    attempt = job.attempts.get()
    assert (attempt.state, attempt.stop_reason) == ("stopping", "cost_cap")
    assert attempt.notice_at is not None
    assert cost_of_jobs([job.pk], attempt.notice_at)[job.pk] >= 6 * _EURO
    assert stop_at_cost_caps(loop.clock.now()) == 0
    loop.until(job, "failed", "succeeded", "cancelled", "queued")
    assert (job.state, job.end_reason, job.attempt_number) == ("failed", "cost_cap_reached", 1)
    events = list(JobEvent.objects.filter(job=job).order_by("id").values_list("event", flat=True))
    assert events == ["granted", "started", "cost_cap_reached", "failed"]
    return job

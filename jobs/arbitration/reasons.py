"""The reasons why jobs wait, stored by the cycle: only changes, in bounded parts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from arbiter.api.plan import Code, Obstacle, Plan, Waiting
from arbiter.api.snapshot import QueuedJob
from arbiter.explain.sentences import sentence
from budgets.stopping import CurrentBudget
from jobs.arbitration.snapshots import display_names
from jobs.queue.budget_stops import BudgetStops, budget_numbers, subject_of
from jobs.queue.reason_documents import iso, stored_reason
from jobs.queue.reason_lines import write_reasons
from jobs.queue.withholding import (
    BUDGET_EXHAUSTED,
    Withheld,
    borrowing_sentence,
    withheld_sentence,
)
from primitives.clock import from_epoch

#: The most explanations rewritten in one cycle: with a new cause, and with new numbers only. One
#: start changes the numbers of all jobs behind it. The rest follows in the next cycles.
NEW_CAUSES_MAX = 2_000
NEW_NUMBERS_MAX = 300


#: The reason of a job that the arbiter considered, or of one that was withheld.
Reason = Waiting | Withheld


class Reasons:
    """The explanations that one leader has stored, least recently written first."""

    def __init__(self) -> None:
        self._stored: dict[str, Reason] = {}

    def among(self, jobs: Collection[str] | None) -> Collection[str] | None:
        """Return those of `jobs` whose explanations are believed stored; None means all jobs."""
        return jobs if jobs is None else self._stored.keys() & jobs

    def news(
        self, plan: Plan, unexplained: Iterable[str], withheld: Iterable[Withheld] = ()
    ) -> list[Reason]:
        """Return the explanations that differ from the stored ones, bounded.

        They cover the waiting jobs of `plan` and the withheld jobs. New causes come first, then new
        numbers of the least recently written explanations.

        `unexplained` are the queued jobs whose stored explanation was removed since.
        """
        waiting: dict[str, Reason] = {item.job: item for item in plan.waiting}
        for item in withheld:
            waiting[item.job] = item
        stored = self._stored
        for job in [job for job in stored if job not in waiting]:
            del stored[job]
        for job in unexplained:
            stored.pop(job, None)
        causes = (
            reason
            for job, reason in waiting.items()
            if (known := stored.get(job)) is None or known.code is not reason.code
        )
        numbers = (
            waiting[job]
            for job, known in stored.items()
            if known.code is waiting[job].code and known != waiting[job]
        )
        return [*islice(causes, NEW_CAUSES_MAX), *islice(numbers, NEW_NUMBERS_MAX)]

    def remember(self, news: Sequence[Reason]) -> None:
        """Record that `news` are stored and committed."""
        for item in news:
            # Removed first, so that the dictionary stays in the order of writing.
            self._stored.pop(item.job, None)
            self._stored[item.job] = item


def store_reasons(
    news: Sequence[Reason], queued: Mapping[str, QueuedJob], stops: BudgetStops, now: datetime
) -> list[tuple[UUID, UUID]]:
    """Write `news` on the jobs that are still queued, and new causes into their history.

    `queued` has the jobs that the arbiter was offered, by id. `stops` has the budgets behind
    limits.

    Returns the job and the organization of each job that was written.
    """
    if not news:
        return []
    names = display_names()
    documents = [
        {
            "id": item.job,
            "document": withheld_document(item, now)
            if isinstance(item, Withheld)
            else reason_document(item, queued[item.job], names, stops=stops, now=now),
        }
        for item in news
    ]
    return write_reasons(documents, now)


def withheld_document(withheld: Withheld, now: datetime) -> dict[str, Any]:
    """Return the stored and shown form of the reason of a withheld job."""
    reason = stored_reason(withheld.code, withheld_sentence(withheld), now, withheld.numbers)
    return {**reason, "node": withheld.node}


def reason_document(
    waiting: Waiting,
    job: QueuedJob,
    names: Mapping[str, str],
    *,
    stops: BudgetStops,
    now: datetime,
) -> dict[str, Any]:
    """Return the stored and shown form of a reason for waiting; times are ISO 8601 UTC."""
    estimate = None
    if waiting.method is not None:
        estimate = {
            "earliest": _iso_epoch(waiting.earliest),
            "latest": _iso_epoch(waiting.latest),
            "method": waiting.method,
        }
    reason, pool = _reason(waiting, job, names, stops), None
    text = reason["sentence"]
    elsewhere = [_obstacle(one, job, names, stops) for one in waiting.elsewhere]
    if waiting.pool is not None:
        pool = names.get(waiting.pool, waiting.pool)
        text = " ".join(
            f"{name}: {why}"
            for name, why in ((pool, text), *((one["pool"], one["sentence"]) for one in elsewhere))
        )
    return {
        **reason,
        "sentence": text,
        "jobs_ahead": waiting.jobs_ahead,
        "estimated_start": estimate,
        "pool": pool,
        "elsewhere": elsewhere,
        "as_of": iso(now),
    }


def _obstacle(
    one: Obstacle, job: QueuedJob, names: Mapping[str, str], stops: BudgetStops
) -> dict[str, Any]:
    """Return why a job that accepts several pools does not start in one of them."""
    waiting = Waiting(job.id, one.code, one.numbers, one.node, one.jobs_ahead, in_pools=(one,))
    return {
        "pool": names.get(one.pool, one.pool),
        **_reason(waiting, job, names, stops),
        "jobs_ahead": one.jobs_ahead,
    }


def _reason(
    waiting: Waiting, job: QueuedJob, names: Mapping[str, str], stops: BudgetStops
) -> dict[str, Any]:
    """Return code, sentence, numbers and node of the reason in one pool.

    Where a budget made the borrow limit 0, the budget is the reason.
    """
    here = job if waiting.pool is None else job.in_pool(waiting.pool)
    budget = _stopping_budget(waiting, here, stops)
    if budget is not None:
        numbers = {**waiting.numbers, **budget_numbers(budget)}
        return {
            "code": BUDGET_EXHAUSTED,
            "sentence": borrowing_sentence(subject_of(budget, 0), numbers),
            "numbers": numbers,
            "node": budget.budget.node.display_path,
        }
    return {
        "code": waiting.code.value,
        "sentence": sentence(waiting, here, names),
        "numbers": dict(waiting.numbers),
        "node": None if waiting.node is None else names.get(waiting.node),
    }


def _stopping_budget(waiting: Waiting, job: QueuedJob, stops: BudgetStops) -> CurrentBudget | None:
    """Return the budget that keeps the job from borrowing, if that is why it waits."""
    is_limited = waiting.code is Code.BORROW_LIMIT_REACHED and waiting.node == job.team
    if is_limited or waiting.code is Code.NEVER_FITS:
        return stops.unborrowing.get((job.team, job.pool))
    return None


def _iso_epoch(epoch_s: int | None) -> str | None:
    return None if epoch_s is None else iso(from_epoch(epoch_s))

"""Why jobs wait, as the cycle stores it on them: only what changed, a bounded part at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from arbiter.api.plan import Obstacle, Plan, Waiting
from arbiter.api.snapshot import QueuedJob
from arbiter.explain.sentences import sentence
from jobs.arbitration.snapshots import display_names
from jobs.queue.reason_documents import iso, stored_reason
from jobs.queue.reason_lines import write_reasons
from jobs.queue.withholding import Withheld, withheld_sentence
from primitives.clock import from_epoch

#: Explanations rewritten in one cycle at most, where the cause is new and where only numbers
#: moved (a start moves everybody up by one); the rest follow in the next cycles.
NEW_CAUSES_MAX = 2_000
NEW_NUMBERS_MAX = 300


#: Of a job that the arbiter looked at, and of one that it was not offered.
Reason = Waiting | Withheld


class Reasons:
    """The explanations that one leader has stored; the one least recently written comes first."""

    def __init__(self) -> None:
        self._stored: dict[str, Reason] = {}

    def among(self, jobs: Collection[str] | None) -> Collection[str] | None:
        """Those of `jobs` whose explanations are thought to be stored; None, any of all."""
        return jobs if jobs is None else self._stored.keys() & jobs

    def news(
        self, plan: Plan, unexplained: Iterable[str], withheld: Iterable[Withheld] = ()
    ) -> list[Reason]:
        """Explanations of `plan` and of what it was not offered that differ from the stored ones,
        bounded: new causes, then new numbers of those that were explained longest ago.

        `unexplained` are the queued jobs whose stored explanation was taken away since.
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
        """`news` are stored, and committed."""
        for item in news:
            # Taken out first, so that the dictionary stays in the order of the writing.
            self._stored.pop(item.job, None)
            self._stored[item.job] = item


def store_reasons(
    news: Sequence[Reason], queued: Mapping[str, QueuedJob], now: datetime
) -> list[tuple[UUID, UUID]]:
    """Write `news` on the jobs that are still queued, and new causes into their history; `queued`
    has those that the arbiter was offered, by their ids.

    Returns the job and the organization of each that was written.
    """
    if not news:
        return []
    names = display_names()
    documents = [
        {
            "id": item.job,
            "document": _withheld_document(item, now)
            if isinstance(item, Withheld)
            else reason_document(item, queued[item.job], names, now=now),
        }
        for item in news
    ]
    return write_reasons(documents, now)


def _withheld_document(withheld: Withheld, now: datetime) -> dict[str, Any]:
    return stored_reason(withheld.code, withheld_sentence(withheld), now, withheld.numbers)


def reason_document(
    waiting: Waiting, job: QueuedJob, names: Mapping[str, str], *, now: datetime
) -> dict[str, Any]:
    """The stored and shown form of why a job waits; times are ISO 8601 UTC."""
    estimate = None
    if waiting.method is not None:
        estimate = {
            "earliest": _iso_epoch(waiting.earliest),
            "latest": _iso_epoch(waiting.latest),
            "method": waiting.method,
        }
    told, pool = sentence(waiting, job, names), None
    elsewhere = [_obstacle(one, job, names) for one in waiting.elsewhere]
    if waiting.pool is not None:
        pool = names.get(waiting.pool, waiting.pool)
        told = sentence(waiting, job.in_pool(waiting.pool), names)
        told = " ".join(
            f"{name}: {why}"
            for name, why in ((pool, told), *((one["pool"], one["sentence"]) for one in elsewhere))
        )
    return {
        "code": waiting.code.value,
        "sentence": told,
        "numbers": dict(waiting.numbers),
        "node": None if waiting.node is None else names.get(waiting.node),
        "jobs_ahead": waiting.jobs_ahead,
        "estimated_start": estimate,
        "pool": pool,
        "elsewhere": elsewhere,
        "as_of": iso(now),
    }


def _obstacle(one: Obstacle, job: QueuedJob, names: Mapping[str, str]) -> dict[str, Any]:
    """Why a job that accepts several pools does not start in one of them."""
    waiting = Waiting(job.id, one.code, one.numbers, one.node, one.jobs_ahead)
    return {
        "pool": names.get(one.pool, one.pool),
        "code": one.code.value,
        "sentence": sentence(waiting, job.in_pool(one.pool), names),
        "numbers": dict(one.numbers),
        "node": None if one.node is None else names.get(one.node),
        "jobs_ahead": one.jobs_ahead,
    }


def _iso_epoch(epoch_s: int | None) -> str | None:
    return None if epoch_s is None else iso(from_epoch(epoch_s))

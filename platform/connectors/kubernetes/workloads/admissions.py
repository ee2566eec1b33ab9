"""The admission of Kueue's Workload: whether, when, and if it is over. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.kubernetes.objects.reading import (
    Object,
    conditions,
    flag,
    moment,
    number,
    parts,
    text,
    true_conditions,
)
from connectors.kubernetes.workloads.states import Wait, wait_for_checks, wait_for_quota


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission of a Workload: when it is or was admitted, and whether that is over."""

    is_admitted: bool = False
    was_admitted: bool = False
    is_reserved: bool = False
    is_voted: bool = False
    is_evicted: bool = False
    is_active: bool = True
    #: Kueue deactivated it by a rule of its own and never admits it again, even if it is active.
    is_final: bool = False
    admitted_at: int | None = None
    evicted_at: int | None = None
    reason: str = ""
    message: str = ""
    wait: Wait | None = None
    raw: str = ""


def admission_of(workload: Object | None, check: str) -> Admission:
    """Return the admission of `workload`; `check` is our admission check. Raises Odd."""
    if workload is None:
        return Admission()
    said, are_true = conditions(workload), true_conditions(workload)
    admitted, evicted = said.get("Admitted", {}), said.get("Evicted", {})
    is_admitted = "Admitted" in are_true
    past_s = number(workload, "status", "accumulatedPastExecutionTimeSeconds") or 0
    changed_at = moment(admitted, "lastTransitionTime")
    evictions = sum(
        number(one, "count") or 0
        for one in parts(workload, "status", "schedulingStats", "evictions")
    )
    is_evicted = "Evicted" in are_true
    # The old vocabulary writes Admitted=False only after an earlier True; the new one always does.
    # So a workload that is evicted before its admission counts as admitted: at most one run.
    was_admitted = is_admitted or past_s > 0 or (bool(admitted) and is_evicted)
    admitted_at = None
    if was_admitted and changed_at is not None:
        admitted_at = changed_at if is_admitted else changed_at - past_s
    others: dict[str, tuple[str, str]] = {}
    is_voted = False
    for one in parts(workload, "status", "admissionChecks"):
        if text(one, "name") == check:
            is_voted = text(one, "state") == "Ready"
        elif text(one, "state") != "Ready":
            others[text(one, "name")] = (text(one, "state"), text(one, "message"))
    is_reserved = "QuotaReserved" in are_true
    wait: Wait | None = None
    raw = ""
    if not is_reserved and "QuotaReserved" in said:
        reason, raw = text(said["QuotaReserved"], "reason"), text(said["QuotaReserved"], "message")
        wait = wait_for_quota(reason, raw)
        raw = f"{reason}: {raw}"
    elif not is_reserved:
        wait = wait_for_quota("", "")
    elif is_voted and not is_admitted:
        wait, raw = wait_for_checks(others)
    return Admission(
        is_admitted=is_admitted,
        was_admitted=was_admitted,
        is_reserved=is_reserved,
        is_voted=is_voted,
        # Exception: admitted again with no past execution, it was evicted before our first vote.
        is_evicted=is_evicted
        or (evictions > 0 and was_admitted and not (is_admitted and past_s == 0)),
        is_active=flag(workload, "spec", "active") is not False,
        # Kueue 0.19 reactivates a workload that a person `Deactivated`, but never one with these
        # reasons.
        is_final=is_evicted and text(evicted, "reason").startswith("DeactivatedDueTo"),
        admitted_at=admitted_at,
        evicted_at=moment(evicted, "lastTransitionTime") if is_evicted else None,
        reason=text(evicted, "reason"),
        message=text(evicted, "message"),
        wait=wait,
        raw=raw,
    )

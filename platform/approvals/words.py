"""Words of requests, for pages, notices and the command line."""

from __future__ import annotations

from datetime import datetime

from approvals.models import ChangeRequest, RequestKind
from budgets.models import Measure
from primitives.currencies import cents_text
from primitives.units import (
    MGPU_S_PER_GPU_HOUR,
    NANO_PER_UNIT,
    div_half_even,
    gpus_text,
)

#: Amounts of each measure that are a hundredth of its unit: GPU-hour, credit or currency.
_HUNDREDTH = {
    Measure.GPU_HOURS.value: MGPU_S_PER_GPU_HOUR // 100,
    Measure.CREDITS.value: MGPU_S_PER_GPU_HOUR * 10,
    Measure.MONEY.value: NANO_PER_UNIT // 100,
}
_CALLED = {
    Measure.GPU_HOURS.value: " GPU-hours",
    Measure.CREDITS.value: " credits",
    Measure.MONEY.value: "",
}


def title_of(
    request: ChangeRequest, *, amount: int | None = None, until: datetime | None = None
) -> str:
    """Return the request in a few words, or a counter-offer with its own amount and end.

    For example "nlp +60 GPUs of h100 until 2026-11-27 18:00 UTC".
    """
    if request.kind == RequestKind.WRITE:
        return request.write.title
    until = request.until if amount is None else until
    end = "" if until is None else f" until {until:%Y-%m-%d %H:%M} UTC"
    if request.kind == RequestKind.ROLE:
        return f"Role {request.role} on {request.node.slug}{end}"
    if request.begin is not None:
        end = f" from {request.begin:%Y-%m-%d %H:%M} UTC{end}"
    more = amount_text(request, request.amount if amount is None else amount)
    match RequestKind(request.kind):
        case RequestKind.LOAN:
            assert request.lender is not None
            lender = request.lender.slug
            return f"{lender} lends {more} of {request.pool} to {request.node.slug}{end}"
        case RequestKind.BUDGET:
            return f"Budget {request.target} +{more}"
        case RequestKind.CLASS_CAP:
            return f"Cap of class {request.target} +{more}"
        case RequestKind.BORROW_LIMIT:
            return f"{request.node.slug} borrow limit +{more} of {request.pool}{end}"
        case _:
            return f"{request.node.slug} +{more} of {request.pool}{end}"


def amount_text(request: ChangeRequest, amount: int | None) -> str:
    """Return an amount with its unit, such as "60 GPUs" or "4000.00"."""
    assert amount is not None
    if request.pool is not None:
        return request.pool.kind.text(amount)
    if request.unit in _HUNDREDTH:
        hundredths = div_half_even(amount, _HUNDREDTH[request.unit])
        return f"{cents_text(hundredths, None)}{_CALLED[request.unit]}"
    return f"{gpus_text(amount)} GPUs"

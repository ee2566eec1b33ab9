"""The refusal of a request that is larger than the cap of its user (R-110)."""

from __future__ import annotations

from clusters.models import Pool
from jobs.submission.offers import Offer
from jobs.submission.requests import JobRequest
from jobs.submission.resolved_requests import size_pointer
from primitives.errors import FieldError, InvalidRequest
from primitives.units import DeviceKind, gpus_text


def check_user_cap(request: JobRequest, mgpu: int, pool: Pool, offer: Offer) -> None:
    """Raise InvalidRequest if the most that a job may start with is more than a cap of its user."""
    for cap in offer.caps:
        counts = pool.kind is DeviceKind.GPU if cap.pool is None else cap.pool == pool.pk
        if counts and mgpu > cap.mgpu:
            where = "all pools" if cap.pool is None else pool.name
            detail = (
                f"In {offer.team_path.rstrip('/')} you may use at most {pool.kind.text(cap.mgpu)} "
                f"of {where} at once, and the job asks for {gpus_text(mgpu)}. Ask for at most that."
            )
            raise InvalidRequest(
                detail, errors=[FieldError(size_pointer(request), detail, "user_cap_reached")]
            )

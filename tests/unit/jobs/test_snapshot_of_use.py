"""What the arbiter is told of recent use and of the worth of pools."""

from __future__ import annotations

import pytest

from arbiter.api.snapshot import PoolWeight, Usage
from billing.fair_use import carry_on
from builders.billing_builders import a_metered_attempt, at
from builders.portal_builders import a_company, a_pool
from clusters.models import Pool
from jobs.arbitration.snapshots import load_snapshot

pytestmark = pytest.mark.django_db


def test_a_snapshot_has_every_pools_weight_and_what_was_used_lately() -> None:
    company = a_company()
    small = a_pool("a10")
    Pool.objects.filter(pk=small.pk).update(weight=250)
    attempt = a_metered_attempt(company.nlp, 0, 10, mgpu=8_000)
    carry_on(at(0))
    snapshot = load_snapshot(at(0))
    assert set(snapshot.pool_weights) == {
        PoolWeight(str(company.pool.pk), 1_000),
        PoolWeight(str(small.pk), 250),
    }
    assert snapshot.usage == ()
    (used,) = load_snapshot(at(10)).usage
    assert used == Usage(
        str(company.nlp.pk),
        str(attempt.user_id),
        str(attempt.pool_id),
        used.decayed_mgpu_s,
        int(at(10).timestamp()),
    )
    assert 79_990 <= used.decayed_mgpu_s <= 80_000

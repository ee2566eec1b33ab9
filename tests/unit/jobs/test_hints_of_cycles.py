"""Whom a cycle's hints reach: a change of use is told in its own organization only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from builders.hints import hints_told
from builders.job_builders import a_job
from builders.portal_builders import NOW

if TYPE_CHECKING:
    from builders.jobs_world import World
    from jobs.arbitration.arbitration import Cycles

pytestmark = pytest.mark.django_db


def test_use_that_changes_is_told_in_its_organization_alone(world: World, cycles: Cycles) -> None:
    """Planted: the use of all nodes is told to everybody, so that each hears when others submit."""
    company = world.company

    def told(second: int) -> set[str]:
        with hints_told() as hints:
            cycles.run(NOW + timedelta(seconds=second))
        return {hint["to"] for hint in hints if hint["topic"] == "quotas"}

    ours, theirs = str(company.organization.pk), str(world.rival.organization.pk)
    assert told(0) == {ours, theirs}
    assert told(1) == set()
    # Larger than the pool: it waits, and takes nothing from anybody.
    a_job(company, world.bob, mgpu_per_node=8_000, node_count=100)
    assert told(2) == {ours}

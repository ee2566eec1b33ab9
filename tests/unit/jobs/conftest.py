"""A company, somebody in its team nlp, a world of two companies, and the cycles of the arbiter's
leader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from builders.jobs_world import World
    from builders.planner import Owner
    from builders.portal_builders import Company
    from jobs.arbitration.arbitration import Cycles
    from servers import ServerPlan
    from tenants.models import User

# Models are imported in the fixtures: this file is read before Django's settings are.


@pytest.fixture
def company() -> Company:
    from builders.portal_builders import a_company

    return a_company()


@pytest.fixture
def bob(company: Company) -> User:
    from builders.portal_builders import a_grant, a_user
    from tenants.roles import Role

    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    return user


@pytest.fixture
def world() -> World:
    from builders.jobs_world import a_world

    return a_world()


@pytest.fixture
def cycles() -> Cycles:
    from builders.loop_builders import Fenced
    from jobs.arbitration.arbitration import Cycles

    return Cycles(Fenced("arbiter"))  # type: ignore[arg-type]


@pytest.fixture
def statistics(server_plan: ServerPlan) -> Iterator[Owner]:
    """Says what the planner knows: nothing, unless its user says something."""
    from builders.planner import planner_knowing_nothing

    with planner_knowing_nothing(server_plan) as owner:
        yield owner

"""A company on a Slurm cluster, where bob is `tg-bob`; its control is the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders.connector_builders import change_kind

if TYPE_CHECKING:
    from builders.native_builders import AControl
    from builders.portal_builders import Company
    from builders.waiting_story import Story
    from tenants.models import User


@pytest.fixture
def company() -> Company:
    from builders.native_builders import a_slurm
    from builders.portal_builders import a_company

    company = a_company()
    a_slurm(company.cluster)
    return company


@pytest.fixture
def bob(company: Company) -> User:
    from builders.portal_builders import a_user
    from quotas.models import ClusterUser

    bob = a_user(company.organization, "bob")
    ClusterUser.objects.create(cluster=company.cluster, user=bob, name="tg-bob")
    return bob


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> AControl:
    from builders.native_builders import AControl

    control = AControl()
    change_kind(monkeypatch, "slurm", control_natives=lambda _: control)
    return control


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    """Instead, a gated cluster on which what waits is ours to start."""
    from builders.waiting_story import a_story

    return a_story(monkeypatch)

"""Each person's jobs run as a number of their own on local clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from builders.portal_builders import a_company, a_user
from clusters.trusted import check_trusted
from jobs.submission.usable_clusters import UsableClusters
from quotas import user_numbers
from quotas.models import UserNumber
from quotas.user_numbers import is_refused, numbers_of

pytestmark = pytest.mark.django_db


def test_numbers_are_given_once_and_pass_over_those_of_the_machine(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.LOCAL_UIDS = (2_000, 2_002)
    monkeypatch.setattr(user_numbers, "is_taken", lambda number: number == 2_001)
    ana, bob, eve = (a_user(None, name) for name in ("ana", "bob", "eve"))
    assert numbers_of([ana.pk]) == {ana.pk: "2000"}
    assert numbers_of([ana.pk, bob.pk]) == {ana.pk: "2000", bob.pk: "2002"}
    assert numbers_of([eve.pk]) == {}


@pytest.mark.parametrize("number", [0, 1, 999])
def test_no_number_is_one_of_the_system(number: int) -> None:
    user = a_user(None, "ana")
    with (
        pytest.raises(IntegrityError, match="user_number_is_nobody_of_the_system"),
        transaction.atomic(),
    ):
        UserNumber.objects.create(user=user, number=number)


def test_a_number_is_one_persons() -> None:
    UserNumber.objects.create(user=a_user(None, "ana"), number=2_000)
    with pytest.raises(IntegrityError, match="number"), transaction.atomic():
        UserNumber.objects.create(user=a_user(None, "bob"), number=2_000)


def test_where_nothing_is_isolated_only_the_demo_runs(settings: Any, tmp_path: Path) -> None:
    settings.LOCAL_UNISOLATED = False
    settings.STATE_DIR = tmp_path
    company = a_company()
    company.cluster.isolation = "none"
    company.cluster.save()
    ana, bob = (a_user(company.organization, name) for name in ("ana", "bob"))
    (tmp_path / "demo.json").write_text(json.dumps({"personas": [{"login": ana.login}]}))
    assert not is_refused(company.cluster, ana.login)
    assert is_refused(company.cluster, bob.login)
    rules = UsableClusters()
    here = str(company.cluster.pk)
    assert rules._needs_user == {here}
    assert rules._mapped == {str(ana.pk): {here}}
    settings.LOCAL_UNISOLATED = True
    assert not is_refused(company.cluster, bob.login)
    assert UsableClusters()._needs_user == frozenset()


@pytest.mark.parametrize(
    ("option", "setting"),
    [
        ({"isolation": "off"}, "TIDEGATE_LOCAL_UNISOLATED"),
        ({"folders": ["/srv/data", "/etc"]}, "TIDEGATE_LOCAL_FOLDERS"),
        ({"run_as": {"ana": "backup"}}, "TIDEGATE_LOCAL_RUN_AS"),
        ({"hidden": []}, "whoever runs this installation"),
        ({"uids": [1000, 1000]}, "whoever runs this installation"),
    ],
)
def test_an_administrator_widens_no_isolation(
    settings: Any, option: dict[str, Any], setting: str
) -> None:
    settings.LOCAL_UNISOLATED = False
    settings.LOCAL_FOLDERS = frozenset({"/srv/data"})
    with pytest.raises(ValueError, match=setting):
        check_trusted("local", {"root": "/srv/lab", **option})

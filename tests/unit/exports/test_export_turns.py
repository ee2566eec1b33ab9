"""Turns of exports: of all workers, one writes a file or audits."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from celery.exceptions import Retry
from django.conf import LazySettings

from builders.export_builders import an_export
from builders.portal_builders import a_company, an_actor
from exports import tasks
from exports.turns import only_one
from tenants.roles import Role

pytestmark = pytest.mark.django_db


def test_one_turn_at_a_time() -> None:
    """Planted: a lock that is shared; a lock that is not given back."""
    with only_one() as first:
        assert first
        with only_one() as second:
            assert not second
    with only_one() as third:
        assert third


def test_a_file_waits_for_its_turn(settings: LazySettings, tmp_path: Path) -> None:
    """Planted: the export written without a turn."""
    settings.EXPORTS_DIR = tmp_path
    company = a_company()
    export = an_export(company.organization, an_actor(company.organization, Role.FINANCE).user)
    for is_free, state in ((False, "queued"), (True, "done")):
        with only_one() if not is_free else nullcontext():
            tasks.write_export()
        export.refresh_from_db()
        assert export.state == state


def test_an_audit_comes_back_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the audit of the day left out; the audit without a turn."""
    audited: list[object] = []
    monkeypatch.setattr(tasks, "audit_lately", audited.append)
    with only_one(), pytest.raises(Retry) as raised:
        tasks.audit_charges.apply(throw=True)
    assert (raised.value.when, audited) == (60, [])
    tasks.audit_charges.apply(throw=True)
    assert len(audited) == 1

"""Requested exports: who may, how they are written, bounds, failures, and the download."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from errno import ENOSPC
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import LazySettings
from django.db import IntegrityError, connection, transaction

from audit.models import AuditEvent
from billing.periods import Period
from builders.api_callers import Caller, by_token
from builders.billing_builders import LATER, a_metered_attempt, a_rate_card, at
from builders.chargeback_builders import report_of
from builders.export_builders import an_export
from builders.portal_builders import Company, a_company, an_actor
from exports import requests, running
from exports.files import file_of, part_of
from exports.models import Export
from exports.requests import finished_file, make_again, request_export
from exports.running import drop_old, run_next
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound
from quotas.models import Quota
from tenants.access import Actor, actor_of
from tenants.models import Node, RoleGrant
from tenants.moving import move_node
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600


@pytest.fixture(autouse=True)
def folder(settings: LazySettings, tmp_path: Path) -> Path:
    """Keep the files of each test apart."""
    settings.EXPORTS_DIR = tmp_path / "exports"
    return tmp_path / "exports"


@pytest.fixture
def company() -> Company:
    """nlp used 8 GPUs and vision 4 for an hour of 1 November, at 2 EUR per GPU-hour."""
    company = a_company()
    a_rate_card(company.organization)
    a_metered_attempt(company.nlp, 0, HOUR)
    a_metered_attempt(company.vision, 0, HOUR, mgpu=4_000, job_name="=1+1")
    return company


def finance_of(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fin")


def requested(actor: Actor, format_name: str = "csv", **changes: Any) -> Export:
    given: dict[str, Any] = {
        "dataset": "charges",
        "format_name": format_name,
        "node_path": "ai-company",
        "start": at(0),
        "end": at(86_400),
        "as_of": None,
        "pool_name": None,
        "now": LATER,
    }
    return request_export(actor=actor, **{**given, **changes})


def clock_at(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


def written(export: Export, now: datetime = LATER) -> Export:
    assert run_next(clock_at(now))
    export.refresh_from_db()
    return export


@pytest.mark.parametrize("format_name", ["csv", "xlsx", "parquet"])
def test_a_file_has_its_manifest(company: Company, format_name: str) -> None:
    """The hash and the size are the file's, and the sums those of the report."""
    finance = finance_of(company)
    export = written(requested(finance, format_name))
    assert (export.state, export.progress_permille, export.message) == ("done", 1_000, "")
    content = file_of(export.pk).read_bytes()
    report = report_of(finance, Period(at(0), at(86_400), LATER))
    cost_nano = report.totals.cost_nano
    assert export.manifest == {
        "manifest_version": 1,
        "export": str(export.pk),
        "dataset": "charges",
        "format": format_name,
        "file": f"charges-ai-company-20261101-20261102.{format_name}",
        "size_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "rows": 2,
        "sums": [
            {
                "currency": "EUR",
                "device": "gpu",
                "rows": 2,
                "mgpu_s": report.totals.mgpu_s,
                "list_cost_nano": cost_nano,
                "contracted_cost_nano": cost_nano,
                "billed_cost_nano": cost_nano,
                "effective_cost_nano": cost_nano,
            }
        ],
        "columns": export.manifest["columns"],
        "node": "ai-company",
        "pool": None,
        "period": {
            "start": "2026-11-01T00:00:00Z",
            "end": "2026-11-02T00:00:00Z",
            "as_of": "2026-11-21T00:00:00Z",
        },
        "users": "names",
        "correction_style": "accounting",
        "created_at": "2026-11-21T00:00:00Z",
    }
    assert cost_nano == 24_000_000_000
    assert not part_of(export.pk).exists()


def test_a_request_is_audited(company: Company) -> None:
    export = requested(finance_of(company), "parquet")
    event = AuditEvent.objects.get(action="export.requested")
    assert (event.subject_id, event.actor, event.node_path) == (
        str(export.pk),
        "fin@ai-company",
        "ai-company/",
    )
    assert event.detail["format"] == "parquet"


def test_a_file_holds_the_requested_node_and_pool_only(company: Company) -> None:
    """Against: the whole organization for everybody who asks."""
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    export = written(requested(lead, node_path="ai-company/research/nlp", pool_name="h100"))
    rows = list(csv.DictReader(StringIO(file_of(export.pk).read_text())))
    assert [(row["team"], row["gpu_hours"]) for row in rows] == [
        ("ai-company/research/nlp", "8.000000")
    ]


def test_who_may_not_see_costs_gets_no_export(company: Company) -> None:
    with pytest.raises(Forbidden):
        requested(an_actor(company.nlp, Role.RESEARCHER), node_path="ai-company/research/nlp")
    with pytest.raises(NotFound):
        requested(an_actor(a_company("elsewhere").organization, Role.FINANCE))
    finance = finance_of(company)
    with pytest.raises(NotFound, match="There is no pool 'b200'"):
        requested(finance, pool_name="b200")
    with pytest.raises(InvalidRequest, match="start must be before end"):
        requested(finance, end=at(0))
    assert not Export.objects.exists()


def test_the_rights_of_the_moment_of_writing_count(company: Company) -> None:
    """Against: the rights at the request."""
    finance = finance_of(company)
    export = requested(finance)
    RoleGrant.objects.filter(user=finance.user).delete()
    written(export)
    assert export.state == "failed"
    assert export.message.startswith("You need the right view_costs")
    assert not file_of(export.pk).exists()


def test_unfinished_exports_have_a_bound(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "UNFINISHED_MAX", 1)
    finance = finance_of(company)
    export = requested(finance)
    with pytest.raises(Conflict, match="1 exports of ai-company are not finished"):
        requested(finance)
    written(export)
    requested(finance)


def test_a_full_disk_is_a_sentence(company: Company, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: the error ends the task, and the export is begun again and again."""

    def full(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(running, "writer_of", full)
    export = written(requested(finance_of(company)))
    assert (export.state, export.ended_at) == ("failed", LATER)
    assert export.message == (
        "The file could not be written. Ask the operator about the folder of exports."
    )


def test_a_worker_that_died_is_replaced_three_times(company: Company) -> None:
    """Against: a running export taken at once, which two workers then write."""
    export = requested(finance_of(company))
    for number in range(1, 4):
        now = LATER + timedelta(minutes=3 * number)
        assert running._claim(now) is not None
        assert running._claim(now + timedelta(minutes=2)) is None
    assert not run_next(clock_at(LATER + timedelta(minutes=15)))
    export.refresh_from_db()
    assert (export.state, export.tries) == ("failed", 3)
    assert export.message == "The worker stopped several times. Ask the operator."


@pytest.mark.django_db(transaction=True)
def test_progress_is_seen_while_the_file_is_written(
    company: Company, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream reads one snapshot: what is metered meanwhile is in no file.

    Against: progress stored by the stream's own connection, which may only read; a snapshot for
    each statement (3 rows)."""
    export = requested(finance_of(company), end=at(2 * 86_400))
    report, seen = running._report, []

    def told(export_id: UUID, progress_permille: int, now: datetime) -> None:
        report(export_id, progress_permille, now)
        with ThreadPoolExecutor(1) as thread:
            seen.append(thread.submit(progress_elsewhere, company, export_id).result())

    monkeypatch.setattr(running, "_report", told)
    assert written(export).manifest["rows"] == 2
    assert seen == [("running", 0), ("running", 500), ("running", 1_000)]
    assert export.progress_permille == 1_000


def progress_elsewhere(company: Company, export_id: UUID) -> tuple[str, int]:
    """The state by another connection, which also meters an attempt on the second day."""
    try:
        a_metered_attempt(company.nlp, 86_400, 86_400 + HOUR)
        export = Export.objects.get(pk=export_id)
        return export.state, export.progress_permille
    finally:
        connection.close()


def test_nothing_to_write() -> None:
    assert not run_next(clock_at(LATER))


def test_old_files_are_deleted(company: Company, settings: LazySettings) -> None:
    """Two files of 1 MiB are above the bound of one MiB: the older one goes. Later both are old.

    Planted: no bound of one organization."""
    finance = finance_of(company)
    first, second = written(requested(finance)), written(requested(finance))
    settings.EXPORTS_KEPT_MIB_EACH = 1
    assert drop_old(LATER) == 0
    Export.objects.update(size_bytes=1 << 20)
    assert drop_old(LATER) == 1
    assert [file_of(one.pk).exists() for one in (first, second)] == [False, True]
    assert drop_old(LATER + timedelta(days=30)) == 0
    late = LATER + timedelta(days=30, seconds=1)
    assert drop_old(late) == 1
    assert list(Export.objects.order_by("pk").values_list("removed_at", flat=True)) == [LATER, late]
    assert drop_old(late + timedelta(days=400)) == 0
    assert Export.objects.get().removed_at == late


def test_a_removed_file_is_made_again(company: Company) -> None:
    """The new export is of the same moment, so the file is the same. A file that is there stays.

    Planted: the moment of now; a second file beside one that is there."""
    finance = finance_of(company)
    first = written(requested(finance, as_of=at(1_800)))
    with pytest.raises(Conflict, match="The file is there or is being written"):
        make_again(first.pk, actor=finance, now=LATER)
    drop_old(LATER + timedelta(days=31))
    first.refresh_from_db()
    with pytest.raises(NotFound, match="The file was removed"):
        finished_file(first)
    answer = by_token(finance.user).post(f"exports/{first.pk}/again", None)
    assert answer.status_code == 201
    again = written(Export.objects.get(pk=answer.json()["id"]), LATER + timedelta(days=31))
    assert (again.as_of, again.sha256) == (at(1_800), first.sha256)
    with pytest.raises(IntegrityError, match="only_a_file_is_removed"), transaction.atomic():
        Export.objects.filter(pk=requested(finance).pk).update(removed_at=LATER)


def test_large_files_of_an_organization_are_deleted_before_those_of_others(
    company: Company, settings: LazySettings
) -> None:
    """Four files of one and an older one of another, 1 MiB each, have room for three.

    Planted: the oldest of all deleted first."""
    other = a_company("elsewhere").organization
    small = an_export_of_a_mib(other, an_actor(other, Role.FINANCE))
    finance = finance_of(company)
    large = [an_export_of_a_mib(company.organization, finance) for _ in range(4)]
    settings.EXPORTS_KEPT_MIB = 3
    assert drop_old(LATER) == 2
    kept = set(Export.objects.filter(removed_at=None).values_list("pk", flat=True))
    assert kept == {small.pk, large[2].pk, large[3].pk}


def an_export_of_a_mib(organization: Node, actor: Actor) -> Export:
    """A finished one, without its file."""
    return an_export(
        organization,
        actor.user,
        state="done",
        progress_permille=1_000,
        ended_at=LATER,
        size_bytes=1 << 20,
        sha256="0" * 64,
        manifest={},
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("export_state_is_known", {"state": "lost"}),
        ("export_format_is_known", {"format": "docx"}),
        ("export_period_has_a_length", {"end": at(0)}),
        ("export_progress_is_a_share", {"progress_permille": 1_001}),
        ("export_has_a_file_when_done", {"state": "done"}),
        ("export_has_a_file_when_done", {"sha256": "0" * 64}),
        ("export_says_why_it_failed", {"state": "failed"}),
        ("export_says_why_it_failed", {"message": "why"}),
    ],
)
def test_the_database_refuses(company: Company, name: str, values: dict[str, Any]) -> None:
    export = requested(finance_of(company))
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        Export.objects.filter(pk=export.pk).update(**values)


# Over REST.

BODY = {
    "format": "csv",
    "node": "ai-company",
    "start": "2026-11-01T00:00:00Z",
    "end": "2026-11-02T00:00:00Z",
}


def caller_of(actor: Actor) -> Caller:
    return by_token(actor.user)


def test_from_the_request_to_the_download(company: Company) -> None:
    """A repeat with the same key is the same export. The ETag saves the second download."""
    finance = caller_of(finance_of(company))
    answer = finance.post("exports", BODY, Idempotency_Key="one")
    assert answer.status_code == 201
    shown = answer.json()
    assert (shown["state"], shown["progress_permille"], shown["manifest"]) == ("queued", 0, None)
    assert (shown["node"], shown["pool"], shown["requested_by"]) == (
        "ai-company",
        None,
        "fin@ai-company",
    )
    assert finance.post("exports", BODY, Idempotency_Key="one").json() == shown
    early = finance.get(f"exports/{shown['id']}/file")
    assert early.status_code == 409
    assert early.json()["detail"] == "The export is queued. A file is there once it is done."
    assert run_next(lambda: datetime.now(UTC))
    listed = finance.get("exports").json()["items"]
    assert [one["state"] for one in listed] == ["done"]
    assert listed[0] == finance.get(f"exports/{shown['id']}").json()
    manifest = listed[0]["manifest"]
    answer = finance.get(f"exports/{shown['id']}/file")
    content = b"".join(answer.streaming_content)
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Length"] == str(len(content)) == str(manifest["size_bytes"])
    assert answer["Content-Disposition"] == f'attachment; filename="{manifest["file"]}"'
    assert hashlib.sha256(content).hexdigest() == manifest["sha256"]
    assert answer["ETag"] == f'"{manifest["sha256"]}"'
    again = finance.get(f"exports/{shown['id']}/file", If_None_Match=answer["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    file_of(UUID(shown["id"])).unlink()
    assert finance.get(f"exports/{shown['id']}/file").status_code == 404


def test_a_stranger_gets_no_file(company: Company) -> None:
    """A lead of one team gets no file of the organization either.

    Against: any export by its id."""
    export = written(requested(finance_of(company)))
    for actor in (
        an_actor(a_company("elsewhere").organization, Role.FINANCE),
        an_actor(company.nlp, Role.TEAM_LEAD),
    ):
        caller = caller_of(actor)
        assert caller.get(f"exports/{export.pk}").status_code == 404
        assert caller.get(f"exports/{export.pk}/file").status_code == 404
        assert caller.get("exports").json()["items"] == []


def test_a_file_of_a_former_path_is_for_who_may_request_it(company: Company) -> None:
    """The lead of a moved team gets it, and who leads its new department does not.

    Planted: present rights alone in the list."""
    lead = an_actor(company.nlp, Role.TEAM_LEAD)
    newcomer = an_actor(company.production, Role.DEPARTMENT_ADMIN)
    admin = an_actor(company.organization, Role.ORGANIZATION_ADMIN)
    Quota.objects.all().delete()
    move_node(actor=admin, node=company.nlp, parent=company.production, now=LATER)
    lead = actor_of(lead.user)
    export = requested(lead, node_path="ai-company/research/nlp")
    assert export.node_path == "ai-company/research/nlp/"
    assert written(export).state == "done"
    caller = caller_of(lead)
    assert [one["id"] for one in caller.get("exports").json()["items"]] == [str(export.pk)]
    assert caller.get(f"exports/{export.pk}").status_code == 200
    answer = caller.get(f"exports/{export.pk}/file")
    assert b"".join(answer.streaming_content) == file_of(export.pk).read_bytes()
    with pytest.raises(Forbidden):
        requested(newcomer, node_path="ai-company/research/nlp")
    assert caller_of(newcomer).get(f"exports/{export.pk}").status_code == 404
    assert caller_of(newcomer).get("exports").json()["items"] == []

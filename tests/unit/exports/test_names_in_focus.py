"""Users in FOCUS files: pseudonyms, or login names where the organization chose them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.conf import LazySettings
from django.db import IntegrityError, transaction

from adjustments.adjusting import ask_for_adjustment
from audit.models import AuditEvent
from builders.adjustment_builders import a_finance_person, asked
from builders.api_callers import by_token
from builders.billing_builders import DAY, LATER, a_metered_attempt, a_rate_card
from builders.export_builders import an_export, cells_of, exported
from builders.period_builders import DECEMBER, DUE, close
from builders.portal_builders import NOW, Company, a_company, a_user, an_actor
from exports.files import file_of
from exports.models import Export, ExportPolicy
from exports.policies import change_policy, visible_policy
from exports.requests import make_again, request_export
from exports.running import run_next
from primitives.errors import Forbidden, PreconditionFailed
from tenants.access import Actor
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db

HOUR = 3_600


@pytest.fixture
def company(settings: LazySettings, tmp_path: Path) -> Company:
    """Use of two persons, xylophone and bell."""
    settings.EXPORTS_DIR = tmp_path / "exports"
    company = a_company()
    a_rate_card(company.organization, {"guaranteed": 2_000_000_000})
    for login in ("xylophone", "bell"):
        user = a_user(company.organization, login)
        a_metered_attempt(company.nlp, 0, HOUR, user=user, mgpu=1_000)
    return company


@pytest.fixture
def fay(company: Company) -> Actor:
    return a_finance_person(company, "fay")


def choose(company: Company, actor: Actor, users: str, version: int = 1) -> ExportPolicy:
    return change_policy(company.organization.pk, users, actor=actor, if_version=version, now=NOW)


def focus(actor: Actor, now: datetime = LATER, **changes: object) -> Export:
    given = {"dataset": "focus_cost_and_usage", "start": DAY, "end": DECEMBER, **changes}
    return exported(actor, now, **given)


def users_of(export: Export) -> list[str]:
    """The users of a CSV file, with repetitions, sorted."""
    return sorted(row["x_PrincipalId"] for row in cells_of(export))


def naming_of(export: Export) -> str | None:
    """Return the organization's choice, as the manifest of the file states it."""
    assert export.manifest is not None
    users: str | None = export.manifest["users"]
    return users


def test_login_names_are_a_choice_of_the_organization(company: Company, fay: Actor) -> None:
    """Files made before stay as they are, and a user's pseudonym is the same again afterwards.

    Planted: names for everybody; the id of the user.
    """
    first = focus(fay)
    before = file_of(first.pk).read_bytes()
    pseudonyms = users_of(first)
    assert [len(one) for one in pseudonyms] == [32, 32]
    assert naming_of(first) == "pseudonyms"
    choose(company, fay, "names")
    named = focus(fay)
    assert users_of(named) == ["bell", "xylophone"]
    assert naming_of(named) == "names"
    first.refresh_from_db()
    assert (file_of(first.pk).read_bytes(), naming_of(first)) == (before, "pseudonyms")
    choose(company, fay, "pseudonyms", version=2)
    assert users_of(focus(fay)) == pseudonyms


def test_a_parquet_file_has_the_names_too(company: Company, fay: Actor) -> None:
    choose(company, fay, "names")
    table = pq.read_table(file_of(focus(fay, format_name="parquet").pk))
    assert sorted(table["x_PrincipalId"].to_pylist()) == ["bell", "xylophone"]


def test_the_choice_at_the_request_counts(company: Company, fay: Actor) -> None:
    """Planted: the choice while the file is written."""
    given = {"format_name": "csv", "node_path": "ai-company", "as_of": None, "pool_name": None}
    period = {"dataset": "focus_cost_and_usage", "start": DAY, "end": DECEMBER}
    export = request_export(actor=fay, now=LATER, **given, **period)  # type: ignore[arg-type]
    choose(company, fay, "names")
    assert run_next(lambda: LATER)
    export.refresh_from_db()
    assert naming_of(export) == "pseudonyms"
    assert [len(one) for one in users_of(export)] == [32, 32]


def test_a_file_that_is_made_again_follows_the_choice_of_now(company: Company, fay: Actor) -> None:
    """An organization that went back to pseudonyms gives away no more names.

    Against: the names of the removed file."""
    choose(company, fay, "names")
    named = focus(fay)
    choose(company, fay, "pseudonyms", version=2)
    file_of(named.pk).unlink()
    again = make_again(named.pk, actor=fay, now=LATER)
    assert (named.users, again.users) == ("names", "pseudonyms")


def test_a_closed_month_has_the_names_of_its_frozen_charges(company: Company, fay: Actor) -> None:
    """The file that was made before the choice stays, and a charge of nobody has no name.

    Planted: names in closed months whatever was chosen; names for everybody."""
    user = User.objects.get(username="xylophone")
    for person in (user, None):
        given = asked(company, 3, user=person)
        ask_for_adjustment(given, actor=fay, now=NOW)
    close(company, fay, "2026-11", "nobody confirmed them")
    first = focus(fay, DUE)
    before = file_of(first.pk).read_bytes()
    choose(company, fay, "names")
    assert users_of(focus(fay, DUE)) == ["", "bell", "xylophone", "xylophone"]
    assert file_of(first.pk).read_bytes() == before
    assert [len(one) for one in users_of(first)] == [0, 32, 32, 32]


def test_the_choice_is_of_one_organization(company: Company, fay: Actor) -> None:
    """Planted: the choice of any organization."""
    other = a_company("elsewhere")
    a_metered_attempt(other.nlp, 0, HOUR, user=a_user(other.organization, "zoe"), mgpu=1_000)
    choose(company, fay, "names")
    finance = an_actor(other.organization, Role.FINANCE)
    (user,) = users_of(focus(finance, node_path="elsewhere"))
    assert len(user) == 32


@pytest.mark.parametrize(
    ("dataset", "format_name", "users"),
    [
        ("charges", "csv", "names"),
        ("charges", "pdf", None),
        ("closed_charges", "xlsx", "names"),
        ("focus_billing_period", "csv", None),
        ("focus_contract_commitment", "csv", None),
        ("focus_invoice_detail", "csv", None),
    ],
)
def test_other_files_have_login_names_or_no_users(
    company: Company, fay: Actor, dataset: str, format_name: str, users: str | None
) -> None:
    """The choice is for Cost and Usage, and the manifest of each file says it."""
    close(company, fay, "2026-11", "nobody confirmed them")
    assert naming_of(focus(fay, DUE, dataset=dataset, format_name=format_name)) == users


def test_a_change_is_audited_and_needs_the_right_and_the_present_version(
    company: Company, fay: Actor
) -> None:
    """Planted: a change by any member; a change of a version that is over."""
    lead = an_actor(company.nlp, Role.TEAM_LEAD, "lea")
    with pytest.raises(Forbidden) as refused:
        choose(company, lead, "names")
    assert refused.value.detail == (
        "Only finance and administrators of ai-company choose the names of users in files."
    )
    choose(company, fay, "names")
    with pytest.raises(PreconditionFailed):
        choose(company, fay, "pseudonyms")
    policy = visible_policy(lead, company.organization.pk)
    assert (policy.users, policy.changed_by, policy.changed_at) == ("names", fay.user, NOW)
    event = AuditEvent.objects.get(action="export_policy.changed")
    assert (event.actor, event.at, event.node_path, event.detail) == (
        "fay@ai-company",
        NOW,
        "ai-company/",
        {"before": "pseudonyms", "users": "names"},
    )
    focus(fay)
    requested = AuditEvent.objects.get(action="export.requested")
    assert requested.detail["users"] == "names"


def test_the_choice_is_read_and_changed_over_rest(company: Company, fay: Actor) -> None:
    path = f"organizations/{company.organization.pk}/export-policy"
    shown = by_token(fay.user).get(path)
    assert shown.json() == {
        "organization": "ai-company",
        "users": "pseudonyms",
        "changed_by": None,
        "changed_at": None,
        "version": 1,
    }
    etag = shown.headers["ETag"]
    body = {"users": "names"}
    assert by_token(fay.user).patch(path, body).status_code == 428
    wrong = by_token(fay.user).patch(path, {"users": "initials"}, If_Match=etag)
    assert wrong.status_code == 400
    changed = by_token(fay.user).patch(path, body, If_Match=etag)
    assert changed.status_code == 200, changed.content
    found = changed.json()
    assert (found["users"], found["changed_by"], found["version"], changed.headers["ETag"]) == (
        *("names", "fay@ai-company", 2),
        '"v2"',
    )
    assert by_token(fay.user).patch(path, body, If_Match=etag).status_code == 412


@pytest.mark.parametrize(
    ("values", "constraint"),
    [
        ({"users": "initials"}, "user_naming_is_known"),
        ({"users": "names"}, "user_naming_remembers_its_last_change"),
        ({"changed_at": NOW}, "user_naming_remembers_its_last_change"),
    ],
)
def test_the_database_keeps_who_chose(
    company: Company, values: dict[str, object], constraint: str
) -> None:
    given = {"changed_at": NOW, "changed_by": a_user(company.organization, "eve"), **values}
    if constraint != "user_naming_is_known":
        given = values
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        ExportPolicy.objects.create(organization=company.organization, **given)


@pytest.mark.parametrize(
    ("dataset", "users"), [("focus_cost_and_usage", ""), ("charges", "initials")]
)
def test_a_file_says_how_it_names_users(company: Company, dataset: str, users: str) -> None:
    user = a_user(company.organization, "eve")
    with pytest.raises(IntegrityError, match="says_how_it_names_users"), transaction.atomic():
        an_export(company.organization, user, dataset=dataset, users=users)

"""Cost centres and project codes: inherited down the tree, by month, and kept by closed months."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.billing_builders import DAY, a_metered_attempt, a_rate_card
from builders.period_builders import DECEMBER, DUE, an_empty_closed_month, close
from builders.portal_builders import Company, a_company, a_department, an_actor
from periods.code_book import Codes, code_book, coded_places
from periods.code_models import AccountingCode, CodeKind
from periods.codes import NewCode, codes_of, end_code, remove_code, set_codes
from primitives.errors import Conflict, Forbidden, InvalidRequest, NotFound
from quotas.models import OrganizationPolicy, Quota
from tenants.access import Actor
from tenants.moving import move_node
from tenants.places import places_of
from tenants.roles import Role

pytestmark = pytest.mark.django_db

OCTOBER_1, NOVEMBER_1, DECEMBER_1, JANUARY_1 = (
    date(2026, 10, 1),
    date(2026, 11, 1),
    date(2026, 12, 1),
    date(2027, 1, 1),
)
RESEARCH, NLP = "ai-company/research", "ai-company/research/nlp"


@pytest.fixture
def company() -> Company:
    company = a_company()
    a_rate_card(company.organization)
    return company


@pytest.fixture
def fiona(company: Company) -> Actor:
    return an_actor(company.organization, Role.FINANCE, "fiona")


def put(
    company: Company,
    actor: Actor,
    node: str,
    code: str,
    start: date,
    end: date | None = None,
    kind: CodeKind = CodeKind.COST_CENTRE,
) -> AccountingCode:
    """Set a code, as finance does."""
    wanted = [NewCode(node, kind, code, start, end)]
    (row,) = set_codes(company.organization.pk, wanted, actor=actor, now=DUE)
    return row


def history(company: Company) -> list[tuple[str, date, date | None]]:
    """Return the codes of the company in the order of their months."""
    rows = codes_of(company.organization).order_by("start", "node__path")
    return [(row.code, row.start, row.end) for row in rows]


def codes(company: Company, path: str, month: date) -> Codes:
    return code_book([company.organization.pk], month, month).codes(path, month)


def test_codes_are_those_of_the_nearest_node_upwards(company: Company, fiona: Actor) -> None:
    """Each kind by itself. Against: a team's project code that hides its inherited cost centre."""
    put(company, fiona, "ai-company", "1000", NOVEMBER_1)
    put(company, fiona, RESEARCH, "4711", DECEMBER_1)
    put(company, fiona, NLP, "P-12", NOVEMBER_1, JANUARY_1, CodeKind.PROJECT_CODE)
    assert codes(company, NLP, OCTOBER_1) == Codes("", "")
    assert codes(company, NLP, NOVEMBER_1) == Codes("1000", "P-12")
    assert codes(company, NLP, date(2026, 12, 31)) == Codes("4711", "P-12")
    assert codes(company, NLP, JANUARY_1) == Codes("4711", "")
    assert codes(company, "ai-company/production/inference", JANUARY_1) == Codes("1000", "")
    assert codes(company, "other/research/nlp", JANUARY_1) == Codes("", "")


def test_a_code_ends_the_one_before_it(company: Company, fiona: Actor) -> None:
    """A scheduled code ends the new one. One of the same first month is replaced.

    Against: a repeat that cuts the code that it repeats."""
    put(company, fiona, NLP, "1", OCTOBER_1)
    put(company, fiona, NLP, "3", JANUARY_1)
    put(company, fiona, NLP, "2", NOVEMBER_1)
    put(company, fiona, NLP, "2", NOVEMBER_1)
    put(company, fiona, NLP, "2", DECEMBER_1)
    put(company, fiona, NLP, "4", JANUARY_1)
    assert history(company) == [
        ("1", OCTOBER_1, NOVEMBER_1),
        ("2", NOVEMBER_1, JANUARY_1),
        ("4", JANUARY_1, None),
    ]
    with pytest.raises(Conflict, match=r"has another code from 2027-01 on\. End yours there"):
        put(company, fiona, NLP, "5", DECEMBER_1, date(2027, 2, 1))
    acts = AuditEvent.objects.filter(subject_kind="accounting_code").order_by("pk")
    assert [(act.action.partition(".")[2], act.detail["code"]) for act in acts] == [
        *(("set", "1"), ("ended", "1"), ("set", "3"), ("ended", "1"), ("set", "2")),
        *(("removed", "3"), ("set", "4")),
    ]


def test_closed_months_keep_their_codes(company: Company, fiona: Actor) -> None:
    """A code from the next month on, and its end there, are fine.

    Against: the first open month taken for closed, and an end that was not compared."""
    row = put(company, fiona, NLP, "1", OCTOBER_1)
    later = put(company, fiona, RESEARCH, "9", DECEMBER_1)
    an_empty_closed_month(company.organization, NOVEMBER_1)
    words = r"months before 2026-12 are closed\. Give 2026-12 or a later month"
    with pytest.raises(Conflict, match=words):
        put(company, fiona, NLP, "2", NOVEMBER_1)
    with pytest.raises(Conflict, match=words):
        end_code(row.pk, NOVEMBER_1, actor=fiona, now=DUE)
    with pytest.raises(Conflict, match=r"1 from 2026-10 to further notice\. Closed months have it"):
        remove_code(row.pk, actor=fiona, now=DUE)
    assert end_code(row.pk, DECEMBER_1, actor=fiona, now=DUE).end == DECEMBER_1
    with pytest.raises(Conflict, match="End it after its start and not after its end"):
        end_code(row.pk, JANUARY_1, actor=fiona, now=DUE)
    remove_code(later.pk, actor=fiona, now=DUE)
    put(company, fiona, NLP, "2", DECEMBER_1)
    assert history(company) == [("1", OCTOBER_1, DECEMBER_1), ("2", DECEMBER_1, None)]


def test_the_database_keeps_codes(company: Company, fiona: Actor) -> None:
    """It refuses overlaps, parts of months, other changes than of ends, and those of closed months.

    Against: the trigger left out; an update that is not compared with the closed months."""
    row = put(company, fiona, NLP, "1", OCTOBER_1)
    values = {"node": company.nlp, "kind": "cost_centre", "set_at": DUE, "set_by": "fiona"}
    for odd, error in (
        ({"code": "2", "start": JANUARY_1}, IntegrityError),
        ({"code": "2", "start": date(2026, 9, 2), "end": OCTOBER_1}, IntegrityError),
        ({"code": "2", "start": OCTOBER_1, "end": OCTOBER_1}, DatabaseError),
        ({"code": " 2", "start": OCTOBER_1, "kind": "project_code"}, IntegrityError),
        ({"code": "2", "start": OCTOBER_1, "kind": "colour"}, IntegrityError),
    ):
        with pytest.raises(error), transaction.atomic():
            AccountingCode.objects.create(**{**values, **odd})
    stored = AccountingCode.objects.filter(pk=row.pk)
    with pytest.raises(IntegrityError, match="only the end"), transaction.atomic():
        stored.update(code="2")
    an_empty_closed_month(company.organization, NOVEMBER_1)
    for act in (
        lambda: stored.update(end=NOVEMBER_1),
        lambda: stored.delete(),
        lambda: AccountingCode.objects.create(
            **{**values, "kind": "project_code"}, code="2", start=NOVEMBER_1
        ),
    ):
        with pytest.raises(IntegrityError, match="closed months keep"), transaction.atomic():
            act()
    stored.update(end=DECEMBER_1)
    with pytest.raises(IntegrityError, match="closed months keep"), transaction.atomic():
        AccountingCode.objects.filter(pk=row.pk).update(end=NOVEMBER_1)


def test_use_before_a_move_has_the_codes_of_the_former_place(
    company: Company, fiona: Actor
) -> None:
    """Against: paths of the present only."""
    put(company, fiona, RESEARCH, "4711", NOVEMBER_1)
    put(company, fiona, NLP, "P-12", NOVEMBER_1, kind=CodeKind.PROJECT_CODE)
    lab = a_department(company.organization, "lab")
    alice = an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice")
    Quota.objects.all().delete()
    move_node(actor=alice, node=company.nlp, parent=lab, now=DECEMBER)
    put(company, fiona, "ai-company/lab", "8000", DECEMBER_1)
    assert codes(company, NLP, NOVEMBER_1) == Codes("4711", "P-12")
    assert codes(company, "ai-company/lab/nlp", DECEMBER_1) == Codes("8000", "P-12")
    parts = coded_places(
        places_of([company.nlp.pk]), [CodeKind.COST_CENTRE], DAY, DECEMBER + timedelta(days=31)
    )
    assert [(part.place.node.path, part.place.start, *part.codes) for part in parts] == [
        ("ai-company/lab/nlp/", DECEMBER, "8000"),
        ("ai-company/research/nlp/", DAY, "4711"),
    ]


def test_places_are_cut_where_their_code_changes(company: Company, fiona: Actor) -> None:
    """Months are those of the organization's zone, and equal codes are one part.

    Against: a part for each month; months of UTC."""
    policy = OrganizationPolicy.objects.filter(organization=company.organization)
    policy.update(time_zone="Asia/Tokyo")
    put(company, fiona, NLP, "1", OCTOBER_1, DECEMBER_1)
    put(company, fiona, NLP, "2", DECEMBER_1, JANUARY_1)
    start, end = datetime(2026, 9, 15, tzinfo=UTC), datetime(2027, 1, 15, tzinfo=UTC)
    parts = coded_places(
        places_of([company.nlp.pk, company.vision.pk]), [CodeKind.COST_CENTRE], start, end
    )
    nine_hours = timedelta(hours=9)
    october, december, january = (
        datetime(day.year, day.month, 1, tzinfo=UTC) - nine_hours
        for day in (OCTOBER_1, DECEMBER_1, JANUARY_1)
    )
    assert [
        (part.place.node.slug, part.place.start, part.place.end, *part.codes) for part in parts
    ] == [
        ("nlp", start, october, ""),
        ("nlp", october, december, "1"),
        ("nlp", december, january, "2"),
        ("nlp", january, end, ""),
        ("vision", start, end, ""),
    ]
    assert coded_places([], [CodeKind.COST_CENTRE], start, end) == []


def test_charges_of_closed_months_have_their_codes(company: Company, fiona: Actor) -> None:
    """A correction has the codes of the month of the use, and codes are part of the digest.

    Against: codes of the month that books a correction."""
    put(company, fiona, RESEARCH, "4711", NOVEMBER_1, DECEMBER_1)
    put(company, fiona, NLP, "P-12", DECEMBER_1, kind=CodeKind.PROJECT_CODE)
    a_metered_attempt(company.nlp)
    november = close(company, fiona, "2026-11", "known")
    a_metered_attempt(company.nlp, 3_600, 7_200)
    december = close(company, fiona, "2026-12", "known", DUE + timedelta(days=31))
    rows = [*november.rows.all(), *december.rows.all()]
    assert [(r.month, r.is_correction, r.cost_centre, r.project_code) for r in rows] == [
        (NOVEMBER_1, False, "4711", ""),
        (NOVEMBER_1, True, "4711", ""),
    ]


def test_only_finance_sets_codes(company: Company, fiona: Actor) -> None:
    """Auditors read, and others see nothing."""
    row = put(company, fiona, NLP, "1", OCTOBER_1)
    auditor = an_actor(company.organization, Role.AUDITOR, "axel")
    bob = an_actor(company.nlp, Role.RESEARCHER, "bob")
    for actor, error in ((auditor, Forbidden), (bob, NotFound)):
        with pytest.raises(error):
            put(company, actor, NLP, "2", DECEMBER_1)
        with pytest.raises(error):
            end_code(row.pk, DECEMBER_1, actor=actor, now=DUE)
        with pytest.raises(error):
            remove_code(row.pk, actor=actor, now=DUE)


def test_odd_codes_are_refused_all_together(company: Company, fiona: Actor) -> None:
    """Against: the codes before an odd one stored."""
    for wanted, words in (
        (NewCode("ai-company/lab", CodeKind.COST_CENTRE, "1", OCTOBER_1), "no node ai-company/lab"),
        (NewCode(NLP, CodeKind.COST_CENTRE, "=1", OCTOBER_1), "codes/1/code must be at most 64"),
        (NewCode(NLP, CodeKind.COST_CENTRE, "1", OCTOBER_1, OCTOBER_1), "end must be after start"),
    ):
        good = NewCode(RESEARCH, CodeKind.COST_CENTRE, "1", OCTOBER_1)
        with pytest.raises(InvalidRequest, match=words):
            set_codes(company.organization.pk, [good, wanted], actor=fiona, now=DUE)
    assert history(company) == []


def test_codes_by_rest(company: Company, fiona: Actor) -> None:
    """Set, listed by node, ended and removed."""
    client = by_token(fiona.user)
    path = f"organizations/{company.organization.pk}/accounting-codes"
    body = {"node": NLP, "kind": "cost_centre", "code": "4711", "start": "2026-11"}
    answer = client.post(path, {"codes": [body, {**body, "node": RESEARCH, "end": "2027-01"}]})
    assert answer.status_code == 200, answer.content
    first, second = answer.json()["items"]
    assert (first["node"], first["start"], first["end"], first["set_by"]) == (
        *(NLP, "2026-11", None),
        fiona.user.login,
    )
    assert second["end"] == "2027-01"
    listed = client.get(f"{path}?node={NLP}").json()
    assert [row["id"] for row in listed["items"]] == [first["id"]]
    ended = client.patch(f"accounting-codes/{first['id']}", {"end": "2026-12"})
    assert ended.json()["end"] == "2026-12"
    assert client.delete(f"accounting-codes/{second['id']}").status_code == 204
    assert len(client.get(path).json()["items"]) == 1
    for odd in ({**body, "start": "2026-13"}, {**body, "kind": "colour"}, {**body, "colour": 1}):
        assert client.post(path, {"codes": [odd]}).status_code == 400

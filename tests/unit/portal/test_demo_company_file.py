"""The example's file is read strictly."""

import pytest

from portal.demo.company_file import (
    Company,
    CompanyFileError,
    Guarantee,
    NodePart,
    PersonPart,
    PoolPart,
    read_company,
)
from portal.management.commands.load_demo import COMPANY
from tenants.roles import Role

SMALL = """
organization: Small & Co
pools:
  h100: {gpus: 8, gpus_per_node: 4, node_prefix: n-, weight: 1000}
policy: {rank: [lab], grace_period_s: 60, fair_share_half_life_days: 7}
priority_classes:
  normal: {order: 10, preempts_within_team: false, grace_period_s: 60, use: everything}
rate_card: {currency: EUR, guaranteed: "2.00", borrowed: "0.000000001"}
departments:
  lab:
    guaranteed: 33.33%
    departments:
      inner: {guaranteed: 1, teams: {deep: {guaranteed: 100%}}}
    teams:
      one: {guaranteed: 0}
people:
  ana: {name: Ana, role: researcher, node: lab/inner/deep}
  fin: {name: Fin, role: finance}
"""


def refused(text: str) -> str:
    with pytest.raises(CompanyFileError) as refusal:
        read_company(text)
    return str(refusal.value)


def changed(old: str, new: str) -> str:
    assert SMALL.count(old) == 1
    return SMALL.replace(old, new)


def test_a_company_is_read_whole() -> None:
    company = read_company(SMALL)

    assert (company.name, company.slug) == ("Small & Co", "small-co")
    assert company.pools == (PoolPart("h100", 8, 4, "n-", 1000),)
    assert company.nodes == (
        NodePart("lab", False, Guarantee(basis_points=3333)),
        NodePart("lab/inner", False, Guarantee(mgpu=1_000)),
        NodePart("lab/inner/deep", True, Guarantee(basis_points=10_000)),
        NodePart("lab/one", True, Guarantee(mgpu=0)),
    )
    assert (company.guaranteed_price_nano, company.borrowed_price_nano) == (2_000_000_000, 1)
    assert company.people == (
        PersonPart("ana", "Ana", Role.RESEARCHER, "lab/inner/deep"),
        PersonPart("fin", "Fin", Role.FINANCE, ""),
    )
    assert (company.rank, company.fair_share_half_life_s) == (("lab",), 604_800)


def test_the_example_has_a_thousand_gpus_and_everybody() -> None:
    company: Company = read_company(COMPANY.read_text(encoding="utf-8"))

    assert [(pool.name, pool.gpus) for pool in company.pools] == [("h100", 1_000)]
    assert {person.role for person in company.people} == set(Role) - {
        Role.PLATFORM_ADMIN,
        Role.SERVICE_ACCOUNT,
    }


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("organization: Small & Co", "", "organization is missing"),
        ("organization: Small & Co", "organization: 5", "organization: must be text of 1 to 200"),
        ("gpus: 8", "gpus: 9", "pools.h100: 9 GPUs do not fill nodes of 4"),
        ("gpus: 8", "gpus: 8.0", "pools.h100.gpus: must be a whole number from 1 to 1000000"),
        ("gpus: 8", "gpus: true", "pools.h100.gpus: must be a whole number from 1 to 1000000"),
        ("weight: 1000", "wait: 1000", "pools.h100.weight is missing"),
        ("n-, weight", "n-, speed: 1, weight", "pools.h100.speed is not known here; known are"),
        ("33.33%", "33.333%", "departments.lab.guaranteed: must be whole GPUs or a percentage"),
        ("33.33%", "100.01%", "departments.lab.guaranteed: must be whole GPUs or a percentage"),
        ("33.33%", "-1", "departments.lab.guaranteed: must be whole GPUs or a percentage"),
        ("33.33%", "٤٠%", "departments.lab.guaranteed: must be whole GPUs or a percentage"),
        ("rank: [lab]", "rank: [shop]", "policy.rank: 'shop' is no department or team"),
        ("rank: [lab]", "rank: lab", "policy.rank: must be a list"),
        ("researcher", "boss", "people.ana.role: must be one of organization_admin"),
        ("researcher", "platform_admin", "people.ana.role: must be one of organization_admin"),
        ("lab/inner/deep", "lab/deep", "people.ana.node: 'lab/deep' is no department or team"),
        ('"2.00"', "2.00", 'rate_card.guaranteed: must be a price as text, like "2.00"'),
        ('"2.00"', '"NaN"', 'rate_card.guaranteed: must be a price as text, like "2.00"'),
        ('"0.000000001"', '"0.0000000001"', "rate_card.borrowed: must have at most nine"),
        ("EUR", "eur", "rate_card.currency: must be three capital letters"),
        ("  one:", "  One:", "departments.lab.teams.One: the name must be lower-case"),
        ("  one:", "  inner:", "departments.lab.teams.inner: the name is used twice below lab"),
        ("false", '"no"', "priority_classes.normal.preempts_within_team: must be true or false"),
        ("  fin:", "  ana:", "not YAML: the key 'ana' is repeated or no text"),
        ("  fin:", "  5:", "not YAML: the key 5 is repeated or no text"),
        ("{name: Fin, role: finance}", "finance", "people.fin must be a mapping"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(old: str, new: str, sentence: str) -> None:
    assert sentence in refused(changed(old, new))


@pytest.mark.parametrize(
    "text", ["", "- a", "5", "a: [", "!!python/object/apply:os.getpid []", "? [a]\n: 1\n"]
)
def test_what_is_no_company_at_all_is_refused(text: str) -> None:
    refused(text)

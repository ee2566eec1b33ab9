"""The end of a path names a node where it is the only one that is visible."""

from __future__ import annotations

import pytest

from builders.portal_builders import NOW, a_company, a_department, a_grant, a_team, a_user
from primitives.errors import Forbidden, NotFound
from tenants.access import Actor, actor_of, visible_node
from tenants.models import FormerPlace, Node
from tenants.roles import Permission, Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def bob() -> Actor:
    company = a_company()
    rival = a_company("rival")
    a_team(rival.organization, "lab")
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    a_team(a_department(company.organization, "exploration"), "vision")
    return actor_of(bob)


@pytest.mark.parametrize("name", ["nlp", "nlp/", "research/nlp", "ai-company/research/nlp"])
def test_a_unique_last_part_names_a_team(bob: Actor, name: str) -> None:
    """Against: nodes of other organizations searched too ("nlp" is the name of two)."""
    node = visible_node(bob, name, Permission.SUBMIT_JOBS)
    assert node.path == "ai-company/research/nlp/"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "vision",
            "'vision' is the end of several paths. Give more of it: "
            "ai-company/exploration/vision, ai-company/research/vision.",
        ),
        ("nlpp", "There is no 'nlpp' that you can see. Did you mean ai-company/research/nlp?"),
        (
            "ai-company/reserch/nlp",
            "There is no 'ai-company/reserch/nlp' that you can see. "
            "Did you mean ai-company/research, ai-company/research/nlp, "
            "ai-company/research/vision?",
        ),
        ("lab", "There is no 'lab' that you can see."),
        ("rival", "There is no 'rival' that you can see."),
        ("lp", "There is no 'lp' that you can see. Did you mean ai-company/research/nlp?"),
        ("h/nlp", "There is no 'h/nlp' that you can see."),
        ("", "There is no '' that you can see."),
    ],
)
def test_what_names_none_or_several_is_refused_with_suggestions(
    bob: Actor, name: str, sentence: str
) -> None:
    """Against: the ends of slugs compared ("lp" for "nlp"); names of other organizations told."""
    with pytest.raises(NotFound) as refusal:
        visible_node(bob, name)
    assert refusal.value.detail == sentence


def test_of_several_the_one_with_the_right_is_meant(bob: Actor) -> None:
    """Against: the right left out of account."""
    company_team = visible_node(bob, "research/vision")
    a_grant(bob.user, Role.RESEARCHER, company_team)
    actor = actor_of(bob.user)
    assert (
        visible_node(actor, "vision", Permission.SUBMIT_JOBS).path == "ai-company/research/vision/"
    )
    with pytest.raises(NotFound):
        visible_node(actor, "vision")


def test_a_short_name_gives_no_right(bob: Actor) -> None:
    with pytest.raises(Forbidden):
        visible_node(bob, "inference", Permission.SUBMIT_JOBS)


def test_an_archived_node_comes_second_and_is_not_suggested(bob: Actor) -> None:
    """Planted: archived nodes taken like others ("vision" is the end of two); suggested."""
    Node.objects.filter(path="ai-company/exploration/vision/").update(archived_at=NOW)
    Node.objects.filter(path="ai-company/research/nlp/").update(archived_at=NOW)
    assert visible_node(bob, "vision").path == "ai-company/research/vision/"
    assert visible_node(bob, "exploration/vision").path == "ai-company/exploration/vision/"
    assert visible_node(bob, "nlp").archived_at == NOW
    with pytest.raises(NotFound) as refusal:
        visible_node(bob, "nlpp")
    assert refusal.value.detail == "There is no 'nlpp' that you can see."


def test_a_former_path_names_the_new_one_to_whoever_may_see_it(bob: Actor) -> None:
    """Planted: told to everybody."""
    for organization in ("ai-company", "rival"):
        FormerPlace.objects.create(
            node=Node.objects.get(path=f"{organization}/research/nlp/"),
            path=f"{organization}/production/nlp/",
            start=None,
            end=NOW,
        )
    told = {}
    for path in ("ai-company/production/nlp", "rival/production/nlp/"):
        with pytest.raises(NotFound) as refusal:
            visible_node(bob, path, Permission.SUBMIT_JOBS)
        told[path] = refusal.value.detail
    assert told == {
        "ai-company/production/nlp": "ai-company/production/nlp was moved to "
        "ai-company/research/nlp.",
        "rival/production/nlp/": "There is no 'rival/production/nlp' that you can see.",
    }

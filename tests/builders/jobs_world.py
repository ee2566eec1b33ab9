"""Two organizations with people who look at each other's jobs over REST."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from builders.portal_builders import (
    Company,
    a_company,
    a_grant,
    a_user,
)
from tenants.models import User
from tenants.roles import Role


@dataclass(frozen=True)
class World:
    """Alice administers ai-company, Bob and Dana research in nlp, Charlie administers rival."""

    company: Company
    rival: Company
    alice: User
    bob: User
    dana: User
    charlie: User


def a_world() -> World:
    """Both, with these people in them."""
    company, rival = a_company(), a_company("rival")

    def person(company: Company, name: str, role: Role, *, on_team: bool) -> User:
        user = a_user(company.organization, name)
        a_grant(user, role, company.nlp if on_team else company.organization)
        return user

    return World(
        company,
        rival,
        person(company, "alice", Role.ORGANIZATION_ADMIN, on_team=False),
        person(company, "bob", Role.RESEARCHER, on_team=True),
        person(company, "dana", Role.RESEARCHER, on_team=True),
        person(rival, "charlie", Role.ORGANIZATION_ADMIN, on_team=False),
    )


def names(answer: Any) -> list[str]:
    """Of the jobs of a page, in its order."""
    assert answer.status_code == 200, answer.content
    return [item["name"] for item in answer.json()["items"]]

"""One person of every role in one organization, and strangers: for tests of who may do what."""

from __future__ import annotations

from dataclasses import dataclass

from builders.portal_builders import (
    Company,
    a_department,
    a_grant,
    a_team,
    a_user,
    an_organization,
)
from tenants.models import Node, RoleGrant, User, UserKind
from tenants.roles import Role


@dataclass(frozen=True)
class Cast:
    """Alice administers ai-company, Bob researches in nlp, Charlie administers rival-lab."""

    organization: Node
    research: Node
    nlp: Node
    production: Node
    inference: Node
    rival: Node
    rival_team: Node
    root: User
    alice: User
    research_admin: User
    production_admin: User
    nlp_lead: User
    bob: User
    finance: User
    auditor: User
    service: User
    charlie: User
    dave: User

    def grant_of(self, user: User) -> RoleGrant:
        """The user's one grant."""
        return RoleGrant.objects.get(user=user)


def a_cast(company: Company | None = None) -> Cast:
    """The people of `company`, or of a tree without pools: ai-company with research (nlp) and
    production (inference); and rival-lab with team. Dave has no role."""
    if company is None:
        organization = an_organization("ai-company")
        research = a_department(organization, "research")
        production = a_department(organization, "production")
        nlp, inference = a_team(research, "nlp"), a_team(production, "inference")
    else:
        organization = company.organization
        research, production = company.research, company.production
        nlp, inference = company.nlp, company.inference
    rival = an_organization("rival-lab")
    rival_team = a_team(rival, "team")

    def person(username: str, role: Role | None, node: Node | None) -> User:
        user = a_user(node.organization if node is not None else None, username)
        if role is not None:
            a_grant(user, role, node)
        return user

    service = person("robot", Role.SERVICE_ACCOUNT, nlp)
    service.kind = UserKind.SERVICE
    service.save()
    return Cast(
        organization=organization,
        research=research,
        nlp=nlp,
        production=production,
        inference=inference,
        rival=rival,
        rival_team=rival_team,
        root=person("root", Role.PLATFORM_ADMIN, None),
        alice=person("alice", Role.ORGANIZATION_ADMIN, organization),
        research_admin=person("research-admin", Role.DEPARTMENT_ADMIN, research),
        production_admin=person("production-admin", Role.DEPARTMENT_ADMIN, production),
        nlp_lead=person("nlp-lead", Role.TEAM_LEAD, nlp),
        bob=person("bob", Role.RESEARCHER, nlp),
        finance=person("finance", Role.FINANCE, organization),
        auditor=person("auditor", Role.AUDITOR, organization),
        service=service,
        charlie=person("charlie", Role.ORGANIZATION_ADMIN, rival),
        dave=person("dave", None, organization),
    )

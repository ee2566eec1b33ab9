"""The import of a whole organization from a file, with its preview.

    python tests/performance/bench_tree_import.py [--smoke]

1,000 teams in 20 departments with a quota each, and 10,000 people with a role each: once all of
them unknown, so that they are invited, and once all of them with accounts. Target: 10 s for preview
and import together.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime

from bed import a_database

TARGET_S = 10
DEPARTMENTS = 20
TEAM_GPUS = 8
NOW = datetime(2026, 11, 29, tzinfo=UTC)


def main() -> None:
    """Fill a database, import, print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a fiftieth of the size")
    arguments = parser.parse_args()
    teams, people = (20, 200) if arguments.smoke else (1_000, 10_000)
    with a_database():
        for organization, has_accounts in (("invited", False), ("known", True)):
            measure(organization, teams, people, has_accounts=has_accounts)


def measure(slug: str, teams: int, people: int, *, has_accounts: bool) -> None:
    """Print the figures of one organization."""
    from builders.portal_builders import a_quota, an_actor, an_organization
    from clusters.models import Pool
    from primitives.clock import SystemClock
    from quotas.models import Quota
    from tenants.models import Invitation, Node, RoleGrant, User, UserKind
    from tenants.roles import Role
    from treefile.importing import ImportRequest, apply_import, preview_import
    from treefile.present import as_file, present_tree
    from treefile.rows import Format
    from treefile.writing import write

    organization = an_organization(slug)
    pool, _ = Pool.objects.get_or_create(name="h100")
    a_quota(organization, pool, TEAM_GPUS * teams)
    actor = an_actor(organization, Role.ORGANIZATION_ADMIN, "admin")
    if has_accounts:
        User.objects.bulk_create(
            User(
                organization=organization,
                username=f"person-{number}",
                login=f"person-{number}@{slug}",
                name=f"Person {number}",
                kind=UserKind.PERSON,
                email=f"person-{number}@{slug}.example.org",
                created_at=NOW,
            )
            for number in range(people)
        )
    text = a_file(slug, teams, people)
    asked = ImportRequest(organization.pk, text, Format.CSV)
    began, cpu = time.perf_counter(), time.process_time()
    preview = preview_import(asked, actor=actor, clock=SystemClock())
    previewed = time.perf_counter()
    assert not preview.errors, preview.errors[:3]
    apply_import(asked, digest=preview.digest, actor=actor, clock=SystemClock())
    applied, cpu_s = time.perf_counter(), time.process_time() - cpu
    below = Node.objects.filter(organization=organization)
    assert below.count() == 1 + DEPARTMENTS + teams
    assert Quota.objects.filter(node__in=below).count() == 1 + DEPARTMENTS + teams
    given = RoleGrant if has_accounts else Invitation
    assert given.objects.filter(node__organization=organization).count() == people + has_accounts
    word = "met" if applied - began < TARGET_S else "NOT met"
    print(
        f"{teams} teams, {people} people, {slug}, {len(text):,} bytes: preview "
        f"{previewed - began:.1f} s, import {applied - previewed:.1f} s, target {TARGET_S} s "
        f"{word}; {cpu_s:.1f} s of CPU time of Python"
    )
    for form in Format:
        began = time.perf_counter()
        exported = write(as_file(present_tree(organization)), form)
        written = time.perf_counter()
        again = ImportRequest(organization.pk, exported, form)
        assert not preview_import(again, actor=actor, clock=SystemClock()).changes
        print(
            f"  export as {form.value} {written - began:.1f} s, {len(exported):,} bytes; preview "
            f"of it without changes {time.perf_counter() - written:.1f} s"
        )


def a_file(slug: str, teams: int, people: int) -> str:
    """The tree and its people as CSV."""
    lines = ["kind,path,name,user,role,pool,guaranteed,borrow_limit"]
    for department in range(DEPARTMENTS):
        path = f"{slug}/department-{department}"
        lines.append(f"department,{path},Department {department},,,,,")
        lines.append(f"quota,{path},,,,h100,{TEAM_GPUS * teams // DEPARTMENTS},")
    paths = [f"{slug}/department-{number % DEPARTMENTS}/team-{number}" for number in range(teams)]
    for number, path in enumerate(paths):
        lines.append(f"team,{path},Team {number},,,,,")
        lines.append(f"quota,{path},,,,h100,{TEAM_GPUS},16")
    for number in range(people):
        lines.append(
            f"member,{paths[number % teams]},,person-{number}@{slug}.example.org,"
            f"{'team_lead' if number < teams else 'researcher'},,,"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()

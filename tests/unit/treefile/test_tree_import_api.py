"""Tree files: export, preview, and an import of exactly the previewed changes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.models import AuditEvent
from builders.api_callers import LONG_AGO, by_token
from builders.cast import Cast, a_cast
from builders.job_builders import a_job
from builders.portal_builders import a_company, a_grant, a_pool, a_quota, a_team, a_user
from quotas.models import Quota, QuotaChange
from quotas.second_person_models import SecondPersonPolicy
from tenants.models import Invitation, Node, RoleGrant, User
from tenants.roles import Role
from tenants.tasks import mail_due_invitations
from treefile import comparing, importing, reading
from treefile.comparing import MOVES_MAX
from treefile.reading import ReadFile, read
from treefile.rows import Format

pytestmark = pytest.mark.django_db

HEAD = "kind,path,name,id,user,role,expires_at\n"
QUOTAS = "kind,path,name,pool,guaranteed,borrow_limit,lend_limit,weight\n"


@pytest.fixture
def cast() -> Cast:
    return a_cast()


def exported(
    cast: Cast, by: User | None = None, node: Node | None = None, form: str = "csv"
) -> Any:
    return by_token(by or cast.alice).get(
        f"tree/{(node or cast.organization).pk}/export?format={form}"
    )


def imported(
    cast: Cast,
    text: str,
    digest: str | None = None,
    by: User | None = None,
    node: Node | None = None,
    **body: Any,
) -> Any:
    """A preview without a digest, an import with one."""
    address = f"tree/{(node or cast.organization).pk}/import"
    given = {"format": "csv", "text": text, **body}
    caller = by_token(by or cast.alice)
    if digest is None:
        return caller.post(f"{address}?dry_run=true", given)
    return caller.post(address, given, If_Match=f'"{digest}"')


def applied(cast: Cast, text: str, by: User | None = None, **body: Any) -> Any:
    """A file that is previewed and then imported."""
    preview = imported(cast, text, by=by, **body).json()
    assert (preview["line_errors"], preview["is_applied"]) == ([], False)
    answer = imported(cast, text, preview["digest"], by=by, **body)
    assert answer.status_code == 200, answer.json()
    assert answer.json() == {**preview, "is_applied": True}
    return answer.json()


def test_an_export_has_nodes_and_their_members(cast: Cast) -> None:
    """In the order of paths. Against: members by hand of nodes above."""
    lines = exported(cast, cast.nlp_lead, cast.nlp).content.decode().splitlines()
    assert lines == [
        "kind,path,name,id,user,role,expires_at,pool,guaranteed,borrow_limit,lend_limit,weight",
        f"team,ai-company/research/nlp,nlp,{cast.nlp.pk},,,,,,,,",
        "member,ai-company/research/nlp,Bob,,bob@ai-company,researcher,,,,,,",
        "member,ai-company/research/nlp,Nlp-Lead,,nlp-lead@ai-company,team_lead,,,,,,",
        "member,ai-company/research/nlp,Robot,,robot@ai-company,service_account,,,,,,",
    ]
    yaml = exported(cast, cast.nlp_lead, cast.nlp, "yaml").content.decode()
    assert yaml.splitlines()[:5] == [
        "nodes:",
        "- path: ai-company/research/nlp",
        "  kind: team",
        "  name: nlp",
        f"  id: {cast.nlp.pk}",
    ]
    refused = exported(cast, form="xml")
    assert (refused.status_code, refused["Content-Type"]) == (400, "application/problem+json")


@pytest.mark.parametrize("form", ["csv", "yaml"])
def test_an_export_imports_without_changes(cast: Cast, form: str) -> None:
    """Not even with everything missing removed. Against: a role of a group in the export."""
    grant = a_grant(cast.dave, Role.AUDITOR, cast.nlp)
    RoleGrant.objects.filter(pk=grant.pk).update(group="auditors")
    text = exported(cast, form=form).content.decode()
    found = imported(cast, text, format=form, archive_missing=True, revoke_missing=True).json()
    assert (found["changes"], found["line_errors"], found["digest"]) == ([], [], None)


def test_a_file_makes_renames_moves_grants_and_invites(cast: Cast) -> None:
    """All in one request. Against: a team below a new department is refused."""
    text = HEAD + (
        "department,ai-company/labs,Labs,,,,\n"
        "team,ai-company/labs/robotics,Robotics,,,,\n"
        f"team,ai-company/labs/nlp,Language,{cast.nlp.pk},,,\n"
        "member,ai-company/labs/nlp,,,dave@ai-company,researcher,2199-01-01T00:00:00Z\n"
        "member,ai-company/labs/robotics,Ana Lima,,ana@example.org,team_lead,\n"
    )
    answer = applied(cast, text)
    assert answer["counts"] == {
        "node_created": 2,
        "node_moved": 1,
        "node_renamed": 1,
        "role_granted": 1,
        "person_invited": 1,
    }
    nlp = Node.objects.get(pk=cast.nlp.pk)
    assert (nlp.display_path, nlp.name) == ("ai-company/labs/nlp", "Language")
    robotics = Node.objects.get(path="ai-company/labs/robotics/")
    assert (robotics.kind, robotics.name, robotics.created_at > nlp.created_at) == (
        "team",
        "Robotics",
        True,
    )
    grant = cast.grant_of(cast.dave)
    assert (grant.role, grant.node_id, grant.granted_by) == ("researcher", nlp.pk, cast.alice)
    assert grant.expires_at == datetime(2199, 1, 1, tzinfo=UTC)
    invitation = Invitation.objects.get()
    assert (invitation.username, invitation.name, invitation.role, invitation.node) == (
        "ana",
        "Ana Lima",
        "team_lead",
        robotics,
    )
    actions = set(AuditEvent.objects.values_list("action", flat=True))
    assert actions == {
        "department_created",
        "team_created",
        "team_moved",
        "team_moved_away",
        "team_renamed",
        "role_granted",
        "invitation_made",
        "tree_imported",
    }
    again = imported(cast, text).json()
    assert (again["changes"], again["line_errors"]) == ([], [])


def test_a_preview_changes_nothing(cast: Cast) -> None:
    """Neither rows nor the audit log. Against: a preview that commits."""
    text = HEAD + "team,ai-company/robotics,Robotics,,,,\n"
    assert imported(cast, text).json()["counts"] == {"node_created": 1}
    assert not Node.objects.filter(slug="robotics").exists()
    assert AuditEvent.objects.count() == 0


def test_only_the_previewed_changes_are_applied(cast: Cast) -> None:
    """Against: an import that compares no digest. Without If-Match nothing is applied."""
    text = HEAD + "team,ai-company/robotics,Robotics,,,,\nteam,ai-company/vision,Vision,,,,\n"
    digest = imported(cast, text).json()["digest"]
    a_team(cast.organization, "vision")
    assert imported(cast, text, digest).status_code == 412
    address = f"tree/{cast.organization.pk}/import"
    bare = by_token(cast.alice).post(address, {"format": "csv", "text": text})
    assert bare.status_code == 428
    assert not Node.objects.filter(slug="robotics").exists()


def test_nothing_is_archived_or_revoked_unless_the_caller_asks(cast: Cast) -> None:
    """Against: revoke_missing as the default."""
    text = HEAD + f"organization,ai-company,ai-company,{cast.organization.pk},,,\n"
    found = imported(cast, text).json()
    assert (found["changes"], found["missing_nodes"], found["missing_roles"]) == ([], 4, 8)
    keeps = text + "member,ai-company,,,alice@ai-company,organization_admin,\n"
    both = applied(cast, keeps, archive_missing=True, revoke_missing=True)
    assert both["counts"] == {"role_revoked": 7, "node_archived": 2}
    assert Node.objects.filter(organization=cast.organization, archived_at=None).count() == 1
    left = RoleGrant.objects.filter(node__organization=cast.organization)
    assert [grant.user for grant in left] == [cast.alice]


def test_all_errors_come_at_once_with_their_lines(cast: Cast) -> None:
    """Each with what to do. Against: only the first error of a file is found."""
    text = HEAD + (
        "group,ai-company/x,X,,,,\n"
        "team,ai-company/Research,X,,,,\n"
        "team,rival-lab/team,Team,,,,\n"
        "team,ai-company/none/x,X,,,,\n"
        "team,ai-company/research,Research,,,,\n"
        "member,ai-company/research,,,nobody,researcher,\n"
        "member,ai-company/research,,,bob@ai-company,boss,\n"
        "member,ai-company/research,,,bob@ai-company,researcher,tomorrow\n"
        "member,ai-company/research,Rob,,bob@ai-company,researcher,\n"
        "member,ai-company/nowhere,,,bob@ai-company,researcher,\n"
    )
    found = imported(cast, text).json()
    assert found["digest"] is None
    assert [(each["line"], each["sentence"]) for each in found["line_errors"]] == [
        (2, "kind must be one of organization, department, team, member, quota."),
        (
            3,
            "path must be 1 to 63 of a-z, 0-9 and -, with a letter or digit at both ends.",
        ),
        (4, "rival-lab/team is not at or below ai-company, which this import covers."),
        (5, "The parent ai-company/none does not exist. Add a row for it."),
        (6, "ai-company/research is of the kind department, which does not change."),
        (
            8,
            "role must be one of organization_admin, department_admin, team_lead, researcher, "
            "finance, auditor, service_account.",
        ),
        (9, "expires_at must be a time such as 2026-12-31T23:59:59Z, or empty."),
        (11, "There is no node ai-company/nowhere. Add a row for it, or correct the path."),
    ]


def test_refusals_of_the_changes_come_with_their_lines(cast: Cast) -> None:
    """By the rules for single changes. Against: grants without a check of the actor's rights."""
    text = HEAD + (
        "team,ai-company/research/vision,Vision,,,,\n"
        "member,ai-company/research/nlp,,,dave@ai-company,organization_admin,\n"
        "member,ai-company/research/nlp,,,x@example.org,service_account,\n"
    )
    found = imported(cast, text, by=cast.nlp_lead, node=cast.nlp).json()
    assert [each["line"] for each in found["line_errors"]] == [2]
    found = imported(cast, text, by=cast.research_admin, node=cast.research).json()
    assert [(each["line"], each["sentence"][:40]) for each in found["line_errors"]] == [
        (3, "You cannot grant or revoke organization_"),
        (4, "Nobody is invited as service_account. Ch"),
    ]
    assert imported(cast, text, by=cast.bob).status_code == 403
    assert imported(cast, text, by=cast.charlie).status_code == 404


def test_a_team_with_open_jobs_is_not_archived() -> None:
    """Its jobs need a decision. Against: an import that cancels jobs."""
    company = a_company()
    cast = a_cast(company)
    a_job(company, cast.bob)
    rows = exported(cast).content.decode().splitlines(keepends=True)
    text = "".join(row for row in rows if "/nlp," not in row)
    (error,) = imported(cast, text, archive_missing=True).json()["line_errors"]
    assert error["line"] == 0
    assert error["sentence"].startswith("ai-company/research/nlp: ")


def test_a_mail_address_names_an_account_or_invites(cast: Cast) -> None:
    """Against: an address of two accounts that takes the first one."""
    User.objects.filter(pk=cast.dave.pk).update(email="Dave@example.org")
    row = HEAD + "member,ai-company/research/nlp,,,dave@EXAMPLE.org,researcher,\n"
    (change,) = imported(cast, row).json()["changes"]
    assert (change["action"], change["user"]) == ("role_granted", "dave@ai-company")
    User.objects.filter(pk=cast.bob.pk).update(email="dave@example.org")
    (error,) = imported(cast, row).json()["line_errors"]
    assert error["sentence"] == (
        "Several accounts have this address: bob@ai-company, dave@ai-company. Give one of these "
        "logins."
    )


def test_an_unknown_address_is_invited_once_and_mailed_by_a_timer(
    cast: Cast, settings: Any
) -> None:
    """With a free username. Against: `ana` for both, so that one of them cannot accept."""
    settings.IS_MAIL_CONFIGURED = True
    text = HEAD + (
        "member,ai-company/research/nlp,,,ana@example.org,researcher,\n"
        "member,ai-company/research,,,Ana@example.org,auditor,\n"
    )
    (error,) = imported(cast, text).json()["line_errors"]
    assert (error["line"], error["sentence"][:43]) == (
        3,
        "Line 2 invites Ana@example.org already, wit",
    )
    applied(
        cast,
        HEAD
        + "member,ai-company/research/nlp,,,ana@example.org,researcher,\n"
        + "member,ai-company/research/nlp,,,ana@example.net,researcher,\n",
    )
    assert list(Invitation.objects.order_by("pk").values_list("username", flat=True)) == [
        "ana",
        "ana-2",
    ]
    assert mail.outbox == []
    mail_due_invitations()
    mail_due_invitations()
    assert [message.to for message in mail.outbox] == [["ana@example.org"], ["ana@example.net"]]


def test_a_refused_mail_does_not_hold_up_the_others(
    cast: Cast, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refused one waits for its next try, six times. Against: a refusal that ends the run."""
    settings.IS_MAIL_CONFIGURED = True
    member = "member,ai-company/research/nlp,,,{}@example.org,researcher,\n"
    applied(cast, HEAD + member.format("bad") + member.format("good"))
    mailed: list[str] = []

    def mails(invitation: Invitation, secret: str) -> bool:
        mailed.append(invitation.username)
        return invitation.username == "good"

    monkeypatch.setattr("tenants.tasks.mail_invitation", mails)
    mail_due_invitations()
    mail_due_invitations()
    assert mailed == ["bad", "good"]
    bad = Invitation.objects.get(username="bad")
    assert (bad.mail_tries, bad.mail_due_at is not None) == (1, True)
    assert Invitation.objects.get(username="good").mail_due_at is None
    for _ in range(6):
        Invitation.objects.filter(mail_due_at__isnull=False).update(mail_due_at=LONG_AGO)
        mail_due_invitations()
    assert mailed == ["bad", "good", *["bad"] * 5]
    bad.refresh_from_db()
    assert (bad.mail_tries, bad.mail_due_at) == (6, None)


def test_a_run_ends_after_ten_refused_mails(
    cast: Cast, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A silent mail server takes 10 s each. Against: a run without this bound."""
    settings.IS_MAIL_CONFIGURED = True
    member = "member,ai-company/research/nlp,,,p{}@example.org,researcher,\n"
    applied(cast, HEAD + "".join(member.format(number) for number in range(12)))
    monkeypatch.setattr("tenants.tasks.mail_invitation", lambda invitation, secret: False)
    mail_due_invitations()
    assert Invitation.objects.filter(mail_tries=1).count() == 10


def test_an_expiry_is_set_and_lifted(cast: Cast) -> None:
    """Against: `compare` ignores the expiry of a role that exists."""
    row = HEAD + "member,ai-company/research/nlp,,,bob@ai-company,researcher,{}\n"
    (change,) = applied(cast, row.format("2199-01-01T01:00:00+01:00"))["changes"]
    assert (change["action"], change["before"], change["after"]) == (
        "role_expiry_changed",
        "",
        "2199-01-01T00:00:00Z",
    )
    assert cast.grant_of(cast.bob).expires_at == datetime(2199, 1, 1, tzinfo=UTC)
    applied(cast, row.format(""))
    assert cast.grant_of(cast.bob).expires_at is None


def test_an_account_of_the_platform_keeps_its_role(cast: Cast) -> None:
    """Although Alice cannot see it. Against: root of the platform taken for root@ai-company."""
    a_grant(cast.root, Role.AUDITOR, cast.nlp)
    a_user(cast.organization, "root")
    text = exported(cast).content.decode()
    found = imported(cast, text, revoke_missing=True).json()
    assert (found["changes"], found["line_errors"]) == ([], [])


def test_a_node_made_after_the_preview_is_not_archived(cast: Cast) -> None:
    """Against: a digest of the topmost archived nodes only."""
    row = f"organization,ai-company,ai-company,{cast.organization.pk},,,\n"
    preview = imported(cast, HEAD + row, archive_missing=True).json()
    shown = [(each["path"], each["nodes_below"]) for each in preview["changes"]]
    assert shown == [("ai-company/production", 1), ("ai-company/research", 1)]
    made = a_team(cast.research, "new-team")
    answer = imported(cast, HEAD + row, preview["digest"], archive_missing=True)
    assert answer.status_code == 412
    made.refresh_from_db()
    assert made.archived_at is None


def test_moves_stop_at_the_limit(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: all rows moved in memory before the limit is checked."""
    teams = [a_team(cast.research, f"t{number}") for number in range(MOVES_MAX + 5)]
    text = HEAD + "".join(f"team,ai-company/{team.slug},X,{team.pk},,,\n" for team in teams)
    rebased: list[str] = []
    rebase = comparing._NodeComparison._rebase

    def counted(found: comparing._NodeComparison, before: str, after: str) -> None:
        rebased.append(before)
        rebase(found, before, after)

    monkeypatch.setattr(comparing._NodeComparison, "_rebase", counted)
    (error,) = imported(cast, text).json()["line_errors"]
    assert error["sentence"] == "An import moves at most 100 nodes. Split the file."
    assert len(rebased) == MOVES_MAX + 1


@pytest.mark.parametrize("part", ["a", "{}", "[]"])
def test_yaml_with_more_parts_than_rows_need_is_refused(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any tree of it is built. Against: a count of texts only; no count."""
    monkeypatch.setattr(reading.yaml, "compose", None)
    _, errors = read(f"nodes: [{f'{part},' * 280_000}]", Format.YAML)
    assert [error.sentence for error in errors] == ["A file has at most 20,000 rows. Split it."]


def test_a_file_is_read_before_a_transaction(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against: the read inside of the transaction of a preview, and of an import."""
    outside = list(connection.savepoint_ids)
    depths: list[bool] = []

    def noted(text: str, form: Format) -> ReadFile:
        depths.append(connection.savepoint_ids == outside)
        return read(text, form)

    monkeypatch.setattr(importing, "read", noted)
    applied(cast, HEAD + "team,ai-company/robotics,Robotics,,,,\n")
    assert depths == [True, True]


def test_rows_on_one_line_are_repeated_rows(cast: Cast) -> None:
    """Against: rows of one line taken for one row, in reading and in comparing."""
    node = "{path: ai-company/x, kind: team, name: X}"
    (error,) = imported(cast, f"nodes: [{node}, {node}]", format="yaml").json()["line_errors"]
    assert error["sentence"] == "Line 1 says this already. Remove one of both."
    members = "[{user: dave, role: auditor}, {user: dave@ai-company, role: auditor}]"
    node = f"{{path: ai-company/x, kind: team, name: X, members: {members}}}"
    (error,) = imported(cast, f"nodes: [{node}]", format="yaml").json()["line_errors"]
    assert error["sentence"].startswith("Line 1 gives dave@ai-company this role already.")
    members = "[{user: ana@example.org, role: auditor}]"
    rows = [f"{{path: ai-company/{x}, kind: team, name: X, members: {members}}}" for x in "xy"]
    text = f"nodes: [{', '.join(rows)}]"
    (error,) = imported(cast, text, format="yaml").json()["line_errors"]
    assert error["sentence"].startswith("Line 1 invites ana@example.org already, with one role.")


def test_an_address_that_no_column_holds_is_refused_with_its_line(cast: Cast) -> None:
    """Against: the length left to the database, which answers 500."""
    domain = ".".join(["d" * 60] * 3)
    row = HEAD + "member,ai-company/research,,,{}@" + domain + ".example.org,researcher,\n"
    most = 254 - len(f"@{domain}.example.org")
    assert imported(cast, row.format("a" * most)).json()["line_errors"] == []
    (error,) = imported(cast, row.format("a" * (most + 1))).json()["line_errors"]
    assert (error["line"], error["sentence"]) == (
        2,
        "A mail address has at most 254 characters. Give another one.",
    )


def test_a_file_without_the_column_of_expiries_changes_none(cast: Cast) -> None:
    """Against: an absent column read as no expiry."""
    until = datetime(2199, 1, 1, tzinfo=UTC)
    RoleGrant.objects.filter(user=cast.bob).update(expires_at=until)
    text = "kind,path,user,role\nmember,ai-company/research/nlp,bob@ai-company,researcher\n"
    found = imported(cast, text).json()
    assert (found["changes"], found["line_errors"]) == ([], [])
    lifted = text.replace("role\n", "role,expires_at\n")
    (change,) = imported(cast, lifted).json()["changes"]
    assert (change["action"], change["after"]) == ("role_expiry_changed", "")


@pytest.fixture
def quotas(cast: Cast) -> None:
    """The organization has 32 GPUs of h100: research 16, of which nlp has a half."""
    pool = a_pool("h100")
    for node, gpus in ((cast.organization, 32), (cast.research, 16), (cast.nlp, 8)):
        a_quota(node, pool, gpus)
    Quota.objects.filter(node=cast.nlp).update(guaranteed_bp=5_000)


def gpus_of(cast: Cast) -> dict[str, int]:
    found = Quota.objects.filter(node__organization=cast.organization).order_by("node__path")
    return {quota.node.display_path: quota.guaranteed_mgpu for quota in found}


@pytest.mark.usefixtures("quotas")
def test_an_export_has_the_quotas_and_imports_without_changes(cast: Cast) -> None:
    """Planted: percentages exported as numbers."""
    text = exported(cast).content.decode()
    line = ",".join(("quota", "ai-company/research/nlp", *[""] * 5, "h100", "50%", "none"))
    assert f"{line},none,100\r\n" in text or f"{line},none,100\n" in text
    assert "quota,ai-company,,,,,,h100,32,none,none,100" in text
    preview = imported(cast, text).json()
    assert (preview["changes"], preview["line_errors"]) == ([], [])
    assert "- pool: h100\n    guaranteed: 50%\n    borrow_limit: none\n" in (
        exported(cast, form="yaml").content.decode()
    )


@pytest.mark.usefixtures("quotas")
def test_quotas_are_created_and_changed_together_as_by_page(cast: Cast) -> None:
    """A department and its teams grow in one step, though each step alone would be refused.

    Planted: quotas set one by one; no history of the change.
    """
    text = QUOTAS + (
        "team,ai-company/research/robotics,Robotics,,,,,\n"
        "quota,ai-company/research/robotics,,h100,12,4,none,50\n"
        "quota,ai-company/research,,h100,24.5,,,\n"
    )
    preview = imported(cast, text).json()
    assert preview["line_errors"] == []
    assert [
        (each["action"], each["pool"], each["before"], each["after"])
        for each in preview["changes"]
        if each["pool"]
    ] == [
        (
            "quota_created",
            "h100",
            "",
            "guaranteed 12, borrow limit 4, lend limit none, weight 50",
        ),
        ("quota_changed", "h100", "guaranteed 16", "guaranteed 24.5"),
    ]
    assert gpus_of(cast)["ai-company/research"] == 16_000
    applied(cast, text)
    assert gpus_of(cast) == {
        "ai-company": 32_000,
        "ai-company/research": 24_500,
        "ai-company/research/nlp": 12_000,
        "ai-company/research/robotics": 12_000,
    }
    robotics = Quota.objects.get(node__slug="robotics")
    assert (robotics.borrow_limit_mgpu, robotics.lend_limit_mgpu, robotics.weight) == (
        4_000,
        None,
        50,
    )
    changes = QuotaChange.objects.order_by("pk").values_list("quota__node__slug", "reason")
    assert list(changes) == [
        ("research", "Imported from a tree file"),
        ("robotics", "Imported from a tree file"),
        ("nlp", "Follows ai-company/research: Imported from a tree file"),
    ]
    events = AuditEvent.objects.filter(action__startswith="quota.").order_by("pk")
    assert list(events.values_list("action", "actor", "node_path")) == [
        ("quota.changed", "alice@ai-company", "ai-company/research/"),
        ("quota.created", "alice@ai-company", "ai-company/research/robotics/"),
    ]


@pytest.mark.usefixtures("quotas")
@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            "quota,ai-company/research,,h100,40,,,",
            "research would be guaranteed 40 GPUs, but ai-company has 32 and guarantees 0 of them "
            "to its other departments and teams; 32 are left.",
        ),
        ("quota,ai-company/research,,v100,4,,,", "There is no pool v100. Pools: h100."),
        (
            "quota,ai-company/production,,h100,,4,,",
            "A new quota needs guaranteed, such as 8 or 40%.",
        ),
        (
            "quota,ai-company/production/inference,,h100,1,,,",
            "ai-company/production has no quota in h100. Give it one first.",
        ),
        (
            "quota,ai-company,,h100,64,,,",
            "You need the right manage_quota on the platform to change a guarantee or weight "
            "(ai-company); ask an administrator of it.",
        ),
        (
            "quota,ai-company/research,,h100,many,,,",
            "guaranteed must be a number such as 8 or 0.5, or 40%.",
        ),
        ("quota,ai-company/research,,h100,101%,,,", "guaranteed is at most 100% of the parent."),
        (
            "quota,ai-company/research,,h100,8,,,0",
            "weight must be a whole number from 1 to 1,000,000.",
        ),
        ("quota,ai-company/research,,,8,,,", "pool must be the name of a pool."),
        (
            "team,ai-company/research/nlp,NLP,h100,8,,,",
            "A row of the kind team has no pool. Leave it empty.",
        ),
    ],
)
def test_a_refused_quota_has_its_line_and_changes_nothing(
    cast: Cast, row: str, sentence: str
) -> None:
    before = gpus_of(cast)
    errors = imported(cast, f"{QUOTAS}{row}\n").json()["line_errors"]
    assert errors == [{"line": 2, "sentence": sentence}]
    assert gpus_of(cast) == before


@pytest.mark.usefixtures("quotas")
def test_quotas_that_need_a_second_person_are_not_imported_at_once(cast: Cast) -> None:
    """Planted: quotas of a file written without the guard."""
    SecondPersonPolicy.objects.create(organization=cast.organization, moved_mgpu_max=0)
    before, text = gpus_of(cast), f"{QUOTAS}quota,ai-company/research,,h100,20,,,\n"
    found = imported(cast, text).json()
    assert (found["line_errors"], found["second_person"]) == ([], "It moves 4 GPUs")
    answer = imported(cast, text, found["digest"])
    assert answer.status_code == 202, answer.json()
    assert gpus_of(cast) == before


def test_an_export_and_an_import_are_in_the_audit_log_as_a_whole(cast: Cast) -> None:
    exported(cast)
    applied(cast, HEAD + "team,ai-company/robotics,Robotics,,,,\n")
    events = AuditEvent.objects.filter(action__startswith="tree_").order_by("pk")
    assert list(events.values_list("action", "actor", "node_path")) == [
        ("tree_exported", "alice@ai-company", "ai-company/"),
        ("tree_imported", "alice@ai-company", "ai-company/"),
    ]
    assert events[1].detail == {"node_created": 1}


def test_users_are_locked_after_the_administrators_and_not_by_a_preview(
    cast: Cast,
) -> None:
    """Planted: users locked by a preview, so that their submissions wait."""
    text = HEAD + "member,ai-company/research,,,dave@ai-company,team_lead,\n"

    def locked(run: Any) -> list[str]:
        with CaptureQueriesContext(connection) as found:
            run()
        tables = ("tenants_rolegrant", "tenants_user")
        return [
            next(table for table in tables if f'FROM "{table}"' in query["sql"])
            for query in found
            if "FOR UPDATE" in query["sql"]
            and any(f'FROM "{table}"' in query["sql"] for table in tables)
        ]

    digest = imported(cast, text).json()["digest"]
    assert locked(lambda: imported(cast, text)) == []
    assert locked(lambda: imported(cast, text, digest)) == ["tenants_rolegrant", "tenants_user"]


def test_people_invited_within_a_day_are_bounded(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: withdrawn invitations not counted, so that mails have no bound."""
    monkeypatch.setattr("tenants.invitations.MADE_PER_DAY_MAX", 1)
    row = "member,ai-company/research,,,{}@example.org,researcher,\n"
    applied(cast, HEAD + row.format("ana"))
    Invitation.objects.update(withdrawn_at=datetime.now(UTC))
    assert imported(cast, HEAD + row.format("bea")).json()["line_errors"] == [
        {"line": 2, "sentence": "1 people were invited within 24 hours. Invite others tomorrow."}
    ]

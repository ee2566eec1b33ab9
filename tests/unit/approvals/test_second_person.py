"""Writes of quotas and rules that need a second person: operations, requests, decisions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from approvals.asking import expire_requests
from approvals.changes import Terms, state_tag
from approvals.deciding import counter
from approvals.guarded_writes import WAITING_OF_ONE_MAX, ask_for_second_person
from approvals.models import ChangeRequest, GuardedWrite, RequestKind
from approvals.operations import OPERATIONS
from approvals.reading import request_by_id
from audit.models import AuditEvent
from builders.api_callers import Caller, by_token
from builders.approval_builders import a_request, asked
from builders.lent_out import lent_out
from builders.parallel import at_once
from builders.portal_builders import (
    NOW,
    Company,
    a_company,
    a_pool,
    a_priority_class,
    a_quota,
    a_team,
    an_actor,
)
from jobs.models import Job
from notices.models import Notice
from primitives.clock import SystemClock
from primitives.errors import Conflict
from quotas.administration import QuotaEdit
from quotas.guarded_state import moved_alone_mgpu
from quotas.guarding import Effects, SecondPersonNeeded, Write, decided
from quotas.models import OrganizationPolicy, PlannedChange, PriorityClass, Quota
from quotas.planned_changes import apply_planned, carry_out_due, draft_change
from quotas.planned_reading import etag_of_planned
from quotas.second_person_models import SecondPersonPolicy
from tenants.access import Actor
from tenants.models import Node, RoleGrant, User, UserKind
from tenants.roles import Role

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "now", lambda _: NOW)


@dataclass(frozen=True)
class Scene:
    """A company whose writes need a second person; alice and anna administer it."""

    company: Company
    alice: Actor
    anna: Actor

    def rules(self, **changes: Any) -> None:
        SecondPersonPolicy.objects.update_or_create(
            organization=self.company.organization, defaults=changes
        )

    def gpus(self, *nodes: Node) -> list[int]:
        found = dict(Quota.objects.values_list("node", "guaranteed_mgpu"))
        return [found[node.pk] // 1000 for node in nodes]

    def quota(self, node: Node) -> Quota:
        return Quota.objects.get(node=node)

    def lower(self, caller: Caller, node: Node, mgpu: int = 4_000) -> Any:
        """The answer to a new guarantee of the node."""
        quota = self.quota(node)
        body = {"guaranteed_mgpu": mgpu, "reason": "less"}
        return caller.patch(f"quotas/{quota.pk}", body, If_Match=f'"v{quota.version}"')

    def state(self) -> list[Any]:
        """All quotas and rules of the company, and its tree."""
        return [
            *Quota.objects.order_by("pk").values(),
            *PriorityClass.objects.order_by("pk").values(),
            *OrganizationPolicy.objects.order_by("pk").values(),
            *SecondPersonPolicy.objects.order_by("pk").values(),
            *Node.objects.order_by("pk").values_list("path", flat=True),
        ]


@pytest.fixture
def scene() -> Scene:
    company = a_company()
    found = Scene(
        company,
        an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice"),
        an_actor(company.organization, Role.ORGANIZATION_ADMIN, "anna"),
    )
    found.rules(moved_mgpu_max=0, guards_rules=True)
    return found


def waiting() -> ChangeRequest:
    """The one write that waits."""
    return ChangeRequest.objects.select_related("write").get(kind="write", status="pending")


def approve(caller: Caller, request: ChangeRequest, tag: str | None = None) -> Any:
    wanted = state_tag(ChangeRequest.objects.get(pk=request.pk)) if tag is None else tag
    return caller.post(f"requests/{request.pk}/approve", {"note": "fine"}, If_Match=wanted)


# -- operations: each sends its write as alice, or returns the answer of another caller -----


def _create(scene: Scene, alice: Caller) -> Any:
    Quota.objects.filter(node=scene.company.vision).update(guaranteed_mgpu=4_000)
    a_team(scene.company.research, "robotics")
    body = {
        "node": "ai-company/research/robotics",
        "pool": "h100",
        "guaranteed_mgpu": 4_000,
        "reason": "new",
    }
    return lambda: alice.post("quotas", body, Idempotency_Key="create")


def _change(scene: Scene, alice: Caller) -> Any:
    return lambda: scene.lower(alice, scene.company.vision)


def _drafted(scene: Scene, **times: Any) -> PlannedChange:
    edit = QuotaEdit(guaranteed_mgpu=4_000)
    given: dict[str, Any] = {"apply_at": None, "revert_after_s": None, **times}
    vision = scene.quota(scene.company.vision)
    return draft_change([(vision.pk, edit)], reason="plan", actor=scene.alice, now=NOW, **given)


def _plan(scene: Scene, alice: Caller) -> Any:
    planned = _drafted(scene)
    path = f"quota-changes/{planned.pk}/apply"
    return lambda: alice.send("POST", path, If_Match=etag_of_planned(planned))


def _schedule(scene: Scene, alice: Caller) -> Any:
    planned = _drafted(scene, apply_at=NOW + HOUR)
    path = f"quota-changes/{planned.pk}/apply"
    return lambda: alice.send("POST", path, If_Match=etag_of_planned(planned))


def _keep(scene: Scene, alice: Caller) -> Any:
    planned = _drafted(scene, revert_after_s=3_600)
    with decided():
        tag = etag_of_planned(planned)
        apply_planned(planned.pk, if_match=tag, actor=scene.alice, now=NOW)
    return lambda: alice.send("POST", f"quota-changes/{planned.pk}/cancel")


def _policy(scene: Scene, alice: Caller) -> Any:
    path = f"organizations/{scene.company.organization.pk}/policy"
    return lambda: alice.patch(path, {"min_run_s": 7}, If_Match='"v1"')


def _new_class(scene: Scene, alice: Caller) -> Any:
    body = {"organization": "ai-company", "name": "rush", "order": 999}
    return lambda: alice.post("priority-classes", body, Idempotency_Key="class")


def _class(scene: Scene, alice: Caller) -> Any:
    found = a_priority_class(scene.company.organization)
    path = f"priority-classes/{found.pk}"
    return lambda: alice.patch(path, {"order": 99}, If_Match='"v1"')


def _no_class(scene: Scene, alice: Caller) -> Any:
    found = a_priority_class(scene.company.organization, "rush")
    return lambda: alice.send("DELETE", f"priority-classes/{found.pk}", If_Match='"v1"')


def _rules(scene: Scene, alice: Caller) -> Any:
    path = f"organizations/{scene.company.organization.pk}/second-person"
    return lambda: alice.patch(path, {"guards_rules": False}, If_Match='"v1"')


def _request(scene: Scene, alice: Caller) -> Any:
    bob = an_actor(scene.company.nlp, Role.RESEARCHER, "bob")
    request = a_request(scene.company, bob.user)
    sources = [{"node": "ai-company/research/vision", "amount_mgpu": 4_000}]
    path = f"requests/{request.pk}/approve"
    return lambda: alice.post(path, {"sources": sources}, If_Match=state_tag(request))


def _offer(scene: Scene, alice: Caller) -> Any:
    bob = an_actor(scene.company.nlp, Role.RESEARCHER, "bob")
    request = a_request(scene.company, bob.user)
    terms = Terms(2_000, None, {scene.company.vision.pk: 2_000})
    seen = request_by_id(scene.alice, request.pk)
    counter(request.pk, terms, note="", if_match=state_tag(seen), actor=scene.alice, now=NOW)
    caller = by_token(bob.user)
    return lambda: caller.send("POST", f"requests/{request.pk}/offers/1/accept")


def _move(scene: Scene, alice: Caller) -> Any:
    Quota.objects.filter(node=scene.company.inference).update(guaranteed_mgpu=8_000)
    path = f"tree/{scene.company.vision.pk}/move"
    return lambda: alice.post(path, {"parent": "ai-company/production"})


def _delete(scene: Scene, alice: Caller) -> Any:
    Quota.objects.filter(node=scene.company.vision).update(guaranteed_mgpu=4_000)
    team = a_team(scene.company.research, "robotics")
    a_quota(team, scene.company.pool, 4)
    return lambda: alice.send("DELETE", f"tree/{team.pk}")


def _tree_file(scene: Scene) -> tuple[str, dict[str, str]]:
    """The address and the body of a file that moves a team with its quota, and makes another."""
    Quota.objects.filter(node=scene.company.inference).update(guaranteed_mgpu=8_000)
    vision = scene.company.vision.pk
    text = (
        "kind,path,name,id,user,role,expires_at\n"
        f"team,ai-company/production/vision,vision,{vision},,,\n"
        "team,ai-company/production/robotics,Robotics,,,,\n"
    )
    return f"tree/{scene.company.organization.pk}/import", {"format": "csv", "text": text}


def _import(scene: Scene, alice: Caller) -> Any:
    path, body = _tree_file(scene)
    digest = alice.post(f"{path}?dry_run=true", body).json()["digest"]
    return lambda: alice.post(path, body, If_Match=f'"{digest}"')


#: Each operation with the name under which it is repeated.
_OPERATIONS: dict[str, tuple[str, Callable[[Scene, Caller], Any]]] = {
    "create": ("quota.create", _create),
    "change": ("quota.change", _change),
    "plan": ("quota_change.apply", _plan),
    "schedule": ("quota_change.apply", _schedule),
    "keep": ("quota_change.keep", _keep),
    "policy": ("policy.change", _policy),
    "new class": ("class.create", _new_class),
    "class": ("class.change", _class),
    "no class": ("class.remove", _no_class),
    "rules": ("second_person.change", _rules),
    "request": ("request.approve", _request),
    "offer": ("offer.accept", _offer),
    "move": ("node.move", _move),
    "delete": ("node.delete", _delete),
    "import": ("tree.import", _import),
}


@pytest.mark.parametrize("name", _OPERATIONS)
def test_each_operation_waits_for_a_second_person_and_is_then_made(scene: Scene, name: str) -> None:
    """Planted: an operation without its guard (200); a write repeated without effect."""
    operation, prepare = _OPERATIONS[name]
    send = prepare(scene, by_token(scene.alice.user))
    before = scene.state()

    answer = send()

    assert answer.status_code == 202, answer.json()
    assert scene.state() == before
    request = waiting()
    assert answer.json()["request"] == str(request.pk)
    assert "waits for a second person until" in answer.json()["detail"]
    assert (request.write.operation, request.asked_by) == (operation, scene.alice.user)
    assert approve(by_token(scene.alice.user), request).status_code == 403
    assert scene.state() == before

    approved = approve(by_token(scene.anna.user), request)

    assert (approved.status_code, approved.json()["status"]) == (200, "approved"), approved.json()
    if name in ("schedule", "keep"):
        wanted = {"schedule": "scheduled", "keep": "kept"}
        assert PlannedChange.objects.get().status == wanted[name]
    else:
        assert scene.state() != before
    acts = AuditEvent.objects.filter(subject_kind="request", subject_id=str(request.pk))
    assert [(act.action, act.actor) for act in acts.order_by("pk")] == [
        ("request.asked", scene.alice.user.login),
        ("request.approved", scene.anna.user.login),
    ]


def test_the_operations_are_all_that_can_be_repeated() -> None:
    """Against: a operation is added without a test. The demo alone calls `class.set`."""
    assert {operation for operation, _ in _OPERATIONS.values()} | {"class.set"} == OPERATIONS.keys()


def test_a_tree_file_waits_as_a_whole_where_a_change_needs_a_second_person(scene: Scene) -> None:
    """Its preview says so. A changed tree refuses the approval, and nothing of the file is applied.

    Planted: the node without a quota is made at once; the digest is not compared again.
    """
    path, body = _tree_file(scene)
    alice = by_token(scene.alice.user)
    before = scene.state()
    preview = alice.post(f"{path}?dry_run=true", body).json()
    assert (preview["line_errors"], preview["second_person"]) == ([], "It moves 8 GPUs")
    assert (scene.state(), ChangeRequest.objects.exists()) == (before, False)
    for _ in range(2):
        answer = alice.post(path, body, If_Match=f'"{preview["digest"]}"')
        assert answer.status_code == 202, answer.json()
    request = waiting()
    assert (scene.state(), request.write.arguments["digest"]) == (before, preview["digest"])
    robotics = a_team(scene.company.production, "robotics")
    assert approve(by_token(scene.anna.user), request).status_code == 412
    Node.objects.filter(pk=robotics.pk).delete()
    assert approve(by_token(scene.anna.user), waiting()).status_code == 200
    assert Node.objects.filter(path="ai-company/production/robotics/").exists()
    assert Node.objects.get(pk=scene.company.vision.pk).path == "ai-company/production/vision/"


def test_a_long_tree_file_does_not_wait(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: files of any length are stored."""
    path, body = _tree_file(scene)
    monkeypatch.setattr("treefile.importing.WAITING_LENGTH_MAX", 100)
    refused = by_token(scene.alice.user).post(f"{path}?dry_run=true", body)
    assert refused.status_code == 400
    assert refused.json()["detail"] == (
        "It moves 8 GPUs, so a second person decides. A file that waits for that has at most 100 "
        "characters: split it."
    )


#: Functions that write quotas, policies, classes or these rules. All callers hold the guard.
_WRITERS = {
    "administration.py": {"_set_together"},
    "quota_store.py": {"store_quotas"},
    "planned_changes.py": set(),
    "policies.py": {
        "ensure_rules",
        "_locked_policy",
        "_edit_policy",
        "set_priority_class",
        "create_priority_class",
        "change_priority_class",
        "_delete",
    },
    "removal.py": {"remove_quotas"},
    "second_person.py": {"change_second_person_policy"},
}


def test_no_other_function_writes_quotas_and_rules() -> None:
    """Planted: a function of the package that saves a quota without being named here."""
    package = Path(__file__).parents[3] / "quotas"
    models = ("Quota", "OrganizationPolicy", "PriorityClass", "SecondPersonPolicy")
    tables = [f"{model}.objects." for model in models]
    writes = [
        "create(",
        "bulk_create(",
        "bulk_update(",
        "update(",
        "update_or_create(",
        "get_or_create(",
    ]
    saved = ("quota.save(", "policy.save(", "found.save(")
    deleted = (
        "DELETE FROM quotas_quota ",
        "DELETE FROM quotas_priorityclass",
        "DELETE FROM {table}",
    )
    needles = (*(table + write for table in tables for write in writes), *saved, *deleted)
    found: dict[str, set[str]] = {}
    for path in sorted(package.glob("*.py")):
        source = path.read_text()
        for node in ast.parse(source).body:
            text = ast.get_source_segment(source, node) or ""
            if isinstance(node, ast.FunctionDef) and any(each in text for each in needles):
                found.setdefault(path.name, set()).add(node.name)
    wanted = {name: functions for name, functions in _WRITERS.items() if functions}
    # These write the limits of users and times, and the policy of the installation.
    others = {"installation.py", "time_limits.py", "user_caps.py"}
    assert {name: each for name, each in found.items() if name not in others} == wanted


# -- rules --------------------------------------------------------------------------------------


def test_without_rules_one_person_is_enough(scene: Scene) -> None:
    """Against: the guard asks although all rules are off."""
    scene.rules(moved_mgpu_max=None, guards_rules=False, allows_emergency=True)
    assert scene.lower(by_token(scene.alice.user), scene.company.vision).status_code == 200
    assert not ChangeRequest.objects.exists()


def test_a_person_moves_alone_up_to_the_number_of_gpus_of_a_day(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small writes count together, those with a second person do not.

    Planted: each write alone is compared; approved writes count.
    """
    minutes = count()
    monkeypatch.setattr(SystemClock, "now", lambda _: NOW + timedelta(minutes=next(minutes)))
    scene.rules(moved_mgpu_max=4_000, guards_rules=False)
    alice, anna = by_token(scene.alice.user), by_token(scene.anna.user)
    vision = scene.company.vision
    assert scene.lower(alice, vision, 5_000).status_code == 200
    answer = scene.lower(alice, vision, 3_000)
    assert answer.json()["detail"].startswith(
        "It moves 2 GPUs, and you moved 3 within a day, so it waits for a second person"
    )
    assert scene.lower(anna, vision, 4_000).status_code == 200
    request = waiting()
    fresh = anna.get(f"requests/{request.pk}").headers["ETag"]
    assert approve(anna, request, fresh).status_code == 200
    assert scene.gpus(vision) == [3]
    assert scene.lower(alice, vision, 2_000).status_code == 200
    assert scene.lower(alice, vision, 1_000).status_code == 202


def test_scheduled_changes_count_together_when_they_are_due(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes of 4 GPUs for the same minute: the second one fails, and an approved one is made.

    Against: a limit of a day that is bypassed by scheduling; approved changes count as moved alone.
    """
    scene.rules(moved_mgpu_max=4_000, guards_rules=False)
    alice = by_token(scene.alice.user)
    given: dict[str, Any] = {"apply_at": NOW + HOUR, "revert_after_s": None}
    for node, mgpu in ((scene.company.vision, 4_000), (scene.company.nlp, 4_000)):
        edits = [(scene.quota(node).pk, QuotaEdit(guaranteed_mgpu=mgpu))]
        planned = draft_change(edits, reason="p", actor=scene.alice, now=NOW, **given)
        path = f"quota-changes/{planned.pk}/apply"
        answer = alice.send("POST", path, If_Match=etag_of_planned(planned))
        assert answer.status_code == 200, answer.json()
    carry_out_due(now=NOW + HOUR)
    found = PlannedChange.objects.order_by("pk").values_list("status", "note")
    assert [status for status, _ in found] == ["applied", "failed"]
    assert found[1][1].startswith("It moves 4 GPUs, and you moved 4 within a day")

    decided_at = NOW + 1.5 * HOUR
    monkeypatch.setattr(SystemClock, "now", lambda _: decided_at)
    given["apply_at"] = NOW + 2 * HOUR
    edits = [(scene.quota(scene.company.nlp).pk, QuotaEdit(guaranteed_mgpu=3_000))]
    planned = draft_change(edits, reason="q", actor=scene.alice, now=decided_at, **given)
    path = f"quota-changes/{planned.pk}/apply"
    assert alice.send("POST", path, If_Match=etag_of_planned(planned)).status_code == 202
    assert approve(by_token(scene.anna.user), waiting()).status_code == 200
    carry_out_due(now=NOW + 2 * HOUR)
    assert PlannedChange.objects.get(pk=planned.pk).status == "applied"
    moved = moved_alone_mgpu(scene.company.organization, scene.alice.user.pk, NOW + 2 * HOUR)
    assert moved == 4_000


def scheduled(scene: Scene, node: Node, mgpu: int, at: datetime) -> PlannedChange:
    """A change of alice for a moment, which anna approves where that is needed."""
    edits = [(scene.quota(node).pk, QuotaEdit(guaranteed_mgpu=mgpu))]
    given: dict[str, Any] = {"apply_at": at, "revert_after_s": None}
    planned = draft_change(edits, reason="p", actor=scene.alice, now=NOW, **given)
    path = f"quota-changes/{planned.pk}/apply"
    answer = by_token(scene.alice.user).send("POST", path, If_Match=etag_of_planned(planned))
    if answer.status_code == 202:
        assert approve(by_token(scene.anna.user), waiting()).status_code == 200
    planned.refresh_from_db()
    assert planned.status == "scheduled"
    return planned


def test_an_approved_change_hides_no_other_of_the_same_round(scene: Scene) -> None:
    """Both are made at one moment, and only the approved one does not count.

    Planted: changes of the moment of an approved one do not count (6 is 0).
    """
    scene.rules(moved_mgpu_max=4_000, guards_rules=False)
    alone = scheduled(scene, scene.company.vision, 5_000, NOW + HOUR)
    approved = scheduled(scene, scene.company.nlp, 2_000, NOW + HOUR)
    assert [alone.is_decided, approved.is_decided] == [False, True]
    carry_out_due(now=NOW + HOUR)
    assert scene.gpus(scene.company.vision, scene.company.nlp) == [5, 2]
    moved = moved_alone_mgpu(scene.company.organization, scene.alice.user.pk, NOW + HOUR)
    assert moved == 3_000


def for_an_hour(scene: Scene) -> PlannedChange:
    """Vision with 4 GPUs instead of 8 for an hour, which a second person approved."""
    planned = _drafted(scene, revert_after_s=3_600)
    with decided():
        tag = etag_of_planned(planned)
        apply_planned(planned.pk, if_match=tag, actor=scene.alice, now=NOW)
    return planned


def test_a_revert_spares_settings_that_its_change_did_not_set(scene: Scene) -> None:
    """A new weight stays, and the GPUs come back. Planted: all settings compared (kept)."""
    planned, vision = for_an_hour(scene), scene.company.vision
    quota, alice = scene.quota(vision), by_token(scene.alice.user)
    body = {"weight": 7, "reason": "heavier"}
    answer = alice.patch(f"quotas/{quota.pk}", body, If_Match=f'"v{quota.version}"')
    assert answer.status_code == 200
    carry_out_due(now=NOW + HOUR)
    planned.refresh_from_db()
    assert (planned.status, planned.note) == ("reverted", "")
    assert (scene.gpus(vision), scene.quota(vision).weight) == ([8], 7)


def test_a_setting_that_is_kept_from_its_revert_moves_as_much_as_the_revert(scene: Scene) -> None:
    """A thousandth of a GPU less would keep 4 GPUs. Planted: it moves a thousandth (200)."""
    for_an_hour(scene)
    scene.rules(moved_mgpu_max=1_000, guards_rules=False)
    answer = scene.lower(by_token(scene.alice.user), scene.company.vision, 3_999)
    assert answer.status_code == 202
    assert answer.json()["detail"].startswith("It moves 4.001 GPUs, so it waits")


def test_the_way_back_before_its_revert_moves_what_it_moves(scene: Scene) -> None:
    """Planted: only the distance from the revert's settings counts (0, and 200)."""
    for_an_hour(scene)
    scene.rules(moved_mgpu_max=1_000, guards_rules=False)
    answer = scene.lower(by_token(scene.alice.user), scene.company.vision, 8_000)
    assert answer.json()["detail"].startswith("It moves 4 GPUs, so it waits")


def test_a_revert_that_is_lost_counts_once(scene: Scene) -> None:
    """Planted: each later value of the setting counts as the revert (202)."""
    for_an_hour(scene)
    scene.rules(moved_mgpu_max=1_000, guards_rules=False)
    alice, vision = by_token(scene.alice.user), scene.company.vision
    assert scene.lower(alice, vision, 3_000).status_code == 202
    assert approve(by_token(scene.anna.user), waiting()).status_code == 200
    assert scene.lower(alice, vision, 2_999).status_code == 200


def test_a_small_setting_does_not_keep_the_rest_of_its_change(scene: Scene) -> None:
    """The change set the weight of nlp, too. Planted: only changed quotas count (200)."""
    nlp, vision = scene.quota(scene.company.nlp), scene.quota(scene.company.vision)
    edits = [(vision.pk, QuotaEdit(guaranteed_mgpu=4_000)), (nlp.pk, QuotaEdit(weight=5))]
    given: dict[str, Any] = {"apply_at": None, "revert_after_s": 3_600}
    planned = draft_change(edits, reason="plan", actor=scene.alice, now=NOW, **given)
    with decided():
        tag = etag_of_planned(planned)
        apply_planned(planned.pk, if_match=tag, actor=scene.alice, now=NOW)
    scene.rules(moved_mgpu_max=1_000, guards_rules=False)
    nlp.refresh_from_db()
    body = {"weight": 6, "reason": "heavier"}
    alice = by_token(scene.alice.user)
    answer = alice.patch(f"quotas/{nlp.pk}", body, If_Match=f'"v{nlp.version}"')
    assert answer.status_code == 202
    assert answer.json()["detail"].startswith("It moves 4 GPUs, so it waits")


def test_a_request_that_begins_later_needs_the_second_person_at_its_approval(scene: Scene) -> None:
    """Then it is made when it begins. Planted: the approval is not checked (200, then failed)."""
    bob = an_actor(scene.company.nlp, Role.RESEARCHER, "bob")
    request = asked(bob, begin=NOW + HOUR, until=NOW + 2 * HOUR)
    sources = [{"node": "ai-company/research/vision", "amount_mgpu": 4_000}]
    path = f"requests/{request.pk}/approve"
    body = {"sources": sources}
    answer = by_token(scene.alice.user).post(path, body, If_Match=state_tag(request))
    assert answer.status_code == 202, answer.json()
    assert not PlannedChange.objects.exists()
    assert approve(by_token(scene.anna.user), waiting()).status_code == 200
    planned = PlannedChange.objects.get()
    assert (planned.status, planned.is_decided) == ("scheduled", True)
    carry_out_due(now=NOW + HOUR)
    assert scene.gpus(scene.company.nlp, scene.company.vision) == [12, 4]


def test_one_person_cannot_fill_the_list_of_an_organization(scene: Scene) -> None:
    """Planted: only the bound of the organization (202)."""
    alice = by_token(scene.alice.user)
    for mgpu in range(WAITING_OF_ONE_MAX):
        assert scene.lower(alice, scene.company.vision, mgpu).status_code == 202
    refused = scene.lower(alice, scene.company.vision, WAITING_OF_ONE_MAX)
    assert refused.status_code == 409
    assert refused.json()["detail"].startswith("20 of your changes wait for a second person")
    assert scene.lower(by_token(scene.anna.user), scene.company.vision, 1).status_code == 202


def test_a_write_whose_node_is_gone_by_then_is_a_conflict(scene: Scene) -> None:
    """Between its transaction and that of its request. Planted: the node is looked up by get()."""
    moved = SecondPersonNeeded(
        Write("quota.change", {}),
        Effects(),
        scene.company.organization,
        "ai-company/gone/",
        why="It moves 1 GPU",
        actor=scene.alice,
    )
    with pytest.raises(Conflict, match="The node was moved or deleted meanwhile"):
        ask_for_second_person(moved, now=NOW)
    assert not ChangeRequest.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_writes_at_once_pass_the_limit_once(scene: Scene) -> None:
    """Of teams whose families share no lock. Planted: without the lock of the person (both 200)."""
    scene.rules(moved_mgpu_max=2_000, guards_rules=False)
    company = scene.company
    other = a_pool("a100")
    for node in (company.organization, company.research, company.vision):
        a_quota(node, other, 8)
    quotas = list(Quota.objects.filter(node=company.vision))
    assert len(quotas) == 2

    def lower(quota: Quota) -> int:
        body = {"guaranteed_mgpu": 6_000, "reason": "less"}
        caller = by_token(scene.alice.user)
        answer = caller.patch(f"quotas/{quota.pk}", body, If_Match=f'"v{quota.version}"')
        return int(answer.status_code)

    assert sorted(at_once([partial(lower, quota) for quota in quotas])) == [200, 202]


def test_harmless_settings_need_nobody(scene: Scene) -> None:
    """A description, a price and a time zone stop no job. Planted: every setting counts."""
    alice = by_token(scene.alice.user)
    found = a_priority_class(scene.company.organization)
    edit = {"description": "research", "price_multiplier_ppm": 2_000_000}
    changed = alice.patch(f"priority-classes/{found.pk}", edit, If_Match='"v1"')
    path = f"organizations/{scene.company.organization.pk}/policy"
    zone = alice.patch(path, {"time_zone": "Asia/Kolkata"}, If_Match='"v1"')
    assert (changed.status_code, zone.status_code) == (200, 200)


def stopping() -> tuple[Scene, Callable[[Caller], Any]]:
    """A scene of one stopped job, and the write that stops it."""
    company, _, _ = lent_out()
    scene = Scene(
        company,
        an_actor(company.organization, Role.ORGANIZATION_ADMIN, "alice"),
        an_actor(company.organization, Role.ORGANIZATION_ADMIN, "anna"),
    )
    scene.rules(stopped_jobs_min=1)
    return scene, lambda caller: scene.lower(caller, company.nlp, 4_000)


def test_a_write_that_would_stop_a_running_job_waits_with_its_preview() -> None:
    """The job is named to nobody; its team and lost work are. Planted: the write before and after
    are the same future."""
    scene, write = stopping()
    answer = write(by_token(scene.alice.user))
    assert answer.status_code == 202
    assert answer.json()["detail"].startswith("It would stop 1 running job, so it waits")
    shown = by_token(scene.anna.user).get(f"requests/{answer.json()['request']}").json()
    (stopped,) = shown["write"]["stopped"]
    assert (stopped["team"], stopped["pool"], stopped["jobs"]) == (
        "ai-company/research/vision",
        "h100",
        1,
    )
    assert stopped["at_risk_mgpu_s"] == 4_000 * 3_600
    (quota,) = shown["write"]["quotas"]
    assert (quota["node"], quota["before"]["guaranteed_mgpu"]) == ("ai-company/research/nlp", 0)
    assert shown["title"] == "nlp in h100: 0 to 4"
    assert (shown["can_decide"], shown["write"]["may_override"]) == (True, False)


def test_a_class_that_would_stop_a_running_job_waits() -> None:
    """The waiting job's class may preempt across teams now, up to its cap.

    Planted: rules are compared, and their effect on running jobs is not.
    """
    scene, _ = stopping()
    rush = a_priority_class(scene.company.organization, "rush", order=500)
    Job.objects.filter(name="gains").update(priority_class=rush)
    path, alice = f"priority-classes/{rush.pk}", by_token(scene.alice.user)
    assert alice.patch(path, {"order": 600}, If_Match='"v1"').status_code == 200
    edit = {"preempts_across_teams": True, "team_cap_mgpu": 8_000}
    answer = alice.patch(path, edit, If_Match='"v2"')
    assert answer.status_code == 202
    assert answer.json()["detail"].startswith("It would stop 1 running job")
    (rule,) = waiting().write.effects["rules"]
    assert (rule["rule"], rule["after"]) == ("class rush", edit)


def test_a_write_below_the_number_of_jobs_is_made_at_once() -> None:
    """Planted: any stopped job needs a second person."""
    scene, write = stopping()
    scene.rules(stopped_jobs_min=2)
    assert write(by_token(scene.alice.user)).status_code == 200
    assert scene.gpus(scene.company.nlp) == [4]


# -- decisions ----------------------------------------------------------------------------------


def test_the_same_write_is_one_request(scene: Scene) -> None:
    """Planted: a repeated write asks again."""
    alice = by_token(scene.alice.user)
    first = scene.lower(alice, scene.company.vision).json()["request"]
    assert scene.lower(alice, scene.company.vision).json()["request"] == first
    assert scene.lower(alice, scene.company.vision, 5_000).json()["request"] != first


def test_only_people_with_the_same_right_decide(scene: Scene) -> None:
    """Dora administers the department and mira leads the team: the guarantee is research's.

    Planted: every manager of quotas below may decide.
    """
    dora = an_actor(scene.company.research, Role.DEPARTMENT_ADMIN, "dora")
    mira = an_actor(scene.company.vision, Role.TEAM_LEAD, "mira")
    charlie = an_actor(a_company("other").organization, Role.ORGANIZATION_ADMIN, "charlie")
    scene.lower(by_token(scene.alice.user), scene.company.vision)
    request = waiting()
    assert (request.node, request.role) == (scene.company.research, "")
    assert approve(by_token(mira.user), request).status_code == 404
    assert approve(by_token(charlie.user), request).status_code == 404
    assert by_token(dora.user).get("requests/counts").json()["to_decide"] == 1
    assert approve(by_token(dora.user), request).status_code == 200


def test_accounts_of_programs_never_decide(scene: Scene) -> None:
    """Alice could have made one, with a token. Planted: any account may decide."""
    program = an_actor(scene.company.organization, Role.ORGANIZATION_ADMIN, "program")
    User.objects.filter(pk=program.user.pk).update(kind=UserKind.SERVICE)
    scene.lower(by_token(scene.alice.user), scene.company.vision)
    request = waiting()
    caller = by_token(User.objects.get(pk=program.user.pk))
    assert caller.get("requests/counts").json()["to_decide"] == 0
    assert approve(caller, request).status_code == 403
    assert approve(by_token(scene.anna.user), request).status_code == 200


def test_platform_administrators_decide_about_an_organizations_own_quota(scene: Scene) -> None:
    """Planted: administrators of the organization decide about it."""
    root = an_actor(None, Role.PLATFORM_ADMIN, "root")
    other = an_actor(None, Role.PLATFORM_ADMIN, "other")
    scene.lower(by_token(root.user), scene.company.organization, 40_000)
    request = waiting()
    assert (request.node, request.role) == (scene.company.organization, "platform_admin")
    assert approve(by_token(scene.anna.user), request).status_code == 403
    assert [each.user for each in Notice.objects.filter(subject_kind="request")] == [other.user]
    assert approve(by_token(other.user), request).status_code == 200
    assert scene.gpus(scene.company.organization) == [40]


def test_a_state_that_moved_is_previewed_again_and_shown(scene: Scene) -> None:
    """Planted: an old ETag is enough; the preview stays the first one."""
    anna = by_token(scene.anna.user)
    scene.lower(by_token(scene.alice.user), scene.company.vision)
    request = waiting()
    seen = anna.get(f"requests/{request.pk}").headers["ETag"]
    Quota.objects.filter(node=scene.company.vision).update(guaranteed_mgpu=6_000, version=2)

    refused = approve(anna, request, seen)

    assert refused.status_code == 412
    assert refused.json()["current"]["title"] == "vision in h100: 6 to 4"
    assert refused.json()["current"]["write"]["moved_mgpu"] == 2_000
    assert scene.gpus(scene.company.vision) == [6]
    assert approve(anna, request).status_code == 200
    assert scene.gpus(scene.company.vision) == [4]


def test_a_write_that_became_riskier_needs_a_new_approval() -> None:
    """A job starts between look and approval, and no row of the ETag changes.

    Planted: only the ETag is compared.
    """
    scene, write = stopping()
    scene.rules(stopped_jobs_min=1, moved_mgpu_max=0)
    write(by_token(scene.alice.user))
    request = waiting()
    effects = {**request.write.effects, "stopped_jobs": 0, "stopped": []}
    GuardedWrite.objects.update(effects=effects)
    anna = by_token(scene.anna.user)

    refused = approve(anna, request)

    assert (refused.status_code, refused.json()["current"]["write"]["stopped_jobs"]) == (412, 1)
    assert refused.json()["detail"].startswith("The change became riskier since you looked.")
    assert scene.gpus(scene.company.nlp) == [0]
    assert approve(anna, request).status_code == 200
    assert scene.gpus(scene.company.nlp) == [4]


def test_the_person_who_asked_still_needs_the_right(scene: Scene) -> None:
    """Planted: an approval writes with the rights of the second person."""
    dora = an_actor(scene.company.research, Role.DEPARTMENT_ADMIN, "dora")
    scene.lower(by_token(dora.user), scene.company.vision)
    RoleGrant.objects.filter(user=dora.user).delete()
    refused = approve(by_token(scene.anna.user), waiting())
    assert refused.status_code == 403
    assert scene.gpus(scene.company.vision) == [8]


def test_a_write_is_rejected_withdrawn_or_expires(scene: Scene) -> None:
    """Nothing is written then. Against: a closed request is approved."""
    alice, anna = by_token(scene.alice.user), by_token(scene.anna.user)
    scene.lower(alice, scene.company.vision)
    first = waiting()
    assert anna.post(f"requests/{first.pk}/reject", {"note": "no"}).json()["status"] == "rejected"
    scene.lower(alice, scene.company.vision)
    second = waiting()
    assert alice.send("POST", f"requests/{second.pk}/withdraw").json()["status"] == "withdrawn"
    scene.lower(alice, scene.company.vision)
    third = waiting()
    expire_requests(NOW + timedelta(days=7))
    assert [approve(anna, each).status_code for each in (first, second, third)] == [409] * 3
    assert scene.gpus(scene.company.vision) == [8]


def test_a_platform_administrator_overrides_it_with_a_reason(scene: Scene) -> None:
    """Audited, and the others are told. Planted: without the rule; by another person."""
    root = an_actor(None, Role.PLATFORM_ADMIN, "root")
    caller, alice = by_token(root.user), by_token(scene.alice.user)
    scene.lower(caller, scene.company.vision)
    request = waiting()
    path = f"requests/{request.pk}/override"

    def alone(by: Caller, reason: str = "the cluster burns") -> Any:
        tag = state_tag(ChangeRequest.objects.get(pk=request.pk))
        return by.post(path, {"reason": reason}, If_Match=tag)

    assert alone(caller).status_code == 403
    scene.rules(allows_emergency=True)
    assert caller.get(f"requests/{request.pk}").json()["write"]["may_override"] is True
    assert alone(alice).status_code == 403
    assert alone(caller, " ").status_code == 400
    done = alone(caller).json()
    assert (done["status"], done["is_emergency"], done["note"]) == (
        "approved",
        True,
        "the cluster burns",
    )
    assert scene.gpus(scene.company.vision) == [4]
    event = AuditEvent.objects.get(action="request.overridden")
    assert (event.actor, event.detail["note"]) == (root.user.login, "the cluster burns")
    told = Notice.objects.filter(event="request_decided", user=scene.anna.user)
    assert "without a second person" in told.get().sentence


def test_nobody_asks_for_a_write_directly(scene: Scene) -> None:
    """Planted: the kind `write` is one that people may ask for."""
    body = {"kind": "write", "node": "ai-company", "reason": "x"}
    answer = by_token(scene.alice.user).post("requests", body, Idempotency_Key="x")
    assert answer.status_code == 400


def test_the_database_keeps_guarded_writes(scene: Scene) -> None:
    """Its arguments stay, an own approval is an emergency with a reason, and rules have ranges."""
    scene.lower(by_token(scene.alice.user), scene.company.vision)
    request = waiting()
    rows = ChangeRequest.objects.filter(pk=request.pk)
    own = {"status": "approved", "decided_by": scene.alice.user, "decided_at": NOW}
    rule = SecondPersonPolicy.objects.filter(organization=scene.company.organization)
    write = GuardedWrite.objects.filter(pk=request.pk)
    for name, violate in (
        ("decided once and stay", lambda: write.update(arguments={})),
        ("decided once and stay", lambda: write.delete()),
        ("guarded_write_has_an_operation_and_a_title", lambda: write.update(title="")),
        ("request_is_decided_by_another_person", lambda: rows.update(**own, note="x")),
        ("request_is_decided_by_another_person", lambda: rows.update(**own, is_emergency=True)),
        ("emergency_is_an_approved_write", lambda: rows.update(is_emergency=True)),
        ("second_person_from_one_stopped_job", lambda: rule.update(stopped_jobs_min=0)),
        ("second_person_above_a_number_of_gpus", lambda: rule.update(moved_mgpu_max=-1)),
        (
            "second_person_policy_knows_its_last_change",
            lambda: rule.update(changed_by=scene.alice.user),
        ),
    ):
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            violate()


def test_a_role_request_is_no_write(scene: Scene) -> None:
    """Requests that change no quota are decided as before. Against: each needs a third person."""
    bob = an_actor(scene.company.nlp, Role.RESEARCHER, "bob")
    request = asked(bob, kind=RequestKind.ROLE, pool=None, amount=None, role=Role.TEAM_LEAD)
    answer = approve(by_token(scene.alice.user), request)
    assert (answer.status_code, answer.json()["status"]) == (200, "approved")

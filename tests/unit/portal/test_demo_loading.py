"""`manage.py load_demo`: the worked example, twice, and without its file."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from billing.models import RateLine
from budgets.models import Budget
from builders.budget_builders import GPU_HOUR
from builders.portal_builders import a_user, an_organization
from clusters.models import Cluster, Pool
from portal.demo.loading import new_password
from primitives.clock import SystemClock
from quotas.models import OrganizationPolicy, PriorityClass, Quota, QuotaChange
from tenants.administrators import create_administrator
from tenants.models import AccessToken, Node, RoleGrant, User, UserKind
from tenants.tokens import actor_by_token

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _quick_hashes(settings: Any) -> None:
    """Ten people are hashed in each of these tests; what is tested is not the hash."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def load(state: Path, *more: str) -> str:
    """What the command prints."""
    out = StringIO()
    call_command("load_demo", "--state-dir", str(state), *more, stdout=out)
    return out.getvalue()


def people(state: Path) -> dict[str, dict[str, Any]]:
    """The file's people by login."""
    found = json.loads((state / "demo.json").read_text(encoding="utf-8"))["personas"]
    return {person["login"]: person for person in found}


def counts() -> list[int]:
    rows = (Node, User, RoleGrant, AccessToken, Pool, Cluster, Quota, QuotaChange)
    more = (OrganizationPolicy, PriorityClass, RateLine, Budget)
    return [model._default_manager.count() for model in (*rows, *more)]


def test_the_company_is_there_with_its_gpus(tmp_path: Path) -> None:
    load(tmp_path)

    gpus = {
        quota.node.display_path: (quota.guaranteed_mgpu // 1_000, quota.guaranteed_bp)
        for quota in Quota.objects.select_related("node")
    }
    assert gpus == {
        "ai-company": (1_000, None),
        "ai-company/research": (400, 4_000),
        "ai-company/research/nlp": (200, 5_000),
        "ai-company/research/vision": (120, 3_000),
        "ai-company/research/speech": (80, 2_000),
        "ai-company/production": (400, 4_000),
        "ai-company/production/inference": (280, 7_000),
        "ai-company/production/training": (120, 3_000),
        "ai-company/exploration": (200, 2_000),
        "ai-company/exploration/sandbox": (200, 10_000),
    }
    assert Cluster.objects.get().options == {
        "root": str(tmp_path / "local"),
        "nodes": [{"count": 125, "gpus": 8, "pool": "h100", "prefix": "node-"}],
        "use_real_gpus": False,
    }
    assert OrganizationPolicy.objects.get().rank == [
        "ai-company/production",
        "ai-company/research",
        "ai-company/exploration",
    ]
    classes = PriorityClass.objects.order_by("-order").values_list("name", "grace_period_s")
    assert list(classes) == [("critical", 300), ("high", 300), ("normal", 300), ("low", 60)]
    prices = RateLine.objects.values_list("usage_class", "price_nano", "card__currency")
    assert sorted(prices) == [
        ("borrowed", 1_200_000_000, "EUR"),
        ("guaranteed", 2_000_000_000, "EUR"),
    ]
    assert Node.objects.filter(kind="organization").count() == 1
    budgets = Budget.objects.order_by("name").values_list("name", "measure", "limit", "policy")
    assert list(budgets) == [
        ("Ai-company", "money", 500_000 * 10**9, "notify"),
        ("Exploration", "gpu_hours", 40 * GPU_HOUR, "notify"),
        ("Production", "gpu_hours", 100_000 * GPU_HOUR, "notify"),
        ("Research", "gpu_hours", 100_000 * GPU_HOUR, "notify"),
    ]


def test_everybody_can_sign_in_and_use_the_token(tmp_path: Path) -> None:
    printed = load(tmp_path, "--base-url", "http://127.0.0.1:8123/")

    found = people(tmp_path)
    assert {login: (one["persona"], one["node"]) for login, one in found.items()} == {
        "admin": ("platform admin", None),
        "olga@ai-company": ("organization admin", "ai-company"),
        "dora@ai-company": ("department admin of research", "ai-company/research"),
        "leo@ai-company": ("team lead of nlp", "ai-company/research/nlp"),
        "ana@ai-company": ("researcher in nlp", "ai-company/research/nlp"),
        "vera@ai-company": ("researcher in vision", "ai-company/research/vision"),
        "ivan@ai-company": ("researcher in inference", "ai-company/production/inference"),
        "sam@ai-company": ("researcher in sandbox", "ai-company/exploration/sandbox"),
        "fiona@ai-company": ("finance", "ai-company"),
        "ada@ai-company": ("auditor", "ai-company"),
    }
    now = SystemClock().now()
    for login, one in found.items():
        user = User.objects.get(login=login)
        assert user.check_password(one["password"])
        assert actor_by_token(one["token"], now=now).user.pk == user.pk
        (grant,) = user.grants.all()
        assert grant.role.replace("_", " ") == re.split(" (?:in|of) ", one["persona"])[0]
        assert (grant.node.display_path if grant.node else None) == one["node"]
    file = tmp_path / "demo.json"
    assert printed == f"Logins, passwords and tokens of 10 people are in {file}.\n"
    assert json.loads(file.read_text())["address"] == "http://127.0.0.1:8123"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_second_run_keeps_everything(tmp_path: Path) -> None:
    load(tmp_path)
    before, found = counts(), people(tmp_path)
    Quota.objects.filter(node__slug="speech").update(guaranteed_bp=None, guaranteed_mgpu=10_000)

    printed = load(tmp_path)

    assert counts() == before
    assert people(tmp_path) == found
    assert Quota.objects.get(node__slug="speech").guaranteed_mgpu == 10_000
    assert "new passwords" not in printed
    assert found["ana@ai-company"]["password"] not in printed


def test_without_its_file_a_second_run_gives_new_secrets_and_says_so(tmp_path: Path) -> None:
    load(tmp_path)
    before, found = counts(), people(tmp_path)
    (tmp_path / "demo.json").unlink()

    printed = load(tmp_path)

    fresh = people(tmp_path)
    assert "new passwords or tokens for: admin, olga@ai-company, dora@ai-company" in printed
    now = SystemClock().now()
    for login, one in fresh.items():
        assert one["password"] != found[login]["password"]
        user = User.objects.get(login=login)
        assert user.check_password(one["password"])
        assert actor_by_token(one["token"], now=now).user.pk == user.pk
        # The old token is nobody's any more.
        assert user.tokens.filter(revoked_at=None).count() == 1
    after = counts()
    assert (after[3], after[:3], after[4:]) == (before[3] * 2, before[:3], before[4:])


@pytest.mark.parametrize("text", ["", "{", "[]", '{"personas": [{"login": 1}]}', "\x00"])
def test_a_broken_file_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    load(tmp_path)
    (tmp_path / "demo.json").write_text(text)

    assert "new passwords or tokens for: admin" in load(tmp_path)

    assert len(people(tmp_path)) == 10


def test_a_revoked_token_is_replaced_and_the_password_kept(tmp_path: Path) -> None:
    load(tmp_path)
    found = people(tmp_path)
    AccessToken.objects.filter(user__username="ana").update(revoked_at=SystemClock().now())

    printed = load(tmp_path)

    fresh = people(tmp_path)
    changed = [login for login in found if fresh[login] != found[login]]
    assert changed == ["ana@ai-company"]
    assert fresh["ana@ai-company"]["password"] == found["ana@ai-company"]["password"]
    assert "new passwords or tokens for: ana@ai-company." in printed


def test_who_was_deactivated_stays_so_and_is_left_out(tmp_path: Path) -> None:
    load(tmp_path)
    User.objects.filter(username__in=["ana", "admin"]).update(is_active=False)

    load(tmp_path)

    assert len(people(tmp_path)) == 8
    assert not User.objects.get(username="ana").is_active


def test_a_moved_folder_is_followed(tmp_path: Path) -> None:
    load(tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")

    load(tmp_path / "new")

    assert Cluster.objects.get().options["root"] == str(tmp_path / "new" / "local")
    assert Cluster.objects.get().options["nodes"][0]["count"] == 125


def test_what_is_in_the_way_is_named_and_nothing_is_loaded(tmp_path: Path) -> None:
    Cluster.objects.create(name="local", kind="local")

    with pytest.raises(CommandError, match="There is a cluster 'local' already"):
        load(tmp_path)

    assert not Node.objects.exists()
    assert not (tmp_path / "demo.json").exists()


def test_other_organizations_are_left_alone(tmp_path: Path) -> None:
    an_organization("other")

    load(tmp_path)

    assert Node.objects.get(slug="other").name == "other"


def test_where_a_real_person_works_nothing_is_loaded(tmp_path: Path) -> None:
    a_user(an_organization("other"), "maria")

    with pytest.raises(CommandError, match="has 1 person who does not belong to the demo"):
        load(tmp_path)

    assert list(User.objects.values_list("login", flat=True)) == ["maria@other"]
    assert not Cluster.objects.exists()
    assert not (tmp_path / "demo.json").exists()


def test_an_administrator_with_the_demos_login_is_real(tmp_path: Path) -> None:
    """Planted bug: everybody with a login of the demo counted as of the demo, so the real
    administrator `admin` got a password that stands in a file."""
    admin = create_administrator(
        username="admin", name="Maria", password="a-long-password", now=SystemClock().now()
    )

    with pytest.raises(CommandError, match="so the demo is not loaded"):
        load(tmp_path)

    admin.refresh_from_db()
    assert admin.check_password("a-long-password")
    assert not admin.tokens.exists()


def test_a_real_person_in_the_demo_company_stops_new_secrets(tmp_path: Path) -> None:
    load(tmp_path)
    (tmp_path / "demo.json").unlink()
    a_user(Node.objects.get(slug="ai-company"), "maria")
    a_user(Node.objects.get(slug="ai-company"), "mario")
    before = counts()

    with pytest.raises(CommandError, match="has 2 people who do not belong to the demo"):
        load(tmp_path)

    assert counts() == before
    assert not (tmp_path / "demo.json").exists()


def test_a_start_goes_on_where_real_people_work(tmp_path: Path) -> None:
    a_user(an_organization("other"), "maria")

    assert load(tmp_path, "--unless-people") == (
        "This installation has 1 person who does not belong to the demo, so the demo is not "
        "loaded. Load it into an installation of its own.\n"
    )

    assert User.objects.count() == 1


def test_service_accounts_are_nobody(tmp_path: Path) -> None:
    robot = a_user(an_organization("other"), "robot")
    robot.kind = UserKind.SERVICE
    robot.save()

    load(tmp_path)

    assert len(people(tmp_path)) == 10


def test_a_password_can_be_read_out() -> None:
    assert re.fullmatch(r"([a-hjkmnp-z2-9]{5}-){3}[a-hjkmnp-z2-9]{5}", new_password())
    assert new_password() != new_password()

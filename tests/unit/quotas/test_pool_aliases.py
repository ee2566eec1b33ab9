"""Other names of a pool: who sets them, and how jobs ask for the pool by them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import IntegrityError, transaction

from builders.api_callers import Caller, by_token
from builders.job_builders import a_body
from builders.portal_builders import Company, a_company, a_grant, a_pool, a_quota, a_user, an_actor
from clusters.models import PoolAlias
from tenants.models import User
from tenants.roles import Role

pytestmark = pytest.mark.django_db


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def bob(company: Company) -> User:
    user = a_user(company.organization, "bob")
    a_grant(user, Role.RESEARCHER, company.nlp)
    return user


@pytest.fixture
def admin() -> Caller:
    return by_token(an_actor(None, Role.PLATFORM_ADMIN).user)


def set_aliases(admin: Caller, company: Company, *names: str) -> Any:
    return admin.patch(f"pools/{company.pool.pk}", {"aliases": list(names)})


def test_an_administrator_sets_them(company: Company, admin: Caller, bob: User) -> None:
    """Against: earlier ones kept; case kept; anybody may set them."""
    first = set_aliases(admin, company, "NVIDIA_H100_80GB_HBM3", "h100-sxm", "H100_SXM")
    assert (first.status_code, first.json()["aliases"]) == (
        200,
        ["h100-sxm", "nvidia-h100-80gb-hbm3"],
    )
    assert set_aliases(admin, company, "h100-sxm5").json()["aliases"] == ["h100-sxm5"]
    assert by_token(bob).get(f"pools/{company.pool.pk}").json()["aliases"] == ["h100-sxm5"]
    assert set_aliases(by_token(bob), company, "mine").status_code == 403
    assert admin.patch(f"pools/{company.pool.pk}", {"weight": 7}).json()["aliases"] == ["h100-sxm5"]
    made = admin.post("pools", {"name": "a100", "aliases": ["NVIDIA-A100"]})
    assert (made.status_code, made.json()["aliases"]) == (201, ["nvidia-a100"])
    assert admin.delete(f"pools/{made.json()['id']}").status_code == 204


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("a100_sxm", 409, "a100-sxm is an alias of pool a100 already. Remove it there first."),
        ("A100", 409, "a100 is the name of a pool, so it cannot be an alias."),
        ("h100:8", 400, "'h100:8' is no name of a GPU type"),
        ("GPU", 400, "'gpu' means devices of any type: choose another name"),
        ("cpu", 400, "'cpu' means devices of any type: choose another name"),
    ],
)
def test_an_alias_is_one_pools(
    company: Company, admin: Caller, name: str, status: int, told: str
) -> None:
    PoolAlias.objects.create(folded="a100-sxm", pool=a_pool("a100"))
    refused = set_aliases(admin, company, "h100-sxm", name)
    assert refused.status_code == status
    assert told in refused.json()["detail"]
    assert list(company.pool.aliases.all()) == []
    taken = admin.post("pools", {"name": "a100-sxm"})
    assert taken.status_code == 409


def test_the_database_keeps_an_alias_with_one_pool(company: Company) -> None:
    """Against: an alias for each pool."""
    PoolAlias.objects.create(folded="h100-sxm", pool=company.pool)
    for folded, rule in (("h100-sxm", "clusters_poolalias_pkey"), ("H100", "is_folded")):
        with pytest.raises(IntegrityError, match=rule), transaction.atomic():
            PoolAlias.objects.create(folded=folded, pool=a_pool("a100"))


@pytest.mark.parametrize(
    "changes",
    [
        {"pool": "h100_sxm"},
        {"pool": "H100-SXM"},
        {"pool": "H100"},
        {"pools": ["h100-sxm", "h100"]},
        {"gpus": ..., "script": ..., "sbatch": "#SBATCH --gres=gpu:H100_sxm:2\ntrue\n"},
        {"gpus": ..., "script": ..., "sbatch": "#SBATCH -p h100-sxm\n#SBATCH --gpus=2\ntrue\n"},
    ],
)
def test_a_job_finds_its_pool_by_another_name(
    company: Company, admin: Caller, bob: User, changes: dict[str, Any]
) -> None:
    """Against: only names of pools; only in `#SBATCH` lines; case counted."""
    other = a_pool("a100")
    a_quota(company.organization, other, 8)
    set_aliases(admin, company, "h100-sxm")
    answer = by_token(bob).post("jobs", a_body(**changes))
    assert answer.status_code == 201, answer.content
    assert (answer.json()["pool"], answer.json()["pools"]) == ("h100", ["h100"])


def test_an_unknown_type_is_refused_by_name(company: Company, admin: Caller, bob: User) -> None:
    set_aliases(admin, company, "h100-sxm")
    body = a_body(gpus=..., script=..., sbatch="#SBATCH --gres=gpu:k80:2\ntrue\n")
    refused = by_token(bob).post("jobs", body)
    assert refused.status_code == 400
    assert "there is no GPU of type 'k80' for you; you have h100" in refused.json()["detail"]

"""Names on a Slurm cluster: tags that only we can give, accounts that no two teams share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import WorkloadRejected
from connectors.slurm.naming import (
    ReservedAccount,
    account_name,
    guaranteed_qos,
    key_of,
    tag,
    team_path,
)

SECRET = b"a secret of the test"
KEY = "tg-0193c3a8-7b1e-7c3f-9e55-1f2d3c4b5a69"


def test_a_tag_is_its_key_s_and_its_user_s_alone() -> None:
    name = tag(SECRET, KEY, "ana")
    assert len(name) == len(KEY) + 13
    assert key_of(SECRET, name, "ana") == KEY
    assert key_of(SECRET, name, "leo") is None
    assert key_of(b"another secret, also long", name, "ana") is None


@pytest.mark.parametrize(
    "name",
    ["", "-", KEY, f"{KEY}-", f"{KEY}-000000000000", f"{KEY}-ä", "x" * 300, "a\n-b", "A-0", "٣-٣"],
)
def test_what_is_no_tag(name: str) -> None:
    assert key_of(SECRET, name, "ana") is None


def test_a_tag_with_anything_more_is_none() -> None:
    name = tag(SECRET, KEY, "ana")
    assert [key_of(SECRET, other, "ana") for other in (name + "\n", " " + name, name.upper())] == [
        None
    ] * 3


def test_accounts() -> None:
    assert account_name("ai-company/research/nlp") == "ai-company_research_nlp"
    assert account_name("a/b", "tg-") == "tg-a_b"
    assert guaranteed_qos("a_b", "g-") == "g-a_b"


@pytest.mark.parametrize(
    "path", ["", "/", "a/", "/a", "a//b", "a_b", "A", "a b", "a\n", "..", "ä", "a" * 201]
)
def test_what_is_no_path_has_no_account(path: str) -> None:
    with pytest.raises(WorkloadRejected):
        account_name(path)


@pytest.mark.parametrize(
    ("path", "prefix"),
    [("root", ""), ("root/nlp", ""), ("ot/nlp", "Ro"), ("tidegate-detour", "")],
)
def test_slurm_s_own_accounts_are_nobody_s(path: str, prefix: str) -> None:
    """Planted: "root" compared as a whole, so that "root/nlp" went below Slurm's own account."""
    with pytest.raises(ReservedAccount, match="account_prefix gives it another name"):
        account_name(path, prefix)
    assert team_path(prefix + path.replace("/", "_"), prefix) is None


@given(path=st.from_regex(r"[a-z0-9][a-z0-9-]{0,8}(/[a-z0-9][a-z0-9-]{0,8}){0,9}", fullmatch=True))
def test_every_account_leads_back_to_its_team(path: str) -> None:
    """Planted: leaving the prefix on, and taking "-" for a step as well."""
    for prefix in ("", "tg-", "tg_"):
        assert team_path(account_name(path, prefix), prefix) == path


@pytest.mark.parametrize(
    "account",
    ["", "_", "a_", "_a", "a__b", "a/b", "A", "a b", "a\n", "..", "ä", "root\0", "a" * 201],
)
def test_what_is_no_account_of_a_team(account: str) -> None:
    assert team_path(account) is None


def test_an_account_without_the_prefix_is_nobodys() -> None:
    assert team_path("a_b", "tg-") is None
    assert team_path("tg-a_b", "tg-") == "a/b"

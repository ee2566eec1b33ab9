"""Slurm's short form of host names."""

import pytest

from primitives.hostlist import MAX_HOSTS, contract, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("g01", ("g01",)),
        ("g[01-03,07]", ("g01", "g02", "g03", "g07")),
        ("a[8-10]", ("a8", "a9", "a10")),
        ("a[08-10]", ("a08", "a09", "a10")),
        ("login1,g[1-2]-ib,h3", ("login1", "g1-ib", "g2-ib", "h3")),
        ("r[1-2]n[01-02]", ("r1n01", "r1n02", "r2n01", "r2n02")),
        ("[1-2]", ("1", "2")),
        ("g[001]", ("g001",)),
    ],
)
def test_names_are_expanded_in_slurms_order(text: str, names: tuple[str, ...]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    "text",
    ["g[1", "g1]", "g[[1]]", "g[]", "g[a-b]", "g[3-1]", "a,,b", ",a", "g[1-]", "g[-1]", "g[1-2-3]"],
)
def test_text_that_is_no_host_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host list"):
        expand(text)


def test_the_bound_holds_before_the_names_are_made() -> None:
    assert len(expand(f"n[1-{MAX_HOSTS}]")) == MAX_HOSTS
    for text in (
        f"n[1-{MAX_HOSTS + 1}]",
        "n[0-999999999999999999]",
        "n[0-99999]x[0-99999]",
        f"n[1-{MAX_HOSTS}],m",
    ):
        with pytest.raises(ValueError, match="too many names"):
            expand(text)
    with pytest.raises(ValueError, match="too long"):
        expand("a" * 1_000_001)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ((), ""),
        (("g01",), "g01"),
        (("g01", "g02", "g04"), "g[01-02,04]"),
        (("g9", "g10"), "g[9-10]"),
        (("g09", "g10", "login", "g11"), "g[09-10],login,g11"),
        (("g1", "g02", "g3"), "g[1,02,3]"),
        (("g2", "g1"), "g[2,1]"),
        (("a-gpu0-x", "a-gpu1-x"), "a-gpu[0-1]-x"),
        (("0", "1", "7"), "[0-1,7]"),
    ],
)
def test_names_are_contracted_in_their_order(names: tuple[str, ...], text: str) -> None:
    """Planted: a run over a change of width, so that g02 came back as g2."""
    assert contract(names) == text
    assert expand(text) == names

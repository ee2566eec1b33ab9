"""The JSON Schemas of the kinds' options, against options that the kinds accept or refuse."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from builders.kubernetes_builders import kubernetes_options
from connectors.options import OptionsRefused, pointer
from connectors.registry import KINDS, kind_named

SLURM: dict[str, Any] = {
    "url": "http://slurm.example:6820",
    "service_user": "tidegate",
    "token_socket": "/run/minter",
    "tag_secret_file": "/etc/secret",
    "container_mounts": ["/data"],
    "settle_s": 30,
    "pools": {
        "h100": {"partition": "gpu", "gres_type": "h100"},
        "cpu": {"partition": "cpu", "device": "cpu", "memory_mb_per_core": 100},
    },
}
KUBERNETES = kubernetes_options(
    features={"ib": "x=1"},
    allowed_registries=["docker.io/pytorch"],
    pool={"tolerations": [{"key": "gpu", "operator": "Exists"}], "image": "pytorch/pytorch"},
)
LOCAL: dict[str, Any] = {
    "root": "/var/lib/local",
    "nodes": [{"count": 2}, {"cores": 64, "pool": "cpu", "prefix": "c-"}],
    "limits": {"processes": 100},
    "use_real_gpus": False,
}


def problems(kind: str, options: dict[str, Any]) -> list[str]:
    """Return what the schema says against the options, by JSON pointer."""
    found = Draft202012Validator(kind_named(kind).options_schema).iter_errors(options)
    return sorted(pointer(tuple(error.absolute_path)) for error in found)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(kind_named(name).options_schema)


@pytest.mark.parametrize(
    ("kind", "options"), [("slurm", SLURM), ("kubernetes", KUBERNETES), ("local", LOCAL)]
)
def test_what_a_kind_accepts_fits_its_schema(kind: str, options: dict[str, Any]) -> None:
    """Planted: a list described as a text."""
    kind_named(kind).check_options(options)
    assert problems(kind, options) == []


@pytest.mark.parametrize(
    ("kind", "options", "pointers"),
    [
        ("slurm", {**SLURM, "settle_s": "7", "url": 1}, ["/settle_s", "/url"]),
        ("slurm", {**SLURM, "pools": {}}, ["/pools"]),
        ("slurm", {**SLURM, "container_mounts": ["/data", 1]}, ["/container_mounts/1"]),
        ("kubernetes", {**KUBERNETES, "scheduler": "slurm"}, ["/scheduler"]),
        ("kubernetes", {**KUBERNETES, "pools": {"a/b": {"x": 1}}}, ["/pools/a~1b"]),
        ("local", {**LOCAL, "nodes": [{"count": 0}, {}]}, ["/nodes/0/count"]),
        ("local", {**LOCAL, "limits": {"processes": 1}}, ["/limits/processes"]),
        ("local", {**LOCAL, "path": {"a": 1}}, ["/path"]),
        (
            "local",
            {**LOCAL, "nodes": [{"pool": 5, "prefix": ["a"]}]},
            ["/nodes/0/pool", "/nodes/0/prefix"],
        ),
        ("local", {**LOCAL, "run_as": {"ana@acme": {"a": 1}}}, ["/run_as/ana@acme"]),
    ],
)
def test_a_refusal_names_the_options_that_the_schema_names(
    kind: str, options: dict[str, Any], pointers: list[str]
) -> None:
    """Planted: the index of a list left out of the path; whatever is given for a text of a local
    cluster taken as one."""
    with pytest.raises(OptionsRefused) as refused:
        kind_named(kind).check_options(options)
    assert sorted(pointer(path) for path, _ in refused.value.problems) == pointers
    assert problems(kind, options) == pointers


@pytest.mark.parametrize(("kind", "options"), [("slurm", SLURM), ("kubernetes", KUBERNETES)])
def test_the_default_device_may_be_given(kind: str, options: dict[str, Any]) -> None:
    """Planted: null refused, which the schema allows."""
    given = {**options, "pools": {"h100": {**options["pools"]["h100"], "device": None}}}
    kind_named(kind).check_options(given)
    assert problems(kind, given) == []


def test_the_operators_options_are_in_no_form() -> None:
    """Planted: all options in the schema."""
    shown = kind_named("local").options_schema["properties"]
    assert {"hidden", "uids"}.isdisjoint(shown)
    kind_named("local").check_options({**LOCAL, "hidden": ["/x"], "uids": [2000, 3000]})


def test_defaults_are_accepted() -> None:
    """Planted: a default that the check refuses."""
    for name, options in (("slurm", SLURM), ("kubernetes", KUBERNETES), ("local", LOCAL)):
        kind = kind_named(name)
        defaults = {
            option: schema["default"]
            for option, schema in kind.options_schema["properties"].items()
            if "default" in schema
        }
        kind.check_options({**defaults, **options})


def test_words_follow_scheduler_and_mode() -> None:
    """Planted: Kueue's mode told of every scheduler."""
    words = kind_named("kubernetes").words
    assert words({}).variant == "Kueue, arbiter mode"
    assert words({"mode": "shared"}).variant == "Kueue, shared mode"
    assert "also while this portal is away" in words({"mode": "shared"}).limits
    other = words({"scheduler": "kai", "mode": "shared"})
    assert (other.variant, other.account) == ("KAI", "Namespace")
    assert other.limits == "Each team has a namespace there. The cluster itself enforces no quotas."
    assert other.subjects["cluster queue"] == "ClusterQueue"
    assert kind_named("slurm").words({}).account == "Account"

"""Options of a Slurm cluster: what is taken, and the sentence for what is not."""

from pathlib import Path
from typing import Any

import pytest

from connectors.errors import LogUnavailable
from connectors.registry import open_connector
from connectors.slurm.connector import check_slurm_options, open_slurm_logs
from connectors.slurm.options import SlurmPool, parse_options

KEY = "tg-0190a000-0000-7000-8000-000000000001"
GOOD: dict[str, Any] = {
    "url": "http://slurm.example:6820/",
    "service_user": "tidegate",
    "token_socket": "/run/tidegate/minter",
    "tag_secret": "0123456789abcdef",
    "pools": {"h100": {"partition": "gpu", "gres_type": "h100"}},
}


def test_defaults() -> None:
    options = parse_options(GOOD)
    assert options.url == "http://slurm.example:6820"
    assert options.pools == {"h100": SlurmPool("gpu", "h100", None)}
    assert (options.settle_s, options.api_version, options.output_root) == (7, None, None)
    assert (options.account_prefix, options.qos_prefix) == ("", "g-")
    assert options.borrow_qos == "tg-borrow"
    assert (options.cpus_per_gpu, options.memory_mb_per_gpu) == (None, None)
    assert (options.runs_images, options.container_mounts) == (False, ())
    assert options.output_directory("ana") == "/home/ana"


def test_everything_can_be_chosen() -> None:
    options = parse_options(
        {
            **GOOD,
            "api_version": "v0.0.38",
            "output_root": "/shared/{user}/tidegate/",
            "settle_s": 0,
            "cpus_per_gpu": 16,
            "memory_mb_per_gpu": 120_000,
            "containers": "pyxis",
            "container_mounts": ["/data", "/scratch/{user}"],
            "pools": {
                "h100": {"partition": "gpu", "gres_type": "h100", "constraint": "ib&h100"},
                "a100": {"partition": "gpu", "gres_type": "a100"},
            },
        }
    )
    assert (options.api_version, options.settle_s) == ("v0.0.38", 0)
    assert options.pools["h100"].constraint == "ib&h100"
    assert options.output_directory("ana") == "/shared/ana/tidegate"
    assert (options.cpus_per_gpu, options.memory_mb_per_gpu) == (16, 120_000)
    assert (options.runs_images, options.container_mounts) == (True, ("/data", "/scratch/{user}"))


def test_the_secret_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef\n")
    told = {key: value for key, value in GOOD.items() if key != "tag_secret"}
    assert parse_options({**told, "tag_secret_file": str(path)}).tag_secret == b"0123456789abcdef"
    with pytest.raises(ValueError, match="cannot be read"):
        parse_options({**told, "tag_secret_file": f"{path}x"})
    with pytest.raises(ValueError, match="either"):
        parse_options(told)
    with pytest.raises(ValueError, match="either"):
        parse_options({**GOOD, "tag_secret_file": str(path)})


@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("ulr", "x", "unknown options"),
        ("url", "slurm:6820", "url"),
        ("url", "ftp://slurm", "url"),
        ("url", "http://me:secret@slurm", "url"),
        ("url", "http://slurm:99999", "url"),
        ("url", "http://slurm/?a=b", "url"),
        ("url", None, "url"),
        ("service_user", "a b", "service_user"),
        ("service_user", "a\n", "service_user"),
        ("service_user", "-a", "service_user"),
        ("service_user", "ä", "service_user"),
        ("token_socket", "minter", "absolute"),
        ("token_socket", "/run/{user}", "braces"),
        ("output_root", "/shared/../etc", r"\.\."),
        ("output_root", "/shared/{team}", "braces"),
        ("output_root", "/a b", "absolute"),
        ("working_directory", "home", "absolute"),
        ("settle_s", -1, "settle_s"),
        ("settle_s", True, "settle_s"),
        ("settle_s", "7", "settle_s"),
        ("api_version", "v0.0.39", "api_version"),
        ("api_version", 38, "api_version"),
        ("qos_prefix", "a b", "qos_prefix"),
        ("borrow_qos", "", "borrow_qos"),
        ("borrow_qos", "Normal", "everybody's jobs have that QoS"),
        ("borrow_qos", "g-acme_nlp", "of what team acme/nlp is guaranteed"),
        ("cpus_per_gpu", 0, "cpus_per_gpu"),
        ("memory_mb_per_gpu", 1.5, "memory_mb_per_gpu"),
        ("log_cap_bytes", -1, "log_cap_bytes"),
        ("path", "/bin;rm", "path"),
        ("containers", "enroot", "containers"),
        ("containers", True, "containers"),
        ("container_mounts", "/data", "container_mounts"),
        ("container_mounts", ["data"], "container_mounts"),
        ("container_mounts", ["/a:/b"], "container_mounts"),
        ("container_mounts", ["/a,/b"], "container_mounts"),
        ("container_mounts", ["/data"] * 21, "at most 20"),
        ("tag_secret", "short", "16"),
        ("tag_secret", 7, "tag_secret"),
        ("pools", {}, "pools"),
        ("pools", {"a b": {"partition": "p", "gres_type": "g"}}, "pool"),
        ("pools", {"h100": {"partition": "p"}}, "gres_type"),
        ("pools", {"c": {"device": "cpu"}}, "pools.c.partition"),
        ("pools", {"c": {"partition": "p", "device": "gpu"}}, "no device but a gres_type"),
        ("pools", {"c": {"partition": "p", "device": "cpu", "gres_type": "g"}}, "nothing else"),
        (
            "pools",
            {"c": {"partition": "p", "device": "cpu", "memory_mb_per_core": 0}},
            "memory_mb_per_core",
        ),
        (
            "pools",
            {name: {"partition": name, "device": "cpu"} for name in ("a", "b")},
            "two pools are of CPU cores",
        ),
        ("pools", {"h100": {"partition": "p", "gres_type": "g", "qos": "x"}}, "nothing else"),
        ("pools", {"h": {"partition": "p", "gres_type": "g", "constraint": "a;b"}}, "constraint"),
        (
            "pools",
            {name: {"partition": name, "gres_type": "h100"} for name in ("a", "b")},
            "same gres_type",
        ),
    ],
)
def test_bad_options_are_named(name: str, value: object, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        parse_options({**GOOD, name: value})


def test_opening_speaks_to_nobody() -> None:
    connector = open_connector("slurm", GOOD, "one")
    assert (connector.submits_held, connector.settle_s) == (True, 7)


def test_who_signs_nothing_needs_no_secret(tmp_path: Path) -> None:
    """Planted: the file read in any case."""
    options = {**GOOD, "tag_secret_file": str(tmp_path / "not-there")}
    options.pop("tag_secret", None)
    check_slurm_options(options)
    with pytest.raises(ValueError, match="tag_secret_file cannot be read"):
        open_connector("slurm", options, "one")
    reader = open_slurm_logs({**options, "output_root": None})
    with pytest.raises(LogUnavailable, match="are not available here"):
        reader.read_log(KEY, rank=0, stream="stdout", offset=0, limit=16)
    with pytest.raises(ValueError, match="either option tag_secret or"):
        check_slurm_options({**options, "tag_secret": "x" * 32})

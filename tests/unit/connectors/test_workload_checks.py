from dataclasses import replace
from typing import Any

import pytest

from builders.connector_builders import a_workload
from connectors.errors import WorkloadRejected
from connectors.workload_checks import check_workload, is_key


def test_what_is_allowed_passes() -> None:
    environment = {"A": "b\nc", "_": "", "SLURM": "x", "LDX": "x", "ENVIRONMENT": "x", "a1": "ü"}
    check_workload(a_workload("", key="a-0", environment=environment, time_limit_s=1, grace_s=0))


@pytest.mark.parametrize("key", ["a", "0", "-", "a-b-9", "z" * 64])
def test_keys(key: str) -> None:
    assert is_key(key) is True


@pytest.mark.parametrize("key", ["", "A", "a\n", "a_b", "a.b", "é", "９", "z" * 65])
def test_what_is_no_key(key: str) -> None:
    assert is_key(key) is False


def test_sizes_are_counted_in_bytes() -> None:
    check_workload(a_workload("é" * (1 << 19)))
    with pytest.raises(WorkloadRejected, match="1048576 bytes"):
        check_workload(a_workload("é" * (1 << 19) + "x"))


def test_a_refusal_says_what_to_do() -> None:
    with pytest.raises(WorkloadRejected) as refusal:
        check_workload(a_workload(environment={"MASTER_PORT": "1"}))
    assert str(refusal.value) == (
        "MASTER_PORT is set by the cluster; remove it from the environment"
    )


def test_features_and_an_image_pass() -> None:
    names = tuple(f"a.b_c-{number}" for number in range(16))
    check_workload(replace(a_workload(), features=names, image="x" * 512))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"features": ("a",) * 17}, "more than 16 features"),
        ({"features": ("a|b",)}, "'a|b' is no feature of a node"),
        ({"features": ("a\n",)}, "is no feature of a node"),
        ({"features": ("",)}, "is no feature of a node"),
        ({"image": ""}, "an image is 1 to 512 printable ASCII characters without spaces"),
        ({"image": "a\n"}, "an image is"),
        ({"image": "a b"}, "an image is"),
        ({"image": "x" * 513}, "an image is"),
    ],
)
def test_features_and_images_that_are_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(WorkloadRejected, match=told.replace("|", r"\|")):
        check_workload(replace(a_workload(), **changes))

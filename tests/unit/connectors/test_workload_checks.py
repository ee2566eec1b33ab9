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

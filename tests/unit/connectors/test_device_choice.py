from hypothesis import given
from hypothesis import strategies as st

from connectors.local.allocations import choose_devices
from connectors.local.attempt_spec import Slot

NODE = "node-001"
# Small, so that full nodes and full devices are the rule.
asked_mgpu = st.lists(st.sampled_from([0, 100, 250, 500, 750, 1000, 2000, 3000, 4000]), max_size=12)


@given(asked_mgpu, st.integers(0, 4))
def test_no_device_is_ever_used_for_more_than_it_is(asked: list[int], gpus: int) -> None:
    """Mutants killed: a share looked for the emptiest device but did not check that it fits;
    whole GPUs were taken from devices that had shares on them."""
    used: dict[tuple[str, int], int] = {}
    for mgpu in asked:
        devices = choose_devices(Slot(NODE, mgpu, gpus), used)
        if devices is None:
            continue
        assert len(set(devices)) == len(devices) == (mgpu // 1000 or min(mgpu, 1))
        for index in devices:
            used[NODE, index] = used.get((NODE, index), 0) + min(mgpu, 1000)
    assert all(0 <= index < gpus and mgpu <= 1000 for (_, index), mgpu in used.items())


@given(asked_mgpu, st.integers(0, 4))
def test_it_waits_only_when_there_is_no_room(asked: list[int], gpus: int) -> None:
    """Mutant killed: shares opened a new device each; whole GPUs waited with devices unused."""
    used: dict[tuple[str, int], int] = {}
    for mgpu in asked:
        free = [1000 - used.get((NODE, index), 0) for index in range(gpus)]
        devices = choose_devices(Slot(NODE, mgpu, gpus), used)
        if mgpu >= 1000:
            assert (devices is None) == (free.count(1000) < mgpu // 1000)
        elif mgpu > 0:
            assert (devices is None) == (max(free, default=0) < mgpu)
        for index in devices or ():
            if mgpu < 1000 and any(mgpu <= room < 1000 for room in free):
                assert free[index] < 1000
            used[NODE, index] = used.get((NODE, index), 0) + min(mgpu, 1000)

"""What we let go and somebody else holds is theirs.

Planted and seen to die: a hold right after the release taken for somebody else's (a controller
that crashes forgets the release); the time forgotten while it is listed; any hold released.
"""

from __future__ import annotations

from typing import Any

from builders.slurm_rest_builders import PlainTokens, ScriptedCluster, a_client, an_answer
from connectors.protocol import Observation
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.naming import tag
from connectors.slurm.options import parse_options

SECRET = "0123456789abcdef0123456789abcdef"
OPTIONS: dict[str, Any] = {
    "url": "http://slurm.test",
    "service_user": "tidegate",
    "token_socket": "/run/tidegate/minter",
    "tag_secret": SECRET,
    "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
    "settle_s": 0,
}
KEY = "tg-0190a000-0000-7000-8000-000000000001"


def a_row(*, held: bool, reason: str = "JobHeldUser") -> dict[str, Any]:
    return {
        "job_id": 7,
        "name": tag(SECRET.encode(), KEY, "ana"),
        "user_name": "ana",
        "job_state": "PENDING",
        "state_reason": reason if held else "Resources",
        "priority": 0 if held else 10,
        "submit_time": 5,
        "nodes": "",
        "tres_req_str": "gres/gpu:h100=1",
    }


class Queue:
    """A connector on a queue of one job that is listed again and again."""

    def __init__(self) -> None:
        self.row = a_row(held=True)
        self.cluster = (
            ScriptedCluster("v0.0.38")
            .on("GET", "/slurm/v0.0.38/jobs", lambda _: self._answer())
            .on("GET", "/job/7", lambda _: self._answer())
            .on("POST", "/job/7", an_answer({"errors": []}))
        )
        self.connector = SlurmConnector(parse_options(OPTIONS), PlainTokens())
        self.connector._rest = a_client(self.cluster)

    def _answer(self) -> Any:
        return an_answer({"jobs": [self.row], "errors": []})

    def look(self, after_s: int, *, held: bool, reason: str = "JobHeldUser") -> Observation:
        self.row = a_row(held=held, reason=reason)
        self.cluster.now += after_s
        return self.connector.observe().observations[KEY]

    def releases(self) -> int:
        self.connector.release(KEY, "7")
        return len(self.cluster.seen("POST", "/job/7"))


def test_our_own_hold_is_released() -> None:
    queue = Queue()
    assert not queue.look(1, held=True).is_held_by_others
    assert queue.releases() == 1


def test_what_waited_and_is_held_again_is_left() -> None:
    queue = Queue()
    queue.look(1, held=True)
    queue.look(1, held=False)
    queue.look(7, held=False)
    for _ in range(2):
        assert queue.look(60, held=True).is_held_by_others
        assert queue.releases() == 0


def test_a_release_that_the_controller_forgot_is_sent_again() -> None:
    queue = Queue()
    queue.look(1, held=False)
    queue.look(6, held=False)
    assert not queue.look(60, held=True).is_held_by_others
    assert queue.releases() == 1


def test_an_administrators_hold_is_left_at_any_time() -> None:
    queue = Queue()
    assert queue.look(1, held=True, reason="JobHeldAdmin").is_held_by_others
    assert queue.releases() == 0

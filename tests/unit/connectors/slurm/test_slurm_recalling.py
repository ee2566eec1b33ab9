"""What a Slurm cluster remembers of our jobs."""

import pytest

from builders.slurm_rest_builders import NOW, PlainTokens, ScriptedCluster, a_client, an_answer
from connectors.slurm import recalling
from connectors.slurm.options import parse_options

OPTIONS = {
    "url": "http://slurm.test",
    "service_user": "tidegate",
    "token_socket": "/run/minter.sock",
    "tag_secret": "x" * 16,
    "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
}


@pytest.mark.parametrize("ahead_s", [-60, 0, 3_600])
def test_a_clock_that_was_set_back_is_asked_about_this_moment(
    monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    """Planted: a window that ends before it starts, which is a ValueError, so that the observer
    stumbled over the cluster until its clock had caught up."""
    cluster = ScriptedCluster("v0.0.38").on("GET", "/jobs", an_answer({"jobs": [], "errors": []}))
    monkeypatch.setattr(recalling, "SlurmRest", lambda *_, **__: a_client(cluster))
    recaller = recalling.SlurmRecaller(parse_options(OPTIONS), PlainTokens())
    assert recaller.ended_since(NOW + ahead_s) == {}
    assert len(cluster.seen("GET", "/jobs")) == 1

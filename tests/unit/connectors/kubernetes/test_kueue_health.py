"""Whether Kueue answers, asked now and then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from connectors.errors import ClusterUnavailable
from connectors.kubernetes.admission.kueue_health import (
    LOOKED_EVERY_S,
    PATH,
    KueueWatch,
    with_kueue_away,
)
from connectors.kubernetes.client.api import Forbidden
from connectors.protocol import Listing, Observation, WorkloadPhase


class AnApi:
    """Answers with what it is given."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.asked = 0

    def create(self, path: str, body: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
        assert (path, dry_run, body["metadata"]) == (
            *(PATH, True),
            {"generateName": "tidegate-probe-"},
        )
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return body


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (None, ""),
        (
            ClusterUnavailable("POST x: failed calling webhook"),
            "Kueue does not answer, so nothing is submitted, admitted or stopped there; what runs "
            "goes on. Look at its Deployment in its namespace: POST x: failed calling webhook.",
        ),
        (
            Forbidden(403, "Forbidden", "you cannot create resourceflavors"),
            "Kueue could not be asked whether it is well: you cannot create resourceflavors.",
        ),
    ],
)
def test_what_is_told_of_kueue(failure: Exception | None, told: str) -> None:
    api = AnApi()
    api.failure = failure
    assert KueueWatch(api).complaint() == told  # type: ignore[arg-type]


def test_what_waits_for_a_kueue_that_is_away_says_so() -> None:
    """Against: a job told for 3 minutes that it was being started. What runs, or has a message of
    its own, stays as it is."""
    held = Observation("tg-1", "1", "Suspended", WorkloadPhase.HELD)
    odd = replace(held, key="tg-2", message="Its quota was taken.")
    running = replace(held, key="tg-3", phase=WorkloadPhase.RUNNING)
    told = with_kueue_away(Listing(0, {one.key: one for one in (held, odd, running)}))
    assert {key: one.message for key, one in told.observations.items()} == {
        "tg-1": "Kueue does not answer, so the job is not admitted there yet.",
        "tg-2": "Its quota was taken.",
        "tg-3": "",
    }


def test_a_kueue_that_is_gone_is_noticed_and_one_that_is_back() -> None:
    api, now = AnApi(), [0.0]
    watch = KueueWatch(api, monotonic_s=lambda: now[0])  # type: ignore[arg-type]
    watch.complaint()
    assert not watch.is_away
    api.failure = ClusterUnavailable("away")
    now[0] = LOOKED_EVERY_S
    watch.complaint()
    assert watch.is_away
    api.failure = None
    now[0] = 2 * LOOKED_EVERY_S
    watch.complaint()
    assert not watch.is_away


def test_after_a_refusal_it_is_asked_at_once() -> None:
    """Planted: what was known from before was told."""
    api, now = AnApi(), [0.0]
    watch = KueueWatch(api, monotonic_s=lambda: now[0])  # type: ignore[arg-type]
    assert watch.complaint() == ""
    api.failure = ClusterUnavailable("away")
    assert watch.is_away_now()
    assert watch.complaint() != ""
    api.failure = None
    assert not watch.is_away_now()


def test_it_is_asked_every_ten_seconds() -> None:
    api, now = AnApi(), [0.0]
    watch = KueueWatch(api, monotonic_s=lambda: now[0])  # type: ignore[arg-type]
    assert watch.complaint() == watch.complaint() == ""
    api.failure = ClusterUnavailable("away")
    now[0] = LOOKED_EVERY_S - 1
    assert watch.complaint() == ""
    now[0] = LOOKED_EVERY_S
    assert watch.complaint() != ""
    assert api.asked == 2

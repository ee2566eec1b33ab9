"""Maintenance windows over REST: who plans, changes and cancels them, and what people are told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from arbiter.api.snapshot import Maintenance
from audit.models import AuditEvent
from builders.api_callers import by_token
from builders.cast import Cast, a_cast
from builders.maintenance_builders import a_window
from builders.portal_builders import NOW, Company, a_company, a_pool
from maintenance.models import MaintenanceWindow, WindowState
from maintenance.windows import OF_A_CLUSTER_MAX, maintenance_ahead
from notices.announcement_models import Announcement
from primitives.clock import SystemClock

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
WINDOWS = "maintenance-windows"


@pytest.fixture
def company() -> Company:
    return a_company()


@pytest.fixture
def cast(company: Company) -> Cast:
    return a_cast(company)


@pytest.fixture(autouse=True)
def _at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "now", lambda _: NOW)


def in_hours(hours: int) -> str:
    return f"{NOW + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}"


def a_request(**changes: Any) -> dict[str, Any]:
    times = {"start": in_hours(24), "end": in_hours(26)}
    return {"cluster": "local", "reason": "New switches.", **times, **changes}


def test_an_administrator_of_the_platform_plans_a_window(cast: Cast) -> None:
    """Everybody reads it, and a banner is shown from now until its end. The audit log has it."""
    body = a_request()
    answer = by_token(cast.root).post(WINDOWS, body)
    assert answer.status_code == 201, answer.content
    made = MaintenanceWindow.objects.get()
    assert answer.json() == {
        "id": str(made.pk),
        "version": 1,
        "cluster": "local",
        "pool": None,
        "nodes": None,
        "start": body["start"],
        "end": body["end"],
        "reason": "New switches.",
        "state": "planned",
        "made_by": cast.root.login,
        "can_change": True,
    }
    banner = Announcement.objects.get()
    assert made.announcement == banner
    assert (banner.cluster, banner.level, banner.start, banner.end) == (
        made.cluster,
        "warning",
        made.made_at,
        made.end,
    )
    assert banner.text == (
        f"Maintenance from {made.start:%Y-%m-%d %H:%M} to {made.end:%Y-%m-%d %H:%M} UTC."
        " Jobs start only if they end before it. Reason: New switches."
    )
    (read,) = by_token(cast.charlie).get(WINDOWS).json()["items"]
    assert read == {**answer.json(), "can_change": False}
    event = AuditEvent.objects.get(action="maintenance.planned")
    assert (event.subject_id, event.detail["cluster"]) == (str(made.pk), "local")


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"cluster": "none"}, 404, "There is no cluster 'none'"),
        ({"pool": "a10"}, 404, "has no nodes of pool 'a10'"),
        ({"start": in_hours(-1)}, 400, "cannot start in the past"),
        ({"start": in_hours(26)}, 400, "must end after it starts"),
        ({"end": in_hours(24 + 31 * 24 + 1)}, 400, "at most 31 days"),
        ({"reason": " "}, 400, "must not be empty"),
    ],
    ids=["cluster", "pool", "past", "order", "length", "reason"],
)
def test_what_is_refused(cast: Cast, changes: dict[str, str], status: int, words: str) -> None:
    """Neither a window nor a banner is left. Against: a pool that other clusters have."""
    a_pool("a10")
    answer = by_token(cast.root).post(WINDOWS, a_request(**changes))
    assert answer.status_code == status, answer.content
    assert words in answer.content.decode()
    assert not MaintenanceWindow.objects.exists()
    assert not Announcement.objects.exists()


def test_a_window_of_a_pool_begins_at_once_without_a_start(cast: Cast) -> None:
    answer = by_token(cast.root).post(WINDOWS, a_request(pool="h100", start=None)).json()
    assert (answer["pool"], answer["state"]) == ("h100", "open")
    assert Announcement.objects.get().text.startswith("Maintenance of pool h100 from ")


def test_a_cluster_has_a_bound(cast: Cast, company: Company) -> None:
    """Against: windows that are over count."""
    for _ in range(OF_A_CLUSTER_MAX):
        a_window(company.cluster, start=NOW - HOUR)
    assert by_token(cast.root).post(WINDOWS, a_request()).status_code == 201
    for _ in range(OF_A_CLUSTER_MAX - 1):
        a_window(company.cluster, start=NOW + HOUR)
    assert by_token(cast.root).post(WINDOWS, a_request()).status_code == 409


def test_a_change_needs_the_version_that_was_seen_and_changes_the_banner(cast: Cast) -> None:
    """Against: the banner keeps its text and its end."""
    caller = by_token(cast.root)
    path = f"{WINDOWS}/{caller.post(WINDOWS, a_request()).json()['id']}"
    assert caller.patch(path, {"reason": "x"}).status_code == 428
    changed = caller.patch(path, {"end": in_hours(30), "reason": "Later."}, If_Match='"v1"')
    assert (changed.json()["end"], changed.json()["version"]) == (in_hours(30), 2)
    banner = Announcement.objects.get()
    assert f"{banner.end:%Y-%m-%dT%H:%M:%SZ}" == in_hours(30)
    assert banner.text.endswith(" Reason: Later.")
    assert caller.patch(path, {"reason": "x"}, If_Match='"v1"').status_code == 412
    assert by_token(cast.alice).patch(path, {"reason": "x"}, If_Match='"v2"').status_code == 403


def test_a_banner_that_was_removed_stays_away(cast: Cast) -> None:
    caller = by_token(cast.root)
    path = f"{WINDOWS}/{caller.post(WINDOWS, a_request()).json()['id']}"
    Announcement.objects.get().delete()
    assert caller.patch(path, {"reason": "x"}, If_Match='"v1"').status_code == 200
    assert caller.post(f"{path}/cancel", {}).json()["state"] == "cancelled"
    assert not Announcement.objects.exists()


def test_the_start_of_an_open_window_stays(cast: Cast, company: Company) -> None:
    """Its end moves. Against: a start in the past is refused when only the end changes."""
    path = f"{WINDOWS}/{a_window(company.cluster, start=NOW - HOUR, hours=2).pk}"
    caller = by_token(cast.root)
    assert caller.patch(path, {"start": in_hours(5)}, If_Match='"v1"').status_code == 409
    assert caller.patch(path, {"end": in_hours(-1)}, If_Match='"v1"').status_code == 400
    assert caller.patch(path, {"end": in_hours(5)}, If_Match='"v1"').json()["end"] == in_hours(5)


def test_a_cancelled_window_loses_its_banner_and_is_over(cast: Cast) -> None:
    caller = by_token(cast.root)
    path = f"{WINDOWS}/{caller.post(WINDOWS, a_request()).json()['id']}"
    assert by_token(cast.alice).post(f"{path}/cancel", {}).status_code == 403
    assert caller.post(f"{path}/cancel", {}).json()["state"] == "cancelled"
    assert not Announcement.objects.exists()
    assert caller.post(f"{path}/cancel", {}).status_code == 409
    assert caller.patch(path, {"reason": "x"}, If_Match='"v2"').status_code == 409
    assert caller.get(f"{WINDOWS}?in_force=true").json()["items"] == []
    assert len(caller.get(f"{WINDOWS}?cluster=local").json()["items"]) == 1
    assert caller.get(f"{WINDOWS}?cluster=other").json()["items"] == []


def test_the_states_of_a_window_and_the_windows_of_the_arbiter(company: Company) -> None:
    """Against: a window that ends now is still in force; a cancelled one is in force."""
    window = a_window(company.cluster, start=NOW, hours=1, pool=company.pool)
    moments = (NOW - HOUR, NOW, NOW + HOUR)
    assert [window.state_at(moment) for moment in moments] == [
        WindowState.PLANNED,
        WindowState.OPEN,
        WindowState.ENDED,
    ]
    begins = int(NOW.timestamp())
    told = Maintenance(str(company.cluster.pk), begins, begins + 3_600, str(company.pool.pk))
    assert [maintenance_ahead(moment) for moment in moments] == [(told,), (told,), ()]
    window.cancelled_at = NOW
    window.save()
    assert window.state_at(NOW) is WindowState.CANCELLED
    assert maintenance_ahead(NOW) == ()


@pytest.mark.parametrize("changes", [{"end": NOW}, {"reason": ""}], ids=["end", "reason"])
def test_the_database_refuses_an_impossible_window(
    company: Company, changes: dict[str, Any]
) -> None:
    window = a_window(company.cluster, start=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        MaintenanceWindow.objects.filter(pk=window.pk).update(**changes)


def names_of(company: Company) -> list[str]:
    """The names of the company's nodes, in order."""
    return sorted(company.cluster.nodes.values_list("name", flat=True))


def test_a_window_of_named_nodes_reaches_the_arbiter_and_the_banner(
    cast: Cast, company: Company
) -> None:
    """Names are sorted, and each counts once. Planted: a window of nodes of the whole cluster."""
    first, second = names_of(company)[:2]
    asked = a_request(nodes=[second, first, second])
    answer = by_token(cast.root).post(WINDOWS, asked)
    assert (answer.status_code, answer.json()["nodes"]) == (201, [first, second])
    made = MaintenanceWindow.objects.get()
    assert maintenance_ahead(NOW) == (
        Maintenance(
            str(company.cluster.pk),
            int(made.start.timestamp()),
            int(made.end.timestamp()),
            None,
            frozenset({first, second}),
        ),
    )
    assert Announcement.objects.get().text.startswith(f"Maintenance of {first}, {second} from ")
    event = AuditEvent.objects.get(action="maintenance.planned")
    assert event.detail["nodes"] == [first, second]


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"nodes": ["no-such"]}, 404, "has no node 'no-such'"),
        ({"nodes": []}, 400, "nodes"),
        ({"node_count": 0}, 400, "must be at least 1"),
        ({"node_count": 99}, 400, "Name fewer of them."),
        ({"node_count": 1, "nodes": ["a"]}, 400, "Give nodes or node_count, not both."),
    ],
    ids=["unknown", "none", "zero", "many", "both"],
)
def test_odd_nodes_are_refused(
    cast: Cast, changes: dict[str, Any], status: int, words: str
) -> None:
    answer = by_token(cast.root).post(WINDOWS, a_request(**changes))
    assert answer.status_code == status, answer.content
    assert words in answer.content.decode()
    assert not MaintenanceWindow.objects.exists()


def test_a_window_has_some_nodes_or_all(company: Company) -> None:
    with pytest.raises(IntegrityError, match="maintenance_has_some_nodes"), transaction.atomic():
        a_window(company.cluster, nodes=[])

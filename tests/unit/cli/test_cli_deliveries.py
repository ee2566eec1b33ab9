"""`tidegate deliveries`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli_server import Server, a_server

ID = "01a1fd00-0000-7000-8000-00000000000d"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = a_server(monkeypatch, str(tmp_path))
    server.routes["GET organizations"] = {
        "items": [{"id": "7", "slug": "ai-company"}],
        "next": None,
    }
    return server


def a_schedule(**changes: Any) -> dict[str, Any]:
    return {
        "id": ID, "organization": "ai-company", "dataset": "charges", "format": "csv",
        "frequency": "daily", "target": "archive", "created_by": "fin@ai-company",
        "created_at": "2026-11-21T12:00:00Z", "ended_at": None, **changes,
    }  # fmt: skip


def test_a_schedule_is_made_and_its_id_printed(server: Server) -> None:
    """Planted: the organization left out."""
    server.routes["POST delivery-schedules"] = a_schedule()
    ran = server.run(
        "deliveries", "schedule", "archive", "--every", "daily", "--dataset",
        "focus_cost_and_usage", "--format", "parquet",
    )  # fmt: skip
    assert ran.out == f"{ID}\n"
    assert server.body() == {
        "organization": "ai-company",
        "dataset": "focus_cost_and_usage",
        "format": "parquet",
        "frequency": "daily",
        "target": "archive",
    }
    ran = server.run("deliveries", "schedule", "archive", "-o", "json")
    assert json.loads(ran.out)["target"] == "archive"
    assert server.body()["frequency"] == "monthly"


def test_deliveries_show_their_error(server: Server) -> None:
    server.routes["GET deliveries"] = {
        "items": [
            {
                "id": ID, "schedule": a_schedule(), "due_on": "2026-11-20", "state": "waiting",
                "message": "The target archive does not answer.", "tries": 2, "file_name": None,
            }
        ],
        "next": None,
    }  # fmt: skip
    ran = server.run("deliveries", "list")
    assert ran.out.splitlines()[1].split(None, 6) == [
        ID, "2026-11-20", "charges.csv", "archive", "waiting", "2",
        "The target archive does not answer.",
    ]  # fmt: skip
    server.routes["GET deliveries"] = {"items": [], "next": None}
    assert server.run("deliveries", "list").err == "Nothing was delivered yet.\n"


def test_schedules_and_targets_are_listed(server: Server) -> None:
    server.routes["GET delivery-schedules"] = {"items": [a_schedule()], "next": None}
    assert server.run("deliveries", "schedules").out.splitlines()[1].split() == [
        ID, "charges.csv", "daily", "archive", "fin@ai-company", "-",
    ]  # fmt: skip
    server.routes["GET delivery-targets"] = {
        "items": [{"name": "archive", "kind": "s3"}],
        "next": None,
    }
    assert server.run("deliveries", "targets").out.splitlines()[1].split() == ["archive", "s3"]
    for route, word, said in (
        ("delivery-schedules", "schedules", "No schedules yet"),
        ("delivery-targets", "targets", "No targets. The operator names them"),
    ):
        server.routes[f"GET {route}"] = {"items": [], "next": None}
        assert said in server.run("deliveries", word).err


def test_a_schedule_is_ended_and_a_delivery_repeated(server: Server) -> None:
    server.routes[f"DELETE delivery-schedules/{ID}"] = {}
    assert server.run("deliveries", "end", ID).err == "The schedule is ended.\n"
    server.routes[f"POST deliveries/{ID}/repeat"] = {}
    assert "is repeated" in server.run("deliveries", "repeat", ID).err
    assert server.sent == [f"DELETE delivery-schedules/{ID}", f"POST deliveries/{ID}/repeat"]

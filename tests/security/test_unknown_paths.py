"""Addresses that nothing of ours has: a scanner is never told that they exist."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db

ROUTES = ["/", "/login", "/jobs", "/jobs/$jobId", "/quota-changes/new", "/clusters/$name"]


@pytest.fixture(autouse=True)
def dist(settings: Any, tmp_path: Path) -> Path:
    """A frontend with a few pages."""
    (tmp_path / "index.html").write_text("<html>the frontend</html>")
    (tmp_path / "routes.json").write_text(json.dumps(ROUTES))
    settings.FRONTEND_DIST = tmp_path
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/",
        "/api/v1",
        "/api/v1/nothing",
        "/api/v2/jobs",
        "/metrics",
        "/metrics/",
        "/metrics/cadvisor",
        "/admin",
        "/admin/",
        "/admin/login/",
        "/assets",
        "/assets/index.js",
        "/static/nothing.js",
        "/ws",
        "/ws/nothing",
        "/robots.txt",
        "/favicon.ico",
        "/.env",
        "/.git/config",
        "/.well-known/security",
        "/wp-login.php",
        "/jobs/app.js",
        "/jobs/0199/backup.tar.gz",
    ],
)
def test_what_is_none_of_ours_is_404_and_no_page(path: str) -> None:
    """Planted and seen to die: the words without a slash after them; files below a page."""
    answer = Client().get(path)
    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "not_found"
    assert b"the frontend" not in answer.content


@pytest.mark.parametrize(
    "path",
    ["/", "/login", "/jobs", "/jobs/", "/jobs/c518", "/quota-changes/new", "/clusters/gpu-1"],
)
def test_deep_links_open_the_frontend(path: str) -> None:
    answer = Client().get(path)
    assert (answer.status_code, answer.content) == (200, b"<html>the frontend</html>")


@pytest.mark.parametrize("path", ["/nothing", "/jobs/c518/nothing", "/apis", "/administration"])
def test_the_frontend_shows_its_own_page_for_unknown_addresses(path: str) -> None:
    answer = Client().get(path)
    assert (answer.status_code, answer.content) == (404, b"<html>the frontend</html>")


def test_a_build_without_a_list_of_its_pages_serves_them_all(dist: Path) -> None:
    (dist / "routes.json").unlink()
    assert Client().get("/anything").status_code == 200
    assert Client().get("/anything.js").status_code == 404


def test_a_new_build_counts_at_once(dist: Path) -> None:
    assert Client().get("/new-page").status_code == 404
    (dist / "routes.json").write_text(json.dumps([*ROUTES, "/new-page"]))
    assert Client().get("/new-page").status_code == 200

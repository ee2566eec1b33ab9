"""`tidegate mcp` as a process, between a client of the protocol and the real application."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from builders.api_callers import a_token
from builders.app_server import serving
from builders.portal_builders import a_company, a_grant, a_user
from clusters.models import Cluster
from jobs.models import Job
from primitives.clock import SystemClock
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)

REQUEST = {"name": "bert", "team": "ai-company/research/nlp", "gpus": 8, "script": "#!/bin/sh\n"}


@pytest.fixture
def process(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[StdioServerParameters]:
    """`tidegate mcp --allow-writes` of Bob, a researcher."""
    # The server's thread gives its connection back after each request, so that the test
    # database can be emptied.
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", 0)
    company = a_company()
    # A plan and its preview say when they were made.
    moment = SystemClock().now()
    monkeypatch.setattr(SystemClock, "now", lambda self: moment)
    Cluster.objects.update(seen_at=moment)
    bob = a_user(company.organization, "bob")
    a_grant(bob, Role.RESEARCHER, company.nlp)
    with serving() as address:
        yield StdioServerParameters(
            command=str(Path(sys.executable).with_name("tidegate")),
            args=["mcp", "--allow-writes"],
            env={
                "HOME": str(tmp_path),
                "TIDEGATE_SERVER": address,
                "TIDEGATE_TOKEN": a_token(bob)[1],
            },
        )


def test_an_agent_plans_submits_asks_why_and_cancels(process: StdioServerParameters) -> None:
    """Against: text on standard output that is not of the protocol; a plan that submits."""

    async def work() -> list[Any]:
        async with Client(process, read_timeout_seconds=60) as client:

            async def answer(tool: str, **arguments: Any) -> Any:
                result = await client.call_tool(tool, arguments)
                assert not result.is_error, result.content
                return json.loads(result.content[0].text)  # type: ignore[union-attr]

            plan = await answer("plan_job", request=REQUEST)
            preview = await answer("submit_job", request=REQUEST)
            nothing = await answer("list_jobs")
            code = preview["confirmation"]
            job = await answer("submit_job", request=REQUEST, confirmation=code)
            why = await answer("why_job_waits", job="bert")
            cancel = await answer("cancel_job", job=job["id"])
            code = cancel["confirmation"]
            ended = await answer("cancel_job", job=job["id"], confirmation=code)
            quotas = await answer("get_quotas", team="ai-company/research/nlp")
            return [plan, preview["preview"], nothing, job, why, ended, quotas]

    plan, preview, nothing, job, why, ended, quotas = asyncio.run(work())
    assert plan["would_start_now"] is True
    assert preview == plan
    assert nothing == {"items": []}
    assert job["id"] == str(Job.objects.get().pk)
    assert why["code"] == "not_yet_decided"
    assert ended["state"] == "cancelled"
    assert {quota["node"] for quota in quotas["items"]} == {"ai-company/research/nlp"}

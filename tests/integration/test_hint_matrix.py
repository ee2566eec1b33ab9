"""Every kind of hint, every kind of caller: which of them hears of what.

A hint goes the whole way: from the transaction that publishes it through PostgreSQL and the relay
to open sockets. So nobody adds a topic or an audience without saying who may hear of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from channels.layers import get_channel_layer
from django.db import connection, transaction

from builders.api_world import ACTORS
from builders.cast import Cast, a_cast
from builders.job_builders import a_job
from builders.live_sockets import ACCEPTED, TIMEOUT_S, a_hint, a_session, a_socket, answers, run
from builders.portal_builders import NOW, Company, a_company, a_priority_class
from jobs.access import readers_of_jobs, visible_jobs
from jobs.models import Job
from live import consumers
from live.publishing import (
    CHANNEL,
    COSTS,
    EVERYBODY,
    JOBS_PER_NOTICE,
    PLATFORM,
    group_of,
    publish,
    publish_to_people,
)
from live.relay import Relay
from live.waking import dedicated_connection
from portal.hint_audiences import audiences_of
from tenants.access import actor_of
from tenants.granting import grant_role, revoke_role
from tenants.models import RoleGrant
from tenants.roles import Role

pytestmark = pytest.mark.django_db(transaction=True)

#: Those who may have a session: `nobody` has none, and a service account cannot sign in.
READERS = tuple(name for name in ACTORS if name not in {"nobody", "service"})
END = {"type": "change", "topic": "clusters", "at": "end"}

#: Who hears what. Everybody else hears nothing.
TABLE: dict[str, str] = {
    "a job of bob in nlp": "root alice research_admin nlp_lead bob finance auditor",
    "a job of somebody else in nlp": "root alice research_admin nlp_lead finance auditor",
    "a job of inference": "root alice production_admin finance auditor",
    "a job of bob in inference": "root alice production_admin bob finance auditor",
    "a job of another organization": "root charlie",
    "quotas of the organization": (
        "root alice research_admin production_admin nlp_lead bob finance auditor"
    ),
    "quotas of another organization": "root charlie",
    "quotas of the installation": " ".join(READERS),
    "a cluster": " ".join(READERS),
    "a push of quotas to a cluster": "root",
    "a reconciliation": (
        "root alice research_admin production_admin nlp_lead finance auditor charlie"
    ),
    "prices of the organization": (
        "root alice research_admin production_admin nlp_lead bob finance auditor"
    ),
    "a notice of bob": "bob",
    "a job that is gone": "",
}


@pytest.fixture(autouse=True)
def layer(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
    monkeypatch.setattr(consumers, "_open_sockets", Counter())


class Wire:
    """What `publish` says, relayed to open sockets at once."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._own = self._stack.enter_context(dedicated_connection("test-relay"))
        self._own.execute(f"LISTEN {CHANNEL}")
        self._relay = Relay(readers_of_jobs)
        self._ends = 0

    def close(self) -> None:
        self._stack.close()

    def published(self, change: Callable[[], object]) -> list[tuple[str, dict[str, Any]]]:
        """The messages of what `change` publishes."""
        with transaction.atomic():
            change()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, 'end')", [CHANNEL])
        for notice in self._own.notifies(timeout=TIMEOUT_S):
            if notice.payload == "end":
                break
            self._relay.merger.add(notice.payload)
        return self._relay.messages(self._own)

    async def heard(
        self, change: Callable[[], object], sockets: dict[str, ApplicationCommunicator]
    ) -> dict[str, list[Any]]:
        """By name what each socket is sent of what `change` publishes."""
        layer = get_channel_layer()
        assert layer is not None
        for audience, message in await sync_to_async(self.published)(change):
            await layer.group_send(group_of(audience), message)
        self._ends += 1
        await layer.group_send(
            group_of(EVERYBODY), {**END, "stream": "end of a test", "seq": self._ends}
        )
        found: dict[str, list[Any]] = {name: [] for name in sockets}
        for name, socket in sockets.items():
            while (hint := await a_hint(socket))["at"] != "end":
                found[name].append(hint)
        return found


@pytest.fixture
def wire() -> Iterator[Wire]:
    found = Wire()
    yield found
    found.close()


def changes_of(company: Company, cast: Cast) -> dict[str, Callable[[], object]]:
    """By the names of TABLE: what publishes the hint."""

    def of(job: Job) -> Callable[[], object]:
        return lambda: publish("jobs", ids=[job.pk], organization_id=job.organization_id)

    ours, theirs = cast.organization.pk, cast.rival.pk
    gone = a_job(company, cast.bob)
    Job.objects.filter(pk=gone.pk).delete()
    return {
        "a job of bob in nlp": of(a_job(company, cast.bob)),
        "a job of somebody else in nlp": of(a_job(company, cast.dave)),
        "a job of inference": of(a_job(company, cast.dave, team=cast.inference)),
        "a job of bob in inference": of(a_job(company, cast.bob, team=cast.inference)),
        "a job of another organization": of(
            a_job(
                company,
                cast.charlie,
                team=cast.rival_team,
                priority_class=a_priority_class(cast.rival),
            )
        ),
        "quotas of the organization": lambda: publish("quotas", organization_id=ours),
        "quotas of another organization": lambda: publish("quotas", organization_id=theirs),
        "quotas of the installation": lambda: publish("quotas", organization_id=None),
        "a cluster": lambda: publish("clusters", ids=[company.cluster.pk], organization_id=None),
        "a push of quotas to a cluster": lambda: publish(
            "clusters", organization_id=None, audience=PLATFORM
        ),
        "a reconciliation": lambda: publish("reports", organization_id=None, audience=COSTS),
        "prices of the organization": lambda: publish("reports", organization_id=ours),
        "a notice of bob": lambda: publish_to_people("notices", [cast.bob.pk]),
        "a job that is gone": of(gone),
    }


async def opened(keys: dict[str, str]) -> dict[str, ApplicationCommunicator]:
    sockets = {name: a_socket(key) for name, key in keys.items()}
    for socket in sockets.values():
        assert await answers(socket) == [ACCEPTED]
    return sockets


def test_each_hears_of_what_rest_shows_them(wire: Wire) -> None:
    """Planted and seen to die: jobs are told to the whole organization; ids are sent; numbers are
    those of the audience."""
    company = a_company("ai-company")
    cast = a_cast(company)
    changes = changes_of(company, cast)
    assert changes.keys() == TABLE.keys()
    keys = {name: a_session(getattr(cast, name)) for name in READERS}

    async def scene() -> None:
        sockets = await opened(keys)
        sent: Counter[str] = Counter()
        found = {}
        for change, act in changes.items():
            heard = await wire.heard(act, sockets)
            found[change] = " ".join(name for name in READERS if heard[name])
            for name, hints in heard.items():
                for hint in hints:
                    sent[name] += 1
                    assert hint.keys() == {"seq", "topic", "at"}
                    assert hint["seq"] == sent[name]
                sent[name] += 1  # the one that ends it
        assert found == TABLE

    run(scene)


def test_whoever_hears_of_a_job_sees_it_and_the_other_way_round() -> None:
    """The audiences say what `visible_jobs` says."""
    company = a_company("ai-company")
    cast = a_cast(company)
    jobs = [
        a_job(company, user, team=team)
        for user in (cast.bob, cast.dave)
        for team in (cast.nlp, cast.inference)
    ]
    people = [getattr(cast, name) for name in (*READERS, "service", "dave")]
    with dedicated_connection("test-readers") as own:
        for job in jobs:
            readers = readers_of_jobs(own, [str(job.pk)])
            hear = [user.login for user in people if readers & set(audiences_of(user))]
            see = [
                user.login
                for user in people
                if visible_jobs(actor_of(user)).filter(pk=job.pk).exists()
            ]
            assert hear == see


def test_a_change_of_many_jobs_reaches_the_readers_of_each(wire: Wire) -> None:
    """Planted and seen to die: beyond fifty, jobs are "all", which everybody was told."""
    company = a_company("ai-company")
    cast = a_cast(company)
    jobs = [a_job(company, cast.dave) for _ in range(JOBS_PER_NOTICE)]
    jobs.append(a_job(company, cast.bob, team=cast.inference))
    keys = {name: a_session(getattr(cast, name)) for name in ("nlp_lead", "bob", "charlie")}

    def act() -> None:
        publish("jobs", ids=[job.pk for job in jobs], organization_id=cast.organization.pk)

    async def scene() -> None:
        heard = await wire.heard(act, await opened(keys))
        assert {name: len(hints) for name, hints in heard.items()} == {
            "nlp_lead": 1,
            "bob": 1,
            "charlie": 0,
        }

    run(scene)


def test_rights_count_at_once_in_an_open_socket(wire: Wire) -> None:
    """Planted and seen to die: rights are those of when it opened."""
    company = a_company("ai-company")
    cast = a_cast(company)
    job = a_job(company, cast.dave)
    alice = actor_of(cast.alice)
    keys = {"bob": a_session(cast.bob), "nlp_lead": a_session(cast.nlp_lead)}

    def act() -> None:
        publish("jobs", ids=[job.pk], organization_id=job.organization_id)

    def swap() -> None:
        grant_role(
            actor=alice,
            login=cast.bob.login,
            role=Role.TEAM_LEAD,
            node_path="ai-company/research/nlp",
            now=NOW,
        )
        lead = RoleGrant.objects.get(user=cast.nlp_lead)
        revoke_role(actor=alice, grant_id=lead.pk, now=NOW)

    async def scene() -> None:
        sockets = await opened(keys)
        before = await wire.heard(act, sockets)
        assert {name: len(hints) for name, hints in before.items()} == {"bob": 0, "nlp_lead": 1}
        assert await wire.heard(swap, sockets) == {"bob": [], "nlp_lead": []}
        after = await wire.heard(act, sockets)
        assert {name: len(hints) for name, hints in after.items()} == {"bob": 1, "nlp_lead": 0}

    run(scene)


def test_a_change_of_rights_that_nobody_was_told_of_counts_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bounded: a minute. Planted and seen to die: only the session is looked at."""
    assert consumers.RECHECK_S == 60
    monkeypatch.setattr(consumers, "RECHECK_S", 0.01)
    cast = a_cast(a_company("ai-company"))
    key = a_session(cast.bob)
    looked: list[list[str]] = []

    def audiences(user: Any) -> list[str]:
        looked.append([EVERYBODY] if not looked else [EVERYBODY, PLATFORM])
        return looked[-1]

    monkeypatch.setattr("portal.hint_audiences.audiences_of", audiences)

    async def scene() -> None:
        socket = a_socket(key)
        assert await answers(socket) == [ACCEPTED]
        layer = get_channel_layer()
        assert layer is not None
        message = {"type": "change", "stream": PLATFORM, "topic": "quotas", "at": "now"}
        for seq in range(1, 1_000):
            await layer.group_send(group_of(PLATFORM), {**message, "seq": seq})
            if not await socket.receive_nothing(timeout=0.01):
                break
        assert (await a_hint(socket))["topic"] == "quotas"

    run(scene)

"""Calls to slurmrestd: versions, users, tokens, and what becomes of calls that go wrong."""

import json
from typing import Any

import httpx
import pytest

from builders.slurm_rest_builders import (
    CLOSED,
    LOST,
    NEVER_SENT,
    NOW,
    RECORDINGS,
    STRUCTURED,
    PlainTokens,
    ScriptedCluster,
    a_client,
    a_submission,
    an_answer,
    an_error,
    answer_of,
    raises_exactly,
)
from connectors.errors import (
    ClusterUnavailable,
    NotOffered,
    OutcomeUnknown,
    WorkloadRejected,
)
from connectors.protocol import SUBMITTED_WITHIN_S, RankSlot, Workload
from connectors.slurm import transport
from connectors.slurm.answers import AuthenticationFailed, read_answer
from connectors.slurm.connector import SlurmConnector
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.neutral import Account
from connectors.slurm.options import parse_options
from connectors.slurm.rest import SlurmRest
from outbox.delivery import CALLED_WITHIN

# Versions.


@pytest.mark.parametrize("version", DIALECTS)
def test_the_newest_version_that_the_server_has_is_spoken(version: str) -> None:
    cluster = ScriptedCluster(version)
    client = a_client(cluster)
    assert client.version == version
    assert client.controller.ping() is True
    tried = [request.url.path.split("/")[2] for request in cluster.requests]
    known = list(DIALECTS)
    assert tried == [*known[: known.index(version) + 1], version]


def test_a_version_can_be_pinned() -> None:
    cluster = ScriptedCluster("v0.0.42")
    assert a_client(cluster, version="v0.0.42").version == "v0.0.42"
    with pytest.raises(ClusterUnavailable, match=r"offers none of the API versions v0\.0\.41"):
        a_client(cluster, version="v0.0.41").controller.diag()
    with pytest.raises(NotOffered, match=r"v0\.0\.37 is none of"):
        a_client(cluster, version="v0.0.37")


def test_a_server_without_any_known_version_is_told() -> None:
    with pytest.raises(ClusterUnavailable, match="offers none of the API versions"):
        a_client(ScriptedCluster("v0.0.36")).controller.jobs()
    cluster = ScriptedCluster("v0.0.44").on("GET", "/nodes", an_answer("Not found", 404))
    raises_exactly(ClusterUnavailable, a_client(cluster).controller.nodes)


def test_an_upgrade_of_the_server_is_followed() -> None:
    cluster = ScriptedCluster("v0.0.41")
    client = a_client(cluster)
    assert client.controller.diag().observed_at == NOW
    cluster.version = "v0.0.45"
    assert client.controller.diag().observed_at == NOW
    assert client.version == "v0.0.45"


def test_a_body_in_the_old_words_is_not_sent_to_the_new_version() -> None:
    cluster = ScriptedCluster("v0.0.41")
    client = a_client(cluster)
    assert client.version == "v0.0.41"
    cluster.version = "v0.0.45"
    raises_exactly(ClusterUnavailable, lambda: client.controller.set_hold(1, True))
    assert [request.url.path for request in cluster.requests if request.method == "POST"] == [
        "/slurm/v0.0.41/job/1"
    ]


def test_a_call_that_the_version_lacks_is_not_offered() -> None:
    cluster = ScriptedCluster("v0.0.44").on("POST", "/node/g01", an_answer("no such URL", 404))
    raises_exactly(
        NotOffered, lambda: a_client(cluster).controller.set_node("g01", drain=True, reason="disk")
    )


# Requests.


def test_every_call_names_its_user_and_brings_its_token() -> None:
    cluster = ScriptedCluster("v0.0.38").on("POST", "/job/submit", an_answer({"job_id": 7}))
    client = a_client(cluster)
    client.controller.diag()
    client.controller.submit("ana", a_submission())
    headers = [
        (request.headers["X-SLURM-USER-NAME"], request.headers["X-SLURM-USER-TOKEN"])
        for request in cluster.requests
    ]
    assert set(headers[:-1]) == {("tidegate", "token-of-tidegate")}
    assert headers[-1] == ("ana", "token-of-ana")


@pytest.mark.parametrize("user", ["", "ana\r\nX-Evil: 1", "a b", "-ana"])
def test_a_user_name_can_not_smuggle_a_header(user: str) -> None:
    cluster = ScriptedCluster("v0.0.38")
    with pytest.raises(WorkloadRejected, match="is no name for Slurm"):
        a_client(cluster).controller.submit(user, a_submission())
    assert cluster.seen("POST", "") == []


def test_no_token_no_call() -> None:
    class NoTokens(PlainTokens):
        def token_for(self, user: str) -> str:
            raise ClusterUnavailable("the minter does not answer")

    cluster = ScriptedCluster("v0.0.38")
    client = SlurmRest("http://slurm.test", NoTokens(), service_user="tidegate", transport=cluster)
    raises_exactly(ClusterUnavailable, lambda: client.controller.submit("ana", a_submission()))
    assert cluster.requests == []


@pytest.mark.parametrize("version", DIALECTS)
def test_a_submission_is_sent_in_the_words_of_its_version(version: str) -> None:
    cluster = ScriptedCluster(version).on("POST", "/job/submit", an_answer({"job_id": 7}))
    assert a_client(cluster).controller.submit("ana", a_submission()) == 7
    (request,) = cluster.seen("POST", "/job/submit")
    assert json.loads(request.content) == DIALECTS[version].submission(a_submission())


# Tokens.


def test_no_credentials() -> None:
    for version in RECORDINGS:
        cluster = ScriptedCluster(version).on(
            "GET", f"/{version}/ping", answer_of(version, "GET", "/ping", status=401)
        )
        raises_exactly(AuthenticationFailed, a_client(cluster).controller.jobs)


@pytest.mark.parametrize("version", STRUCTURED)
def test_the_newer_versions_name_a_refused_token(version: str) -> None:
    cluster = ScriptedCluster(version).on(
        "GET", "/nodes", answer_of(version, "GET", "/jobs", status=511)
    )
    raises_exactly(AuthenticationFailed, a_client(cluster).controller.nodes)


DEAD_OR_REFUSED = answer_of("v0.0.38", "GET", "/jobs", status=500)


REFUSED_BY_ACCOUNTING = answer_of("22.05-v0.0.38-accounting", "GET", "/clusters", status=500)


ACCOUNTING_IS_FINE = an_answer({"clusters": [{"name": "tide"}], "errors": []})


def test_v38_tells_a_refused_token_from_a_dead_controller() -> None:
    """Both are a 500 with -1; only the accounting names a refused token."""
    for reply, kind in (
        (REFUSED_BY_ACCOUNTING, AuthenticationFailed),
        (ACCOUNTING_IS_FINE, ClusterUnavailable),
        (an_answer(an_error(7000), 500), ClusterUnavailable),
        (CLOSED, ClusterUnavailable),
    ):
        cluster = (
            ScriptedCluster("v0.0.38")
            .on("GET", "/nodes", DEAD_OR_REFUSED)
            .on("GET", "/clusters", reply)
        )
        raises_exactly(kind, a_client(cluster).controller.nodes)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [(REFUSED_BY_ACCOUNTING, AuthenticationFailed), (ACCOUNTING_IS_FINE, OutcomeUnknown)],
)
def test_a_write_of_v38_with_a_refused_token_did_nothing(
    reply: httpx.Response, kind: type[Exception]
) -> None:
    cluster = ScriptedCluster("v0.0.38").on("GET", "/clusters", reply)
    name = "22.05-v0.0.38-accounting"
    cluster.on("POST", "/job/submit", answer_of(name, "POST", "/job/submit", status=500))
    cluster.on("POST", "/job/1", answer_of(name, "POST", "/job/1", status=500))
    cluster.on("DELETE", "/job/1", answer_of(name, "DELETE", "/job/1", status=500))
    client = a_client(cluster)
    raises_exactly(kind, lambda: client.controller.submit("ana", a_submission()))
    raises_exactly(kind, lambda: client.controller.set_hold(1, True))
    raises_exactly(kind, lambda: client.controller.cancel(1))
    assert [
        request.headers["X-SLURM-USER-NAME"] for request in cluster.seen("GET", "/clusters")
    ] == [*("ana", "tidegate", "tidegate")]


def test_an_unknown_write_stays_unknown_while_the_accounting_is_away() -> None:
    cluster = (
        ScriptedCluster("v0.0.38")
        .on("POST", "/job/submit", an_answer(an_error(-1), 500))
        .on("GET", "/clusters", *NEVER_SENT[:1])
    )
    raises_exactly(
        OutcomeUnknown, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )


def test_ping_of_a_dead_controller_is_false() -> None:
    for version, reply in (
        ("v0.0.38", DEAD_OR_REFUSED),
        ("v0.0.44", an_answer({"pings": [{"pinged": "DOWN", "responding": False}]})),
        ("v0.0.44", an_answer(an_error(1800), 502)),
    ):
        cluster = (
            ScriptedCluster(version)
            .on("GET", f"/{version}/ping", reply)
            .on("GET", "/clusters", ACCOUNTING_IS_FINE)
        )
        assert a_client(cluster).controller.ping() is False


# Reads.


@pytest.mark.parametrize("fault", [CLOSED, httpx.ReadError("reset")], ids=repr)
def test_a_read_on_a_closed_connection_is_sent_once_more(fault: Exception) -> None:
    nodes = answer_of("v0.0.44", "GET", "/nodes")
    cluster = ScriptedCluster("v0.0.44").on("GET", "/nodes", fault, nodes)
    assert len(a_client(cluster).controller.nodes()) == 4
    cluster = ScriptedCluster("v0.0.44").on("GET", "/nodes", fault)
    with pytest.raises(ClusterUnavailable):
        a_client(cluster).controller.nodes()
    assert len(cluster.seen("GET", "/nodes")) == 2


def test_a_read_that_is_late_is_not_sent_again() -> None:
    cluster = ScriptedCluster("v0.0.44").on("GET", "/nodes", httpx.ReadTimeout("late"))
    with pytest.raises(ClusterUnavailable):
        a_client(cluster).controller.nodes()
    assert len(cluster.seen("GET", "/nodes")) == 1


def test_an_endless_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MAX_ANSWER_BYTES", 1_000)

    class Endless(httpx.SyncByteStream):
        sent = 0

        def __iter__(self) -> Any:
            while True:
                Endless.sent += 100
                yield b"x" * 100

    class Server(ScriptedCluster):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/nodes"):
                return httpx.Response(200, stream=Endless())
            return super().handle_request(request)

    with pytest.raises(ClusterUnavailable, match="longer than 1000 bytes"):
        a_client(Server("v0.0.44")).controller.nodes()
    assert Endless.sent == 1_100


def test_an_answer_that_trickles_is_cut() -> None:
    clock = iter(range(0, 10_000, 25))

    class Trickle(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            while True:
                yield b" "

    class Server(ScriptedCluster):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/nodes"):
                return httpx.Response(200, stream=Trickle())
            return super().handle_request(request)

    client = a_client(Server("v0.0.44"), monotonic_s=lambda: float(next(clock)))
    with pytest.raises(ClusterUnavailable, match="took too long"):
        client.controller.nodes()


@pytest.mark.parametrize(
    "body",
    [
        "not json",
        [],
        {},
        {"nodes": None},
        {"nodes": {}},
        {"nodes": ["g01"]},
        {"nodes": [{}]},
        {"nodes": [], "errors": [{"error_number": -1}]},
        {"nodes": [], "errors": [{}]},
        {"nodes": [], "warnings": [{"description": "Ignoring unknown query field"}]},
    ],
)
def test_an_answer_that_makes_no_sense_is_no_list(body: Any) -> None:
    cluster = ScriptedCluster("v0.0.44").on("GET", "/nodes", an_answer(body))
    with pytest.raises(ClusterUnavailable):
        a_client(cluster).controller.nodes()


@pytest.mark.parametrize("fault", LOST, ids=repr)
def test_writes_are_never_sent_again(fault: Exception) -> None:
    calls = {
        "/job/7": [
            lambda client: client.controller.set_hold(7, True),
            lambda client: client.controller.cancel(7),
        ],
        "/accounts": [
            lambda client: client.accounting.put_account(Account("nlp", "NLP", "research"))
        ],
        "/qos/lent": [lambda client: client.accounting.delete_qos("lent")],
        "/node/g01": [lambda client: client.controller.set_node("g01", drain=False, reason="")],
    }
    for path, ways in calls.items():
        for call in ways:
            cluster = ScriptedCluster("v0.0.44").on("POST", path, fault).on("DELETE", path, fault)
            raises_exactly(
                OutcomeUnknown, lambda call=call, cluster=cluster: call(a_client(cluster))
            )
            assert len(cluster.seen("POST", path) + cluster.seen("DELETE", path)) == 1


def test_what_users_wrote_in_no_encoding_does_not_hide_the_list() -> None:
    """Planted: only what the fast parser takes."""
    answer = read_answer(200, b'{"jobs": [{"name": "caf\xe9", "load": NaN, "tail": "\\ud800"}]}')
    assert answer.body is not None
    (job,) = answer.body["jobs"]
    assert job["name"] == "caf\ufffd"
    assert read_answer(200, b"{" * 2_000).body is None


# Times for several calls.


class Hanging(ScriptedCluster):
    """Answers every call at the last moment that is allowed, and what is in `lost` never."""

    def __init__(self, *lost: str) -> None:
        super().__init__("v0.0.44")
        self.clock_s = 100.0
        self.lost = lost

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        limits = request.extensions["timeout"]
        self.clock_s += limits["connect"] + limits["write"] + limits["read"]
        if request.url.path.endswith(self.lost):
            self.requests.append(request)
            raise httpx.ReadTimeout("late")
        return super().handle_request(request)


def test_all_calls_of_a_time_are_over_when_it_is() -> None:
    """Planted: each call may take its own time-out; what is left is halved without an end."""
    cluster = Hanging("/ping")
    client = a_client(cluster, monotonic_s=lambda: cluster.clock_s)
    with client.within(20):
        for _ in range(3):
            with pytest.raises(ClusterUnavailable):
                client.controller.diag()
        assert client.left_s() == 0
    assert cluster.clock_s == 120
    assert len(cluster.requests) == 1
    assert client.left_s() is None
    with pytest.raises(ClusterUnavailable):
        client.controller.diag()
    # Connecting, writing and reading by the time-outs of a call by itself.
    assert cluster.clock_s == 120 + 3 + 30 + 30


def test_nothing_is_written_for_whose_answer_no_time_is_left() -> None:
    """Planted: sent with what was left, so that nobody knew whether there is a job."""
    cluster = ScriptedCluster("v0.0.44")
    clock_s = 0.0
    client = a_client(cluster, monotonic_s=lambda: clock_s)
    assert client.version == "v0.0.44"
    with client.within(20):
        clock_s = 18.5
        raises_exactly(ClusterUnavailable, lambda: client.controller.submit("ana", a_submission()))
        client.controller.diag()
    assert [request.method for request in cluster.requests if request.method != "GET"] == []


def test_a_submission_is_over_before_somebody_else_may_make_it() -> None:
    """Planted: the hardware, the list of jobs and the submission had a time-out each, and the lease
    of the message was over before."""
    cluster = Hanging()
    options = {
        "url": "http://slurm.test",
        "service_user": "tidegate",
        "token_socket": "/run/tidegate/minter",
        "tag_secret": "0123456789abcdef0123456789abcdef",
        "pools": {"h100": {"partition": "h100", "gres_type": "h100"}},
    }
    connector = SlurmConnector(parse_options(options), PlainTokens())
    connector._rest = a_client(cluster, monotonic_s=lambda: cluster.clock_s)
    slots = (RankSlot("n1", 1_000),)
    workload = Workload("tg-1", "job", "h100", "ana", "true", slots, "acme/nlp", cluster_user="ana")
    with pytest.raises(ClusterUnavailable):
        connector.submit(workload)
    assert cluster.clock_s == 100 + SUBMITTED_WITHIN_S
    assert CALLED_WITHIN.total_seconds() >= SUBMITTED_WITHIN_S

"""The client: what its calls mean on every version, and what becomes of calls that go wrong."""

import json
from typing import Any

import httpx
import pytest

from builders.slurm_rest_builders import (
    NOW,
    RECORDINGS,
    STRUCTURED,
    PlainTokens,
    ScriptedCluster,
    a_client,
    a_submission,
    an_answer,
    an_error,
    recorded,
    recording,
)
from connectors.errors import (
    ClusterUnavailable,
    NotOffered,
    OutcomeUnknown,
    WorkloadRejected,
)
from connectors.slurm import transport
from connectors.slurm.accounting import NO_LIMIT, STUB_S
from connectors.slurm.answers import AuthenticationFailed, SlurmRefused, read_answer
from connectors.slurm.dialects import DIALECTS
from connectors.slurm.neutral import Account, Association, Qos, User
from connectors.slurm.rest import SlurmRest
from connectors.slurm.transport import ODD_RECORDS_MAX

CLOSED = httpx.RemoteProtocolError("Server disconnected without sending a response.")
FINE = an_answer({"errors": [], "warnings": []})
LOST = [
    httpx.ReadTimeout("late"),
    httpx.WriteTimeout("late"),
    httpx.ReadError("reset"),
    httpx.WriteError("reset"),
    CLOSED,
]
NEVER_SENT = [
    httpx.ConnectError("Connection refused"),
    httpx.ConnectTimeout("late"),
    httpx.PoolTimeout("busy"),
]


def answer_of(version: str, method: str, path: str, **where: Any) -> httpx.Response:
    exchange = recorded(version, method, path, **where)
    return an_answer(exchange["response"], exchange["status"])


def a_job_record(version: str) -> dict[str, Any]:
    """A pending job that is held, with number 1 or more."""
    record: dict[str, Any] = next(
        exchange["response"]["jobs"][0]
        for exchange in recording(RECORDINGS[version])
        if exchange["request"]["method"] == "GET" and "/slurm/" in exchange["request"]["path"]
        if "/job/" in exchange["request"]["path"]
    )
    return record


def raises_exactly(kind: type[Exception], call: Any) -> Exception:
    with pytest.raises(kind) as caught:
        call()
    assert caught.type is kind
    return caught.value


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


# Submissions.


@pytest.mark.parametrize("version", RECORDINGS)
def test_a_held_submission_has_a_number(version: str) -> None:
    """v0.0.38 puts an error beside it, the newer ones warnings."""
    exchange = recorded(version, "POST", "/job/submit")
    cluster = ScriptedCluster(version).on(
        "POST", "/job/submit", an_answer(exchange["response"], 200)
    )
    assert (
        a_client(cluster).controller.submit("ana", a_submission()) == exchange["response"]["job_id"]
    )


@pytest.mark.parametrize("version", RECORDINGS)
def test_refusals_of_a_submission_are_definite(version: str) -> None:
    status = {"v0.0.38": 500, "v0.0.41": 500, "v0.0.44": 500}.get(version, 422)
    numbers = []
    for at in range(4):
        cluster = ScriptedCluster(version).on(
            "POST", "/job/submit", answer_of(version, "POST", "/job/submit", status=status, at=at)
        )
        error = raises_exactly(
            SlurmRefused,
            lambda cluster=cluster: a_client(cluster).controller.submit("ana", a_submission()),
        )
        assert isinstance(error, SlurmRefused)
        numbers.append(error.number)
    assert numbers == [2000, 2045, 2066, 2014]


def test_a_field_that_v38_does_not_know_is_a_definite_refusal() -> None:
    cluster = ScriptedCluster("v0.0.38").on(
        "POST", "/job/submit", answer_of("v0.0.38", "POST", "/job/submit", status=400)
    )
    with pytest.raises(SlurmRefused, match='Unknown key "no_such_field"; Failure during parsing'):
        a_client(cluster).controller.submit("ana", a_submission())


@pytest.mark.parametrize("version", STRUCTURED)
def test_a_job_with_a_field_left_out_is_cancelled(version: str) -> None:
    exchange = next(
        exchange
        for exchange in recording(RECORDINGS[version])
        if "no_such_field" in json.dumps(exchange["request"]["body"])
    )
    job_id = exchange["response"]["job_id"]
    gone = an_answer(an_error(2017), 404)
    cluster = (
        ScriptedCluster(version)
        .on("POST", "/job/submit", an_answer(exchange["response"]))
        .on("DELETE", f"/job/{job_id}", FINE)
        .on("GET", f"/job/{job_id}", gone)
    )
    error = raises_exactly(
        WorkloadRejected, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )
    assert 'Ignoring unknown field "no_such_field"' in str(error)
    assert len(cluster.seen("DELETE", f"/job/{job_id}")) == 1


def test_a_500_with_a_number_is_a_job() -> None:
    """A waiting job (2015) is kept; one of which a part was not understood (9207) is not."""
    waits = an_answer(an_error(2015, "Not available now", job_id=9), 500)
    cluster = ScriptedCluster("v0.0.44").on("POST", "/job/submit", waits)
    assert a_client(cluster).controller.submit("ana", a_submission()) == 9
    misread = an_answer(an_error(9207, "Unknown flag HOLD", job_id=9), 500)
    cluster = (
        ScriptedCluster("v0.0.44").on("POST", "/job/submit", misread).on("DELETE", "/job/9", FINE)
    )
    raises_exactly(
        WorkloadRejected, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )
    assert len(cluster.seen("DELETE", "/job/9")) == 1


@pytest.mark.parametrize("reply", [CLOSED, an_answer(an_error(2002)), an_answer("", 500)])
def test_a_wrong_job_that_can_not_be_cancelled_is_an_unknown_outcome(reply: Any) -> None:
    misread = an_answer(an_error(9207, job_id=9), 500)
    cluster = (
        ScriptedCluster("v0.0.44").on("POST", "/job/submit", misread).on("DELETE", "/job/9", reply)
    )
    raises_exactly(
        OutcomeUnknown, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )


@pytest.mark.parametrize("fault", NEVER_SENT, ids=repr)
def test_a_submission_that_never_left_did_nothing(fault: Exception) -> None:
    cluster = ScriptedCluster("v0.0.44").on("POST", "/job/submit", fault)
    raises_exactly(
        ClusterUnavailable, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )


@pytest.mark.parametrize("fault", LOST, ids=repr)
@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
def test_a_submission_whose_answer_is_lost_is_never_sent_again(
    version: str, fault: Exception
) -> None:
    cluster = ScriptedCluster(version).on("POST", "/job/submit", fault)
    raises_exactly(
        OutcomeUnknown, lambda: a_client(cluster).controller.submit("ana", a_submission())
    )
    assert len(cluster.seen("POST", "/job/submit")) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (an_answer("", 500), OutcomeUnknown),
        (an_answer("Bad gateway", 502), OutcomeUnknown),
        (an_answer("OK", 200), OutcomeUnknown),
        (an_answer([1], 200), OutcomeUnknown),
        (an_answer({}, 200), OutcomeUnknown),
        (an_answer({"job_id": 0, "errors": []}, 200), OutcomeUnknown),
        (an_answer({"job_id": True, "errors": []}, 200), OutcomeUnknown),
        (an_answer(an_error(1802, "Unable to receive"), 500), OutcomeUnknown),
        (an_answer(an_error(0), 500), OutcomeUnknown),
        (an_answer(an_error(1800, "No controller"), 502), ClusterUnavailable),
        (an_answer(an_error(2020, "Try later"), 500), ClusterUnavailable),
        (an_answer(an_error(1007), 511), AuthenticationFailed),
        (an_answer("Authentication failure", 401), AuthenticationFailed),
        (an_answer("Too many requests", 429), ClusterUnavailable),
        (an_answer("Request timeout", 408), OutcomeUnknown),
        (an_answer("", 302), ClusterUnavailable),
        (an_answer(an_error(2063, "No working directory"), 500), SlurmRefused),
        (an_answer(an_error(2115, "Invalid TRES"), 422), SlurmRefused),
        (an_answer({"errors": [{"error_code": 2066}]}, 500), SlurmRefused),
        (an_answer({"errors": [{"errno": 2066}]}, 500), SlurmRefused),
        (an_answer({"errors": ["No"]}, 500), OutcomeUnknown),
    ],
)
def test_what_an_answer_without_a_job_says(reply: httpx.Response, kind: type[Exception]) -> None:
    cluster = ScriptedCluster("v0.0.44").on("POST", "/job/submit", reply)
    raises_exactly(kind, lambda: a_client(cluster).controller.submit("ana", a_submission()))


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


@pytest.mark.parametrize("version", RECORDINGS)
def test_a_job_that_is_not_there(version: str) -> None:
    """A 500 on v0.0.38 and a 404 later; an answer without an opinion is no such word."""
    gone = an_answer(an_error(2017, "Invalid job id specified", jobs=[]), 404)
    if version == "v0.0.38":
        gone = answer_of("22.05-v0.0.38-accounting", "GET", "/job/99999999", status=500)
    cluster = ScriptedCluster(version).on("GET", "/job/99999999", gone)
    assert a_client(cluster).controller.job(99999999) is None
    for reply in (
        an_answer({"jobs": [], "errors": []}),
        an_answer("", 500),
        an_answer(an_error(1800), 500),
    ):
        cluster = ScriptedCluster(version).on("GET", "/job/99999999", reply)
        with pytest.raises(ClusterUnavailable):
            a_client(cluster).controller.job(99999999)


def test_a_task_of_an_array_is_found_among_the_others() -> None:
    record = a_job_record("v0.0.44")
    cluster = ScriptedCluster("v0.0.44").on(
        "GET",
        "/job/8",
        an_answer({"jobs": [{**record, "job_id": 9}, {**record, "job_id": 8}], "errors": []}),
    )
    job = a_client(cluster).controller.job(8)
    assert job is not None
    assert job.job_id == 8


# The list of jobs.


UNCHANGED = {
    "v0.0.38": httpx.Response(304),
    "v0.0.44": an_answer(
        {
            "jobs": [],
            "last_update": {"set": True, "infinite": False, "number": 0},
            "errors": [],
            "warnings": [{"description": "No job changes since update_time[123]=Now"}],
        }
    ),
}


@pytest.mark.parametrize("version", UNCHANGED)
def test_the_last_list_stands_for_unchanged(version: str) -> None:
    clock_s = 1_000.0
    record = a_job_record(version)
    whole = an_answer({"jobs": [record], "errors": []})
    cluster = ScriptedCluster(version).on(
        "GET", "/jobs", whole, UNCHANGED[version], UNCHANGED[version], whole
    )
    client = a_client(cluster, monotonic_s=lambda: clock_s)
    job = DIALECTS[version].job(record)
    assert (client.controller.jobs().observed_at, client.controller.jobs().jobs) == (NOW, (job,))
    cluster.now, clock_s = NOW + 7, 1_059.0
    listed = client.controller.jobs()
    assert (listed.observed_at, listed.jobs) == (NOW + 7, (job,))
    clock_s = 1_060.0
    assert client.controller.jobs().jobs == (job,)
    asked = [dict(request.url.params) for request in cluster.seen("GET", "/jobs")]
    flags = dict(DIALECTS[version].job_list_parameters)
    assert asked == [
        flags,
        {**flags, "update_time": str(NOW - 1)},
        {**flags, "update_time": str(NOW - 1)},
        flags,
    ]


@pytest.mark.parametrize("version", UNCHANGED)
def test_an_empty_queue_is_told_from_an_unchanged_one(version: str) -> None:
    whole = an_answer({"jobs": [a_job_record(version)], "errors": [], "warnings": []})
    empty = an_answer({"jobs": [], "errors": [], "warnings": []})
    cluster = ScriptedCluster(version).on("GET", "/jobs", whole, empty)
    client = a_client(cluster)
    assert len(client.controller.jobs().jobs) == 1
    assert client.controller.jobs().jobs == ()


@pytest.mark.parametrize("version", UNCHANGED)
def test_no_list_stands_for_unchanged_before_there_was_one(version: str) -> None:
    cluster = ScriptedCluster(version).on("GET", "/jobs", UNCHANGED[version])
    with pytest.raises(ClusterUnavailable):
        a_client(cluster).controller.jobs()


@pytest.mark.parametrize("version", UNCHANGED)
def test_an_empty_list_with_an_error_is_no_list(version: str) -> None:
    whole = an_answer({"jobs": [a_job_record(version)], "errors": []})
    broken = an_answer(an_error(1800, jobs=[]), 200)
    cluster = ScriptedCluster(version).on("GET", "/jobs", whole, broken)
    client = a_client(cluster)
    assert len(client.controller.jobs().jobs) == 1
    with pytest.raises(ClusterUnavailable):
        client.controller.jobs()


@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
@pytest.mark.parametrize(
    ("odd", "number"),
    [
        ({"job_state": None}, 9),
        ({"submit_time": None}, 9),
        ({"tres_alloc_str": 7}, 9),
        ({"nodes": "h[1-"}, 9),
        ({"job_id": None}, None),
    ],
)
def test_one_odd_job_is_told_and_hides_no_other(
    version: str, odd: dict[str, Any], number: int | None
) -> None:
    """Planted: a list that fails with its first odd record."""
    record = a_job_record(version)
    body = {"jobs": [record, {**record, "job_id": 9, **odd}], "errors": []}
    listed = a_client(
        ScriptedCluster(version).on("GET", "/jobs", an_answer(body))
    ).controller.jobs()
    assert [job.job_id for job in listed.jobs] == [record["job_id"]]
    assert [one.job_id for one in listed.unread] == [number]


def test_what_was_unread_stays_so_while_the_list_is_unchanged() -> None:
    record = a_job_record("v0.0.38")
    body = {"jobs": [{**record, "job_id": 9, "job_state": None}], "errors": []}
    cluster = ScriptedCluster("v0.0.38").on(
        "GET", "/jobs", an_answer(body), httpx.Response(304, content=b"")
    )
    client = a_client(cluster)
    assert [one.job_id for one in client.controller.jobs().unread] == [9]
    assert [one.job_id for one in client.controller.jobs().unread] == [9]


def test_a_list_with_many_odd_jobs_is_no_list() -> None:
    record = {**a_job_record("v0.0.38"), "job_state": None}
    body = {"jobs": [record] * (ODD_RECORDS_MAX + 1), "errors": []}
    with pytest.raises(ClusterUnavailable, match="more than 100 records"):
        a_client(ScriptedCluster("v0.0.38").on("GET", "/jobs", an_answer(body))).controller.jobs()


def test_one_odd_node_is_told_and_hides_no_other() -> None:
    body = recorded("v0.0.38", "GET", "/nodes")["response"]
    fine = body["nodes"][0]
    body = {"nodes": [fine, {**fine, "name": "h999", "tres": 5}], "errors": []}
    cluster = ScriptedCluster("v0.0.38").on("GET", "/nodes", an_answer(body))
    told: list[str] = []
    assert [node.name for node in a_client(cluster).controller.nodes(odd=told.append)] == [
        fine["name"]
    ]
    assert told == ["nodes 'h999' makes no sense: the cluster's tres is no text"]
    with pytest.raises(ClusterUnavailable):
        a_client(cluster).controller.nodes()


def test_a_question_about_one_job_waits_a_short_time_only() -> None:
    waited: list[Any] = []

    def late(request: httpx.Request) -> httpx.Response:
        waited.append(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout("late")

    cluster = ScriptedCluster("v0.0.38").on("GET", "/job/7", late)
    with pytest.raises(ClusterUnavailable, match="did not answer within 10 s"):
        a_client(cluster).accounting.job_history(7)
    assert waited == [10.0]


def test_the_limits_are_asked_for_as_long_as_the_caller_waits() -> None:
    waited: list[Any] = []

    def late(request: httpx.Request) -> httpx.Response:
        waited.append(request.extensions["timeout"]["read"])
        raise httpx.ReadTimeout("late")

    client = a_client(ScriptedCluster("v0.0.38").on("GET", "/qos", late))
    with pytest.raises(ClusterUnavailable, match="did not answer within 5 s"):
        client.accounting.qos(timeout_s=5.0)
    with pytest.raises(ClusterUnavailable, match="did not answer within 30 s"):
        client.accounting.qos()
    assert waited == [5.0, 30.0]


def test_the_gpus_of_a_job_that_the_list_does_not_place_are_looked_up() -> None:
    record = {
        **a_job_record("v0.0.44"),
        **{"job_id": 5, "job_state": ["RUNNING"], "nodes": "g[01-02]", "tres_per_node": ""},
        "tres_alloc_str": "gres/gpu=6,gres/gpu:h100=6",
    }
    placed = {**record, "gres_detail": ["gpu:h100:4(IDX:0-3)", "gpu:h100:2(IDX:0-1)"]}
    cluster = (
        ScriptedCluster("v0.0.44")
        .on("GET", "/jobs", an_answer({"jobs": [record], "errors": []}))
        .on("GET", "/job/5", an_answer({"jobs": [placed], "errors": []}))
    )
    assert a_client(cluster).controller.jobs().jobs[0].gpus_by_node == {"g01": 4, "g02": 2}


# Writes to jobs.


@pytest.mark.parametrize("version", RECORDINGS)
def test_hold_and_release(version: str) -> None:
    cluster = ScriptedCluster(version).on("POST", "/job/7", FINE)
    client = a_client(cluster)
    client.controller.set_hold(7, True)
    client.controller.set_hold(7, False)
    assert [json.loads(request.content) for request in cluster.seen("POST", "/job/7")] == [
        {"hold": True},
        {"hold": False},
    ]


def test_an_update_of_v38_that_answers_200_with_errors_failed() -> None:
    cluster = ScriptedCluster("v0.0.38").on("POST", "/job/7", an_answer(an_error(2042)))
    raises_exactly(SlurmRefused, lambda: a_client(cluster).controller.set_hold(7, False))


@pytest.mark.parametrize("version", RECORDINGS)
def test_a_service_user_without_the_right_makes_the_cluster_unusable(version: str) -> None:
    status = {"v0.0.38": 500, "v0.0.41": 500, "v0.0.44": 500}.get(version, 422)
    exchange = next(
        exchange
        for exchange in recording(RECORDINGS[version])
        if exchange["request"]["method"] == "POST"
        and "/job/" in exchange["request"]["path"]
        and not exchange["request"]["path"].endswith("submit")
        and exchange["status"] == status
    )
    cluster = ScriptedCluster(version).on("POST", "/job/7", an_answer(exchange["response"], status))
    error = raises_exactly(
        ClusterUnavailable, lambda: a_client(cluster).controller.set_hold(7, False)
    )
    assert "make it an operator" in str(error)


def test_a_change_that_the_version_leaves_out_is_not_offered() -> None:
    ignored = {"errors": [], "warnings": [{"description": 'Ignoring unknown field "hold"'}]}
    cluster = ScriptedCluster("v0.0.44").on("POST", "/job/7", an_answer(ignored))
    raises_exactly(NotOffered, lambda: a_client(cluster).controller.set_hold(7, True))


@pytest.mark.parametrize("version", RECORDINGS)
def test_cancel_and_signal(version: str) -> None:
    gone = an_answer(an_error(2017), 404)
    cluster = ScriptedCluster(version).on("DELETE", "/job/7", FINE).on("GET", "/job/7", gone)
    client = a_client(cluster)
    client.controller.cancel(7)
    client.controller.cancel(7, signal="USR1")
    assert [dict(request.url.params) for request in cluster.seen("DELETE", "/job/7")] == [
        {},
        {"signal": "USR1"},
    ]
    with pytest.raises(WorkloadRejected, match="none of the signals"):
        client.controller.cancel(7, signal="FOO")
    assert len(cluster.seen("DELETE", "/job/7")) == 2


@pytest.mark.parametrize("version", STRUCTURED)
def test_cancelling_what_is_not_there_is_done(version: str) -> None:
    cluster = (
        ScriptedCluster(version)
        .on("DELETE", "/job/7", answer_of(version, "DELETE", "/job/99999999", status=404))
        .on("GET", "/job/7", an_answer(an_error(2017), 404))
    )
    a_client(cluster).controller.cancel(7)


@pytest.mark.parametrize("version", ["v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"])
def test_a_cancel_that_was_not_allowed_hides_in_the_status(version: str) -> None:
    denied = next(
        exchange["response"]
        for exchange in recording(RECORDINGS[version])
        if exchange["request"]["method"] == "DELETE" and exchange["request"]["user"] == "leo"
    )
    assert denied["errors"] == []
    cluster = ScriptedCluster(version).on("DELETE", "/job/7", an_answer(denied))
    error = raises_exactly(ClusterUnavailable, lambda: a_client(cluster).controller.cancel(7))
    assert "make it an operator" in str(error)


@pytest.mark.parametrize("version", ["v0.0.40", "v0.0.41"])
def test_where_a_cancel_tells_nothing_the_job_is_read_again(version: str) -> None:
    record = {**a_job_record("v0.0.41"), "job_id": 7}
    for reply, kind in (
        (an_answer({"jobs": [record], "errors": []}), OutcomeUnknown),
        (CLOSED, OutcomeUnknown),
        (an_answer({"jobs": [{**record, "job_state": ["CANCELLED"]}], "errors": []}), None),
        (
            an_answer({"jobs": [{**record, "job_state": ["RUNNING", "COMPLETING"]}], "errors": []}),
            None,
        ),
    ):
        cluster = ScriptedCluster(version).on("DELETE", "/job/7", FINE).on("GET", "/job/7", reply)
        client = a_client(cluster)
        if kind is None:
            client.controller.cancel(7)
        else:
            raises_exactly(kind, lambda client=client: client.controller.cancel(7))


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


# Nodes.


@pytest.mark.parametrize("version", STRUCTURED)
def test_a_node_is_drained_and_resumed(version: str) -> None:
    cluster = ScriptedCluster(version).on("POST", "/node/g16", FINE, an_answer(an_error(2180), 500))
    client = a_client(cluster)
    client.controller.set_node("g16", drain=True, reason="disk")
    client.controller.set_node("g16", drain=False, reason="")
    assert [json.loads(request.content) for request in cluster.seen("POST", "/node/g16")] == [
        {"state": ["DRAIN"], "reason": "disk"},
        {"state": ["RESUME"]},
    ]
    for node in ("g16/../x", "g\n16"):
        with pytest.raises(WorkloadRejected, match="no name for Slurm"):
            client.controller.set_node(node, drain=True, reason="disk")


# The accounting.


def a_history(version: str) -> list[dict[str, Any]]:
    if version == "v0.0.38":
        version = "22.05-v0.0.38-accounting"
    jobs: list[dict[str, Any]] = next(
        exchange["response"]["jobs"]
        for exchange in reversed(recording(RECORDINGS.get(version, version)))
        if exchange["request"]["path"].startswith("/slurmdb/")
        and exchange["request"]["method"] == "GET"
        and (exchange["response"] or {}).get("jobs")
    )
    return jobs


@pytest.mark.parametrize("version", RECORDINGS)
def test_the_history_asks_for_a_window_from_now_on(version: str) -> None:
    """No time zone and no clock but the controller's is in the question."""
    cluster = ScriptedCluster(version).on(
        "GET", "/jobs", an_answer({"jobs": [], "errors": [], "warnings": []})
    )
    assert (
        a_client(cluster).accounting.history(start=NOW - 3_600, end=NOW + 300, account="nlp") == ()
    )
    (request,) = cluster.seen("GET", "/jobs")
    assert request.url.path == f"/slurmdb/{version}/jobs"
    assert dict(request.url.params) == {
        "start_time": "now-3720seconds",
        "end_time": "now+420seconds",
        "skip_steps": "true",
        "account": "nlp",
    }


def test_the_history_is_cut_to_its_window_and_account() -> None:
    (record,) = a_history("v0.0.38")
    begin, end = record["time"]["eligible"], record["time"]["end"]
    cluster = ScriptedCluster("v0.0.38").on("GET", "/jobs", an_answer({"jobs": [record]}))
    client = a_client(cluster)

    def found(start: int, until: int, account: str | None = None) -> int:
        return len(client.accounting.history(start=start, end=until, account=account))

    assert found(begin - 10, begin) == 0
    assert found(begin - 10, begin + 1) == 1
    assert found(end, end + 10) == 1
    assert found(end + 1, end + 10) == 0
    assert found(begin, end, "science") == 1
    assert found(begin, end, "nlp") == 0
    with pytest.raises(ValueError, match="must not end before"):
        client.accounting.history(start=2, end=1)


def test_a_database_that_is_down_is_never_an_empty_history() -> None:
    """v0.0.38 answers 200 and an empty list."""
    for version, status in (("v0.0.38", 200), ("v0.0.44", 502)):
        down = an_answer(an_error(7000, "Unable to connect to database", jobs=[]), status)
        cluster = ScriptedCluster(version).on("GET", "/jobs", down).on("GET", "/job/7", down)
        cluster.on("GET", "/qos", down).on("GET", "/associations", down)
        client = a_client(cluster)
        for call in (
            lambda client=client: client.accounting.history(start=1, end=2),
            lambda client=client: client.accounting.job_history(7),
            client.accounting.qos,
            client.accounting.associations,
        ):
            raises_exactly(ClusterUnavailable, call)


def test_nothing_found_is_an_empty_history() -> None:
    name = "22.05-v0.0.38-accounting"
    cluster = ScriptedCluster("v0.0.38").on(
        "GET", "/job/99999999", answer_of(name, "GET", "/job/99999999")
    )
    assert a_client(cluster).accounting.job_history(99999999) == ()
    nothing = {"jobs": [], "errors": [], "warnings": [{"description": "Nothing found"}]}
    cluster = ScriptedCluster("v0.0.44").on("GET", "/job/99999999", an_answer(nothing))
    assert a_client(cluster).accounting.job_history(99999999) == ()


@pytest.mark.parametrize("version", STRUCTURED)
def test_the_runs_of_a_job_come_oldest_first(version: str) -> None:
    records = a_history(version)
    job_id = records[0]["job_id"]
    cluster = ScriptedCluster(version).on(
        "GET", f"/job/{job_id}", an_answer({"jobs": records[::-1], "errors": []})
    )
    runs = a_client(cluster).accounting.job_history(job_id)
    assert [run.state for run in runs] == ["PENDING", "RUNNING"]


def test_a_stub_of_the_accounting_is_not_taken_for_a_run() -> None:
    (record,) = a_history("v0.0.38")
    stub = {**record, "name": "allocation", "partition": "", "nodes": "h001"}
    cluster = ScriptedCluster("v0.0.38").on("GET", "/job/28", an_answer({"jobs": [stub]}))
    cluster.on("GET", "/jobs", an_answer({"jobs": [stub]}))
    client = a_client(cluster)
    started = record["time"]["start"]
    cluster.now = started + 5
    with pytest.raises(ClusterUnavailable, match="only a stub of job 28"):
        client.accounting.job_history(28)
    with pytest.raises(ClusterUnavailable, match="only a stub of job 28"):
        client.accounting.history(start=started - 60, end=started + 60)
    cluster.now = started + STUB_S
    assert len(client.accounting.job_history(28)) == 1


def test_a_filter_that_the_version_leaves_out_is_an_error() -> None:
    answer = {"jobs": [], "errors": [], "warnings": [{"description": "Ignoring unknown key"}]}
    cluster = ScriptedCluster("v0.0.44").on("GET", "/jobs", an_answer(answer))
    with pytest.raises(ClusterUnavailable, match="left out"):
        a_client(cluster).accounting.history(start=1, end=2)


def test_the_accounting_of_v38_as_recorded() -> None:
    name = "22.05-v0.0.38-accounting"
    cluster = ScriptedCluster("v0.0.38")
    for path, at in (("/users", 0), ("/accounts", 0), ("/qos", 2), ("/associations", 0)):
        cluster.on("GET", path, answer_of(name, "GET", path, at=at))
    cluster.on("GET", "/clusters", answer_of(name, "GET", "/clusters"))
    client = a_client(cluster)
    assert client.accounting.clusters() == ("tidegate",)
    assert client.accounting.users()[1:3] == (
        User("ana", "conn", "None"),
        User("eva", "science", "None"),
    )
    assert client.accounting.accounts()[-1] == Account("science", "Science", "research")
    assert client.accounting.qos()[1] == Qos(
        "lent", "lent", priority=6, flags=("DENY_LIMIT",), user_tres={"gres/gpu": 5}
    )
    assert client.accounting.associations(user="eva") == (
        Association("science", "tidegate", user="eva", qos=("normal",), is_default=True, shares=1),
    )


@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
def test_a_qos_is_read_before_it_is_written(version: str) -> None:
    key = "QOS" if version == "v0.0.38" else "qos"
    known = {
        "name": "lent",
        "limits": {"max": {"tres": {"total": [{"type": "gres", "name": "gpu", "count": 8}]}}},
    }
    cluster = ScriptedCluster(version)
    after = {
        "name": "lent",
        "limits": {
            "max": {"tres": {"per": {"user": [{"type": "gres", "name": "gpu", "count": 2}]}}}
        },
    }
    answers = [an_answer({key: [qos], "errors": []}) for qos in (known, after, known)]
    cluster.on("GET", "/qos", *answers)
    cluster.on("POST", "/qos", FINE)
    a_client(cluster).accounting.put_qos(Qos("lent", user_tres={"gres/gpu": 2}))
    (request,) = cluster.seen("POST", "/qos")
    (written,) = json.loads(request.content)[key]
    assert written["limits"]["max"]["tres"] == {
        "total": [{"type": "gres", "name": "gpu", "count": -1}],
        "per": {"user": [{"type": "gres", "name": "gpu", "count": 2}]},
    }
    assert (written["flags"], written["preempt"]) == ([], {"list": [], "mode": []})
    with pytest.raises(NotOffered, match="did not take the whole of QOS lent"):
        a_client(cluster).accounting.put_qos(Qos("lent", user_tres={"gres/gpu": 2}))


def test_v38_does_not_change_an_accounts_association_in_its_place() -> None:
    """It answers 200 and changes nothing, or slurmrestd dies."""
    name = "22.05-v0.0.38-accounting"
    known = answer_of(name, "GET", "/associations")
    cluster = ScriptedCluster("v0.0.38").on("GET", "/associations", known)
    client = a_client(cluster)
    same = Association("science", "tidegate", parent_account="root", group_tres={"gres/gpu": 16})
    client.accounting.put_association(same)
    for other in (
        Association("science", "tidegate", group_tres={"gres/gpu": 8}),
        Association("science", "tidegate", group_tres={"gres/gpu": None}),
        Association("science", "tidegate", qos=("lent",)),
        Association("science", "tidegate", shares=2),
    ):
        raises_exactly(NotOffered, lambda other=other: client.accounting.put_association(other))
    assert cluster.seen("POST", "/associations") == []


def test_v38_changes_an_accounts_association_on_a_detour() -> None:
    """slurmdbd skips a change to the parent that there is; and all is said, lest it be lost."""
    known = answer_of("22.05-v0.0.38-accounting", "GET", "/associations")
    cluster = ScriptedCluster("v0.0.38").on("GET", "/associations", known)
    cluster.on("POST", "/associations", FINE)
    client = a_client(cluster)
    (before,) = [
        item for item in client.accounting.associations(account="science") if not item.user
    ]

    def written() -> list[dict[str, Any]]:
        return [
            json.loads(request.content)["associations"][0]
            for request in cluster.seen("POST", "/associations")
        ]

    client.accounting.put_association(Association("science", "tidegate", shares=2), detour="aside")
    away, back = written()
    assert (away.pop("parent_account"), back.pop("parent_account")) == ("aside", "root")
    assert (
        away
        == back
        == {
            "account": "science",
            "cluster": "tidegate",
            "user": None,
            "shares_raw": 2,
            "qos": list(before.qos),
            **({"default": {"qos": before.default_qos}} if before.default_qos else {}),
            "max": {
                "tres": {
                    "total": [
                        {"type": "cpu", "name": "", "count": -1},
                        {"type": "gres", "name": "gpu", "count": 16},
                    ]
                }
            },
        }
    )
    # One that really moves needs no detour.
    client.accounting.put_association(Association("science", "tidegate", parent_account="other"))
    assert [item["parent_account"] for item in written()[2:]] == ["other"]


@pytest.mark.parametrize("parent", ["", "other"])
def test_v38_raises_a_limit_out_of_reach_before_it_clears_it(parent: str) -> None:
    """The controller is told of the first and not of the second. Planted: cleared on both ways;
    nothing raised where the account really moves."""
    known = answer_of("22.05-v0.0.38-accounting", "GET", "/associations")
    cluster = ScriptedCluster("v0.0.38").on("GET", "/associations", known)
    cluster.on("POST", "/associations", FINE)
    cleared = Association(
        *("science", "tidegate"),
        parent_account=parent,
        group_tres={"gres/gpu": None, "gres/gpu:h100": None},
    )
    a_client(cluster).accounting.put_association(cleared, detour="aside")
    written = [
        json.loads(request.content)["associations"][0]
        for request in cluster.seen("POST", "/associations")
    ]
    assert [
        (
            item["parent_account"],
            {limit["name"]: limit["count"] for limit in item["max"]["tres"]["total"]},
        )
        for item in written
    ] == [
        ("aside", {"": -1, "gpu": NO_LIMIT, "gpu:h100": -1}),
        (parent or "root", {"": -1, "gpu": -1, "gpu:h100": -1}),
    ]


@pytest.mark.parametrize("version", ["v0.0.38", "v0.0.44"])
def test_a_new_association_is_written(version: str) -> None:
    nothing = an_answer(an_error(9003, "Nothing found"), 500)
    cluster = ScriptedCluster(version).on("GET", "/associations", nothing)
    cluster.on("POST", "/associations", FINE)
    written = Association("nlp", "tide", parent_account="science")
    a_client(cluster).accounting.put_association(written)
    (request,) = cluster.seen("POST", "/associations")
    assert json.loads(request.content) == {"associations": [DIALECTS[version].association(written)]}


def test_removing_what_is_not_there_is_done() -> None:
    name = "22.05-v0.0.38-accounting"
    cluster = ScriptedCluster("v0.0.38")
    cluster.on("DELETE", "/account/a", answer_of(name, "DELETE", "/account/science", at=1))
    cluster.on("DELETE", "/qos/q", answer_of(name, "DELETE", "/qos/lent", status=500))
    cluster.on("DELETE", "/account/b", answer_of(name, "DELETE", "/user/eva", status=304))
    cluster.on("DELETE", "/association", an_answer(an_error(1900)))
    client = a_client(cluster)
    client.accounting.delete_account("a")
    client.accounting.delete_qos("q")
    client.accounting.delete_account("b")
    client.accounting.delete_association("a", cluster="tide", user="u")


def test_removing_needs_a_name() -> None:
    """Without a user, DELETE of an association takes all users of the account."""
    cluster = ScriptedCluster("v0.0.38")
    client = a_client(cluster)
    for call in (
        lambda: client.accounting.delete_association("a", cluster="tide", user=""),
        lambda: client.accounting.delete_account(""),
        lambda: client.accounting.delete_qos("a/b"),
        lambda: client.accounting.delete_account("x y"),
    ):
        with pytest.raises(WorkloadRejected, match="no name for Slurm"):
            call()
    assert cluster.seen("DELETE", "") == []


def test_an_account_with_running_jobs_is_not_removed() -> None:
    for version, reply in (
        ("v0.0.38", an_answer(an_error(7001, "Job(s) active"), 200)),
        ("v0.0.44", an_answer(an_error(7009, "Job(s) active"), 500)),
    ):
        cluster = ScriptedCluster(version).on("DELETE", "/account/a", reply)
        raises_exactly(SlurmRefused, lambda c=cluster: a_client(c).accounting.delete_account("a"))


def test_what_users_wrote_in_no_encoding_does_not_hide_the_list() -> None:
    """Planted: only what the fast parser takes."""
    answer = read_answer(200, b'{"jobs": [{"name": "caf\xe9", "load": NaN, "tail": "\\ud800"}]}')
    assert answer.body is not None
    (job,) = answer.body["jobs"]
    assert job["name"] == "caf\ufffd"
    assert read_answer(200, b"{" * 2_000).body is None

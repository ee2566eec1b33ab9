"""The company's story with 1,000 virtual GPUs and real processes, through REST.

Production borrows what research leaves idle; research's lead submits what fits in nlp's
guarantee and has it back within the grace; everything is metered to the second.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from builders.installation import Caller, Tidegate, settle

pytestmark = [pytest.mark.story, pytest.mark.timeout(900)]

GRACE_S = 12
POLITE = "trap 'exit 0' TERM\necho attempt $TIDEGATE_ATTEMPT\nwhile :; do sleep 0.2; done"
STUBBORN = "trap '' TERM\necho attempt $TIDEGATE_ATTEMPT\nwhile :; do sleep 0.2; done"
INFERENCE = "ai-company/production/inference"


@pytest.fixture(scope="module")
def admin(tidegate: Tidegate) -> Caller:
    """The organization's administrator, with the grace shortened for the test."""
    tidegate.manage(
        "shell",
        "-c",
        "from quotas.models import PriorityClass, OrganizationPolicy\n"
        f"PriorityClass.objects.update(grace_period_s={GRACE_S})\n"
        f"OrganizationPolicy.objects.update(grace_period_s={GRACE_S})",
    )
    return tidegate.caller_in("organization admin")


def gpus(mgpu: int) -> float:
    return mgpu / 1000


def test_the_company_runs(tidegate: Tidegate, admin: Caller) -> None:
    began = datetime.now(UTC)
    # Exploration runs on its 200, vision on 100 of its 120, the rest of research is idle.
    jobs = [
        admin.submit("ai-company/exploration/sandbox", nodes=25, gpus=8, script=POLITE),
        admin.submit("ai-company/research/vision", nodes=12, gpus=8, script=POLITE),
        admin.submit("ai-company/research/vision", nodes=1, gpus=4, script=POLITE),
    ]
    for job in jobs:
        admin.until(job["id"], "running")
    # Inference submits gangs until production holds 700 and all 1,000 are busy.
    gangs = [
        admin.submit(
            INFERENCE, nodes=10, gpus=8, script=POLITE if n % 2 else STUBBORN, name=f"serve-{n}"
        )
        for n in range(8)
    ]
    gangs.append(admin.submit(INFERENCE, nodes=7, gpus=8, script=POLITE, name="serve-8"))
    gangs.append(admin.submit(INFERENCE, nodes=1, gpus=4, script=POLITE, name="serve-9"))
    for gang in gangs:
        admin.until(gang["id"], "running")
    production = settle(
        lambda: (
            use if (use := admin.use("ai-company/production"))["in_use_mgpu"] == 700_000 else None
        )
    )
    assert gpus(production["borrowed_mgpu"]) == 300
    assert gpus(admin.use(INFERENCE)["borrowed_mgpu"]) == 420
    assert gpus(admin.use("ai-company")["in_use_mgpu"]) == 1000
    assert gpus(admin.use("ai-company/research")["lent_mgpu"]) == 300

    # One more borrower has to wait, and is told why (40 GPUs: what its whole jobs leave of
    # the guarantee of 280 is 36).
    extra = admin.submit(INFERENCE, nodes=5, gpus=8, script=POLITE, name="one-more")
    why = settle(lambda: admin.job(extra["id"])["explanation"])
    assert why["code"] == "waiting_for_free_gpus"
    admin.post(f"/jobs/{extra['id']}/cancel")
    assert admin.job(extra["id"])["state"] == "cancelled"

    # Research's nlp lead submits a gang of 200 GPUs, which fits in nlp's guarantee.
    lead = tidegate.caller_in("team lead")
    wanted = lead.submit(
        "ai-company/research/nlp", nodes=25, gpus=8, name="pretrain", script="sleep 8"
    )
    asked = datetime.now(UTC)
    why = settle(
        lambda: (
            explanation
            if (explanation := lead.get(f"/jobs/{wanted['id']}/explanation"))
            and explanation["code"] == "waiting_for_reclaim"
            else None
        )
    )
    assert why["numbers"]["need_mgpu"] == 200_000
    # The lead is told which teams give back; who may see their jobs is told which.
    assert {(victim["job"], victim["team"]) for victim in why["victims"]} == {(None, INFERENCE)}
    why = admin.get(f"/jobs/{wanted['id']}/explanation")
    victims = {victim["job"] for victim in why["victims"]}
    assert sum(victim["mgpu"] for victim in why["victims"]) >= 200_000
    assert victims <= {gang["id"] for gang in gangs}
    latest = datetime.fromisoformat(why["estimated_start"]["latest"])
    assert latest <= asked + timedelta(seconds=GRACE_S + 5)

    states = []
    running = settle(
        lambda: (
            job
            if (job := lead.job(wanted["id"]))
            and (states.append(job["state"]) or True)
            and job["state"] == "running"
            else None
        )
    )
    started = datetime.fromisoformat(running["started_at"])
    assert set(states) <= {"queued", "starting", "running"}
    slots = running["current_attempt"]["slots"]
    assert [slot["mgpu"] for slot in slots] == [8000] * 25
    assert running["current_attempt"]["borrowed_mgpu"] == 0

    # Who exits on notice frees at once; who ignores it is stopped at the end of the grace.
    for victim in victims:
        (first, *_) = admin.get(f"/jobs/{victim}/attempts")["items"]
        notice = datetime.fromisoformat(first["notice_at"])
        released = datetime.fromisoformat(first["released_at"])
        assert released <= started
        is_polite = admin.job(victim)["script"] == POLITE
        assert (released - notice < timedelta(seconds=GRACE_S)) == is_polite

    # Nobody fell below the guarantee, and the preempted run again as attempt 2.
    assert admin.use("ai-company/production")["in_use_mgpu"] >= 400_000
    lead.until(wanted["id"], "succeeded")
    for victim in victims:
        job = admin.until(victim, "running")
        assert job["attempt"] == 2

    # Everything else runs on, and ends; finance's report adds up to the second.
    for job in [*jobs, *gangs]:
        admin.until(job["id"], "running")
    for job in [*jobs, *gangs]:
        admin.post(f"/jobs/{job['id']}/cancel")
    for job in [*jobs, *gangs]:
        admin.until(job["id"], "cancelled")
    finance = tidegate.caller_in("finance")
    ended = datetime.now(UTC)
    period = {
        "start": (began - timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "end": (ended + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    report = finance.get("/reports/chargeback", **period)
    assert report["check"]["is_equal"]
    teams = {row["keys"]["team"]: row for row in report["rows"]}
    assert teams[INFERENCE]["borrowed_mgpu_s"] > 0
    assert teams["ai-company/research/nlp"]["borrowed_mgpu_s"] == 0
    nlp_s = (
        datetime.fromisoformat(lead.job(wanted["id"])["current_attempt"]["released_at"]) - started
    ).total_seconds()
    assert teams["ai-company/research/nlp"]["guaranteed_mgpu_s"] == 200_000 * nlp_s
    # What was taken back within ten minutes of its start is free, and counts as used.
    assert [team for team, row in teams.items() if row["fault_mgpu_s"]] == [INFERENCE]
    classes = ("guaranteed", "borrowed", "unpaid", "fault")
    used = sum(row[f"{kind}_mgpu_s"] for row in teams.values() for kind in classes)
    assert used == report["check"]["segments_mgpu_s"]
    (pool,) = finance.get("/reports/chargeback/idle", **period)["pools"]
    assert pool["in_use_mgpu_s"] == used
    held = pool["in_use_mgpu_s"] + pool["outside_mgpu_s"]
    unused = pool["idle_mgpu_s"] + pool["spare_mgpu_s"]
    assert pool["capacity_mgpu_s"] + pool["over_mgpu_s"] - held == unused >= 0


def test_no_log_has_a_secret_of_the_demo(tidegate: Tidegate) -> None:
    """It was started in the background, so the supervisor's output is a log, too."""
    logs = {path.name: path.read_bytes() for path in (tidegate.state / "log").rglob("*.log*")}
    assert {"load_demo.log", "supervisor.log", "web.log"} <= set(logs)
    secrets = [
        secret.encode()
        for persona in tidegate.personas.values()
        for secret in (persona.password, persona.token)
    ]
    assert [name for name, text in logs.items() if any(secret in text for secret in secrets)] == []
    assert (tidegate.state / "demo.json").stat().st_mode & 0o777 == 0o600

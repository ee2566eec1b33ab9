"""The story of the worked example: lend, reclaim, give back, restart."""

from __future__ import annotations

from arbiter.api.plan import Code
from builders.arbiter_builders import (
    COMPANY,
    COMPANY_RANKS,
    GPU,
    NOW,
    World,
    a_queued,
    a_snapshot,
    devices,
)
from builders.arbiter_plans import started

NLP, INFERENCE = "ai/research/nlp", "ai/production/inference"


def the_company() -> World:
    """1,000 GPUs; sandbox wants its 200, vision 100, inference ever more in pieces of 4 or 20."""
    queued = [
        a_queued("sandbox", "ai/exploration/sandbox", nodes=25, gpus=8, submitted_at=NOW - 900)
    ]
    queued += [
        a_queued(f"vision-{i}", "ai/research/vision", nodes=5, gpus=4, submitted_at=NOW - 800 + i)
        for i in range(5)
    ]
    queued += [
        a_queued(f"infer-{i:02d}", INFERENCE, nodes=5, gpus=4, submitted_at=NOW - 700 + i)
        for i in range(40)
    ]
    return World(
        a_snapshot(quotas=COMPANY, ranks=COMPANY_RANKS, devices=devices(125), queued=queued)
    )


def held(world: World, team: str) -> int:
    return sum(run.mgpu for run in world.running.values() if run.team == team)


def test_production_fills_what_research_leaves_idle() -> None:
    world = the_company()
    plan = world.step()
    assert held(world, INFERENCE) == 700 * GPU
    assert held(world, "ai/research/vision") == 100 * GPU
    assert held(world, "ai/exploration/sandbox") == 200 * GPU
    production, inference = world.use("ai/production"), world.use(INFERENCE)
    assert (production.in_use_mgpu, production.borrowed_mgpu) == (700 * GPU, 300 * GPU)
    assert (inference.in_use_mgpu, inference.borrowed_mgpu) == (700 * GPU, 420 * GPU)
    assert world.use("ai/research").lent_mgpu == 300 * GPU
    assert world.use("ai/production/training").lent_mgpu == 120 * GPU
    assert world.use("ai").available_mgpu == 0
    by_job = {start.job: start.guaranteed_mgpu for start in plan.starts}
    inference_parts = [by_job[f"infer-{i:02d}"] for i in range(35)]
    assert inference_parts == [20 * GPU] * 14 + [0] * 21
    assert plan.reclaims == ()
    assert world.waiting("infer-35").code is Code.WAITING_FOR_FREE_GPUS
    assert world.waiting("infer-39").jobs_ahead == 4


def the_reclaim() -> World:
    """The company 1,000 s later, when nlp asks for its 200 GPUs."""
    world = the_company()
    world.step()
    world.now = NOW + 1_000
    world.submit(a_queued("gang", NLP, nodes=25, gpus=8, submitted_at=NOW + 990))
    return world


def test_nlp_takes_its_guarantee_back_from_the_youngest_borrowers() -> None:
    world = the_reclaim()
    plan = world.step()
    assert plan.starts == ()
    (reclaim,) = plan.reclaims
    assert reclaim.job == "gang"
    assert len(reclaim.slots) == 25
    assert {slot.mgpu for slot in reclaim.slots} == {8 * GPU}
    assert sum(victim.mgpu for victim in reclaim.victims) == 200 * GPU
    assert {victim.team for victim in reclaim.victims} == {INFERENCE}
    assert {victim.grace_s for victim in reclaim.victims} == {300}
    protected = {f"infer-{i:02d}" for i in range(14)}
    assert not protected & {victim.job for victim in reclaim.victims}
    waits = world.waiting("gang")
    assert waits.code is Code.WAITING_FOR_RECLAIM
    assert waits.numbers == {
        "need_mgpu": 200 * GPU,
        "guaranteed_mgpu": 200 * GPU,
        "within_guarantee_mgpu": 200 * GPU,
        "coming_back_mgpu": 200 * GPU,
        "earmarked_mgpu": 0,
        "victims": 10,
        "grace_left_s": 300,
    }
    assert (waits.earliest, waits.latest, waits.method) == (NOW + 1_000, NOW + 1_300, "reclaim")


def test_what_comes_free_early_is_kept_and_the_gang_never_starts_in_part() -> None:
    world = the_reclaim()
    victims = [victim.job for victim in world.step().reclaims[0].victims]
    for i, victim in enumerate(victims[:-1]):
        world.leave(victim)
        plan = world.step(world.now + 1)
        assert plan.starts == ()
        assert plan.reclaims == ()
        assert plan.dropped_claims == ()
        numbers = world.waiting("gang").numbers
        assert numbers["earmarked_mgpu"] == (i + 1) * 20 * GPU
        assert numbers["coming_back_mgpu"] == 200 * GPU - (i + 1) * 20 * GPU
        assert numbers["grace_left_s"] == 300 - i - 1
    world.leave(victims[-1])
    plan = world.step(world.now + 1)
    assert started(plan) == ["gang"]
    assert plan.starts[0].guaranteed_mgpu == 200 * GPU
    assert held(world, INFERENCE) == 500 * GPU
    assert world.use("ai/research").in_use_mgpu == 300 * GPU


def test_who_ignores_the_notice_is_gone_at_the_end_of_the_grace() -> None:
    world = the_reclaim()
    world.step()
    assert started(world.step(NOW + 1_299)) == []
    assert started(world.step(NOW + 1_300)) == ["gang"]


def test_the_preempted_restart_when_gpus_come_free() -> None:
    world = the_reclaim()
    victims = {victim.job for victim in world.step().reclaims[0].victims}
    world.step(NOW + 1_300)
    assert victims <= world.queued.keys()
    assert world.waiting(min(victims)).code is Code.WAITING_FOR_FREE_GPUS
    world.leave("gang")
    plan = world.step(NOW + 2_000)
    assert set(started(plan)) == victims
    assert all(world.running[job].attempt == f"{job}.2" for job in victims)
    assert all(start.guaranteed_mgpu == 0 for start in plan.starts)


def test_nobody_else_of_production_is_pushed_below_its_guarantee() -> None:
    world = the_reclaim()
    world.step()
    world.step(NOW + 1_300)
    world.submit(
        a_queued("train", "ai/production/training", nodes=15, gpus=8, submitted_at=NOW + 1_310)
    )
    world.submit(
        a_queued("speech", "ai/research/speech", nodes=10, gpus=8, submitted_at=NOW + 1_311)
    )
    plan = world.step(NOW + 1_320)
    # Both teams use nothing of their guarantees; research has used less than production.
    assert [reclaim.job for reclaim in plan.reclaims] == ["speech", "train"]
    world.step(NOW + 1_700)
    assert held(world, "ai/production/training") == 120 * GPU
    assert held(world, "ai/research/speech") == 80 * GPU
    assert held(world, INFERENCE) == 300 * GPU
    assert world.use(INFERENCE).protected_mgpu == 280 * GPU


def test_beyond_its_own_guarantee_a_team_draws_on_what_its_department_leaves_idle() -> None:
    world = the_reclaim()
    world.step()
    world.step(NOW + 1_300)
    world.submit(a_queued("more", NLP, nodes=1, gpus=8, submitted_at=NOW + 1_310))
    plan = world.step(NOW + 1_320)
    assert [reclaim.job for reclaim in plan.reclaims] == ["more"]
    assert {victim.team for victim in plan.reclaims[0].victims} == {INFERENCE}


def test_a_department_at_its_guarantee_reclaims_nothing() -> None:
    world = the_reclaim()
    world.step()
    world.step(NOW + 1_300)
    world.submit(a_queued("a", NLP, nodes=10, gpus=8, submitted_at=NOW + 1_310))
    world.submit(a_queued("b", "ai/research/vision", nodes=5, gpus=4, submitted_at=NOW + 1_311))
    world.step(NOW + 1_320)
    world.step(NOW + 1_620)
    assert world.use("ai/research").in_use_mgpu == 400 * GPU
    assert world.use("ai/production").in_use_mgpu == 400 * GPU
    world.submit(a_queued("more", NLP, nodes=1, gpus=8, submitted_at=NOW + 1_630))
    plan = world.step(NOW + 1_640)
    assert plan.reclaims == ()
    waits = world.waiting("more")
    assert waits.code is Code.WAITING_FOR_FREE_GPUS
    assert waits.numbers == {
        "need_mgpu": 8 * GPU,
        "free_mgpu": 0,
        "largest_free_on_a_cluster_mgpu": 0,
        "available_by_quota_mgpu": 0,
        "guaranteed_mgpu": 200 * GPU,
        "in_use_mgpu": 280 * GPU,
        "protected_mgpu": 200 * GPU,
        "unlimited_jobs": 29,
        "unlimited_mgpu": 1_000 * GPU,
    }

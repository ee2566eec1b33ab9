"""Laws of simulated schedules, on random small worlds in which quotas and nodes bind."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arbiter.api.policy import Policy
from builders.simulator_builders import PLAIN, a_job, a_scene
from simulator.comparison import POLICIES, bound_mgpu_s, simulate
from simulator.fleet import Fleet
from simulator.observer import Observer
from simulator.quality import judge
from simulator.scene import Scene
from simulator.schedulers.arbitrated import Arbitrated
from simulator.workload import Settings, TraceJob, prepare
from simulator.world import Outcome, Scheduler, Task, World

GRACE_S = 20
GPUS, PER_NODE = 6, 2
#: Of each node; jobs that want more than their part of it are drawn, and some that want more.
CPUS, MEMORY_MIB = 4, 100


class Watched(World):
    """Checks what no world refuses by itself: who is stopped, and what quotas hold."""

    guaranteed: dict[str, int]
    is_static = False

    def held(self, team: str) -> int:
        """What the team's jobs hold that are not being stopped, and what is claimed for others of
        them: for the arbiter a claim takes its place in the guarantee like a job that runs."""
        claimed: set[int] = set()
        if isinstance(self._scheduler, Arbitrated):
            claimed = {int(job) for job in self._scheduler._book.claims}
        return sum(
            task.mgpu
            for task in self._tasks
            if task.team == team
            and (task.number in claimed or (task.is_running and task.stop_s is None))
        )

    def start(self, task: Task, nodes: tuple[str, ...]) -> None:
        super().start(task, nodes)
        if self.is_static:
            assert self.held(task.team) <= self.guaranteed[task.team]

    def stop(self, task: Task, grace_s: int) -> None:
        if "las" not in type(self._scheduler).__name__.lower():
            assert self.held(task.team) > self.guaranteed[task.team]
        super().stop(task, grace_s)


class Eager(Arbitrated):
    """Leaves no cycle out."""

    def tick(self, world: World) -> int | None:
        self._has_news = True
        return super().tick(world)


@st.composite
def jobs(draw: st.DrawFn) -> list[TraceJob]:
    found = []
    for i in range(draw(st.integers(1, 25))):
        nodes = draw(st.sampled_from([1, 1, 1, 2, 3]))
        found.append(
            a_job(
                f"j{i}",
                at=draw(st.integers(0, 120)),
                runs=draw(st.integers(1, 80)),
                gpus=draw(st.integers(1, PER_NODE)),
                nodes=nodes,
                team=draw(st.sampled_from("abc")),
                cpus=draw(st.sampled_from([None, None, 0, 1, 3, 4, 5])),
                memory_mib=draw(st.sampled_from([None, None, None, 40, 80])),
            )
        )
    return found


@st.composite
def guarantees(draw: st.DrawFn) -> dict[str, int]:
    a = draw(st.integers(0, GPUS))
    b = draw(st.integers(0, GPUS - a))
    return {"a": a, "b": b, "c": draw(st.integers(0, GPUS - a - b))}


def the_scene(shares: dict[str, int]) -> Scene:
    policy = Policy(grace_period_s_default=GRACE_S)
    return a_scene(
        shares, gpus=GPUS, per_node=PER_NODE, policy=policy, cpus=CPUS, memory_mib=MEMORY_MIB
    )


def played(
    name: str, found: list[TraceJob], shares: dict[str, int], *, failures: bool, **knobs: int
) -> Outcome:
    scene = the_scene(shares)
    chosen = Settings(
        **{
            **PLAIN,
            "checkpointable_percent": 50,
            "checkpoint_interval_s": 7,
            "restart_s": 3,
            "save_s": 5,
            "failure_interval_s": 150 if failures else 0,
            "repair_s": 11,
            **knobs,
        }
    )
    fleet = Fleet(scene.machines, found)
    whole = dict(fleet.free)
    eager = name == "eager"
    scheduler: Scheduler = (
        Eager(scene, fleet, chosen) if eager else POLICIES[name](scene, fleet, chosen)
    )
    works = prepare(found, chosen)
    observer = Observer(scene, horizon_s=works[-1].job.submit_s, tolerance_s=GRACE_S)
    teams = {team: team for team in shares}
    world = Watched(works, fleet, scheduler, chosen, observer, teams)
    world.guaranteed = dict(scene.teams)
    world.is_static = name == "static"
    outcome = world.run()
    assert fleet.free == whole or failures
    if not failures:
        used = sum(team.used_mgpu_s for team in observer.teams.values())
        assert sum(outcome.idle_mgpu_s.values()) == fleet.capacity_mgpu * outcome.horizon_s - used
    return outcome


CALM = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@CALM
@given(jobs(), guarantees(), st.sampled_from(sorted(POLICIES)), st.booleans())
def test_every_job_runs_to_its_end_exactly_once_in_all(
    found: list[TraceJob], shares: dict[str, int], name: str, failures: bool
) -> None:
    """No GPU, CPU or memory twice, gangs whole, quotas kept, no victim at or below its guarantee
    (the world and `Watched` refuse); and the work that counts is the work there was. Planted: a
    victim's saved work forgotten when it is stopped again; Karma stopping jobs of teams that are
    within their guarantee; static forgetting what it started; a claim that keeps no CPU. What is
    idle by all causes is what nobody uses. Planted: what jobs take in thought counted as left."""
    outcome = played(name, found, shares, failures=failures)
    done = [task for task in outcome.tasks if task.finish_s is not None]
    assert len(done) + outcome.refused == len(found)
    work = sum(task.mgpu * task.work.job.duration_s for task in done)
    assert outcome.useful_mgpu_s == work
    if not failures and not outcome.preemptions:
        assert (outcome.lost_mgpu_s, outcome.overhead_mgpu_s) == (0, 0)


@CALM
@given(jobs(), guarantees(), st.sampled_from(sorted(POLICIES)), st.sampled_from([0, 5_000]))
def test_no_policy_does_more_than_the_bound(
    found: list[TraceJob], shares: dict[str, int], name: str, last_s: int
) -> None:
    """Also where all is done when the last job comes. Planted: GPU time that was held counted, with
    what was lost and spent on restarts."""
    outcome = played(name, [*found, a_job("last", at=last_s)], shares, failures=True)
    bound = bound_mgpu_s([task.work for task in outcome.tasks], the_scene(shares))
    done = judge(outcome, capacity_mgpu=GPUS * 1_000, bound_mgpu_s=bound, alone=None).of_bound
    assert done is None or done <= 1


@CALM
@given(jobs(), guarantees(), st.sampled_from(sorted(POLICIES)))
def test_the_same_seed_gives_the_same_log(
    found: list[TraceJob], shares: dict[str, int], name: str
) -> None:
    first = played(name, found, shares, failures=True)
    assert played(name, found, shares, failures=True).log == first.log


@CALM
@given(jobs(), guarantees())
def test_cpu_and_memory_that_no_node_says_it_has_change_nothing(
    found: list[TraceJob], shares: dict[str, int]
) -> None:
    """Planted: our policy told of them; it has classes of jobs by what they want."""
    without = [replace(job, cpu_milli=None, memory_mib=None) for job in found]
    chosen = Settings(**PLAIN)
    scene = a_scene(shares, gpus=GPUS, per_node=PER_NODE)
    teams = {team: team for team in shares}
    logs = [
        simulate(prepare(jobs, chosen), scene, chosen, teams, Arbitrated.name).log
        for jobs in (found, without)
    ]
    assert logs[0] == logs[1]


@CALM
@given(jobs(), guarantees(), st.sampled_from([1, 5]), st.booleans())
def test_cycles_that_are_left_out_would_have_decided_nothing(
    found: list[TraceJob], shares: dict[str, int], cycle_s: int, failures: bool
) -> None:
    """Planted: jobs with a claim counted among those that wait in vain; no news when a node is
    back."""
    log = played("tidegate", found, shares, failures=failures, cycle_s=cycle_s).log
    assert played("eager", found, shares, failures=failures, cycle_s=cycle_s).log == log


@CALM
@given(jobs(), guarantees())
def test_a_team_within_its_guarantee_waits_a_grace_and_two_cycles_at_most(
    found: list[TraceJob], shares: dict[str, int]
) -> None:
    """On nodes of one GPU, where every free one will do, nothing but the guarantee decides."""
    single = [a_job(one.id, at=one.submit_s, runs=one.duration_s, team=one.team) for one in found]
    policy = Policy(grace_period_s_default=GRACE_S)
    scene = a_scene(shares, gpus=GPUS, per_node=1, policy=policy)
    chosen = Settings(**PLAIN)
    works = prepare(single, chosen)
    observer = Observer(scene, horizon_s=works[-1].job.submit_s, tolerance_s=GRACE_S)
    fleet = Fleet(scene.machines)
    world = World(
        works,
        fleet,
        Arbitrated(scene, fleet, chosen),
        chosen,
        observer,
        {team: team for team in shares},
    )
    world.run()
    latest = [wait for team in observer.teams.values() for wait in team.entitled_s]
    assert max(latest, default=0) <= GRACE_S + 2

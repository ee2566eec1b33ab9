"""A generated trace with many large jobs: 55 % of the jobs ask for 1 GPU, 34 % for 8 and more.

The public traces of quality.md ask for 1 GPU in four of five jobs. Here gangs of 16 to 64 GPUs ask
for three fifths of the GPU time, so that whole nodes are what is short.
"""

from __future__ import annotations

import random
from math import exp, log
from statistics import NormalDist

from arbiter.api.snapshot import Quota, TreeNode
from simulator.scene import POOL, QuotaTree
from simulator.workload import TraceJob, gang

#: GPUs that jobs ask for, each as likely as it stands here often, of 100.
SIZES = (1,) * 55 + (2,) * 5 + (4,) * 6 + (8,) * 20 + (16,) * 8 + (32,) * 4 + (64,) * 2
TEAMS = tuple(f"t{i:02d}" for i in range(12))
USERS = 4

#: Seconds that jobs run: 60 and a lognormal number more, at most three days. Median 4.5 hours.
_LEAST_S, _MOST_S = 60, 259_200
_MU, _SIGMA = 9.7, 1.6
#: So many jobs come one after the other of which a team submits most.
_BURST, _BURST_SHARE = 40, 0.6


def mixed(count: int, gpus: int, load: float, seed: int) -> tuple[TraceJob, ...]:
    """`count` jobs that ask for `load` times what nodes of 8 GPUs, `gpus` in all, could do until
    the last of them comes. They come as a Poisson process, in bursts by team."""
    dice = random.Random(seed)
    apart_s = _mean_work_gpu_s() / (load * gpus)
    jobs: list[TraceJob] = []
    at = 0.0
    for i in range(count):
        mgpu, nodes = gang(dice.choice(SIZES), 8)
        duration_s = min(_MOST_S, _LEAST_S + int(dice.lognormvariate(_MU, _SIGMA)))
        at += dice.expovariate(1.0) * apart_s
        bursting = TEAMS[i // _BURST * 7 % len(TEAMS)]
        team = bursting if dice.random() < _BURST_SHARE else dice.choice(TEAMS)
        user = f"u{dice.randrange(USERS)}"
        jobs.append(TraceJob(f"g{i}", team, user, int(at), duration_s, mgpu, nodes))
    return tuple(jobs)


def mixed_quotas() -> QuotaTree:
    """Guarantees of the teams as shares, 1 to 2 to 3 in turn: to be scaled to the fleet."""
    return QuotaTree(
        tuple(TreeNode(team, None) for team in TEAMS),
        tuple(Quota(team, POOL, 1_000 * (1 + i % 3)) for i, team in enumerate(TEAMS)),
    )


def _mean_work_gpu_s() -> float:
    """What a job asks for in the mean, in GPU-seconds."""
    most = _MOST_S - _LEAST_S
    normal, cut = NormalDist(), (log(most) - _MU) / _SIGMA
    mean_s = exp(_MU + _SIGMA**2 / 2) * normal.cdf(cut - _SIGMA) + most * (1 - normal.cdf(cut))
    return sum(SIZES) / len(SIZES) * (_LEAST_S + mean_s)

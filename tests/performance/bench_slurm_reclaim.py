"""How soon the next gang runs on Slurm when a preempted one has ended: the whole product.

    python tests/performance/bench_slurm_reclaim.py [--smoke]

Runs on the bed of `make slurm-bed` as root; without one it says so and takes no figures. What is
measured is that of `bench_kube_reclaim`, with settle_s 7: from the moment at which the controller
lists the victim no more as running or completing. One kind of victim saves for 10 s, the other does
not listen and is killed after a grace of 10 s: the next gang's submission settles meanwhile.

Targets: granted within 2 s (the controller is asked once a second), running within 3 s.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from bed import a_database, wait_until
from bench_kube_reclaim import Portal, Sizes
from bench_slurm import the_bed

if TYPE_CHECKING:
    from jobs.models import Attempt

FULL = Sizes(gangs=4, nodes=8)
SMOKE = Sizes(gangs=1, nodes=2)
STRICT_SETTLE_S = 7


class SlurmPortal(Portal):
    """Its two teams on the nodes of a Slurm."""

    kind = "slurm"
    granted_within_s = 2.0
    saves = "trap 'sleep 10; exit 0' USR1 TERM; sleep 3600 & wait"
    short_grace_s = 10

    def let_in(self) -> None:
        """See `Portal`."""
        from builders.slurm_loop import let_in
        from quotas.models import ClusterUser

        name = self.rig.bed.users[0]
        ClusterUser.objects.create(cluster=self.cluster, user=self.user, name=name)
        for team in (self.lender, self.borrower):
            let_in(self.rig.bed, team.path.rstrip("/"), name)

    def note_end(self, victim: Attempt, ended: list[float]) -> None:
        """See `Portal`; the controller's word."""
        wait_until(lambda: not self._is_there(victim), within_s=60)
        ended.append(time.perf_counter())

    def _is_there(self, victim: Attempt) -> bool:
        asked = ["squeue", "-h", "-t", "running,completing", "-o", "%i"]
        return str(victim.native_id) in self.rig.bed.run(asked).split()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small numbers: that it runs")
    sizes = SMOKE if parser.parse_args().smoke else FULL
    bed = the_bed()
    if isinstance(bed, str):
        print(f"No figures of Slurm: {bed}.")
        return
    with a_database():
        from conformance.rigs import SlurmRig

        rig = SlurmRig(bed, settle_s=STRICT_SETTLE_S)
        try:
            SlurmPortal(rig, sizes).measure()
        finally:
            rig.close()


if __name__ == "__main__":
    main()

"""`scontrol` inside of a batch job, on a cluster without Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from signal import SIG_IGN, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, signal

from batch.command_line import Refused
from batch.job_texts import STATES, duration_text, nodes_of, reason, run_time_s, time_text
from batch.portal import Portal
from primitives.hostlist import contract, expand

_OFFERED = "`show hostnames`, `show hostlist`, `show job` and `requeue` are"


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Carry out a subcommand of scontrol and return its exit code."""
    words = [word for word in arguments if not word.startswith("-")]
    is_one_line = any(word in ("-o", "--oneliner") for word in arguments)
    try:
        match words:
            case ["show", "hostnames" | "hostname", *names]:
                text = ",".join(names) or environment.get("SLURM_JOB_NODELIST", "")
                print("\n".join(expand(text)))
            case ["show", "hostlist", names]:
                print(contract(names.split(",")))
            case ["show", "job" | "jobs" | "jobid", *jobs] if len(jobs) < 2:
                lines = _job(jobs[0] if jobs else "", environment)
                print((" " if is_one_line else "\n   ").join(lines))
            case ["requeue", job]:
                # The notice that this brings must not end the asking itself.
                for number in (SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP):
                    signal(number, SIG_IGN)
                portal = Portal(environment)
                portal.post(f"jobs/{portal.id_of(job)}/requeue")
            case _:
                raise Refused(
                    f"`scontrol {' '.join(words[:2])}` is not offered on this cluster; {_OFFERED}."
                )
    except ValueError as error:
        raise Refused(f"{error}.") from None
    return 0


def _job(name: str, environment: Mapping[str, str]) -> list[str]:
    """Return the lines about a job: the one named, or the one in which this runs."""
    portal = Portal(environment)
    number = environment.get("SLURM_JOB_ID", "")
    job = portal.get(f"jobs/{portal.id_of(name) if name else portal.own_id()}")
    shown = number if job["id"] == portal.own_id() else job["id"]
    return [
        f"JobId={shown} JobName={job['name']}",
        f"UserId={job['user']} Account={job['team']} QOS={job['priority_class']}",
        f"JobState={STATES[job['state']][0]} Reason={reason(job)}",
        f"Requeue={int(job['is_requeueable'])} Restarts={max(0, job['attempt'] - 1)}",
        f"RunTime={duration_text(run_time_s(job))} TimeLimit={duration_text(job['time_limit_s'])}",
        f"SubmitTime={time_text(job['submitted_at'])} StartTime={time_text(job['started_at'])}",
        f"Partition={job['pool']} NumNodes={job['node_count']}",
        f"NodeList={contract(nodes_of(job)) or '(null)'}",
    ]

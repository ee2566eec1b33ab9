"""The command line of `srun`, as srun(1) of Slurm 22.05 reads it.

Options that change nothing on a cluster without Slurm are taken and ignored. Options that ask for
something that is not offered are refused with a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batch.command_line import Argument, Options, Refused, read_command_line

_NONE, _REQUIRED, _OPTIONAL = Argument.NONE, Argument.REQUIRED, Argument.OPTIONAL

#: Long name: short name, argument.
_READ = {
    "chdir": ("D", _REQUIRED),
    "cpus-per-task": ("c", _REQUIRED),
    "distribution": ("m", _REQUIRED),
    "error": ("e", _REQUIRED),
    "exclude": ("x", _REQUIRED),
    "export": ("", _REQUIRED),
    "gpus": ("G", _REQUIRED),
    "gpus-per-node": ("", _REQUIRED),
    "gpus-per-task": ("", _REQUIRED),
    "gres": ("", _REQUIRED),
    "input": ("i", _REQUIRED),
    "jobid": ("", _REQUIRED),
    "kill-on-bad-exit": ("K", _OPTIONAL),
    "label": ("l", _NONE),
    "nodelist": ("w", _REQUIRED),
    "nodes": ("N", _REQUIRED),
    "ntasks": ("n", _REQUIRED),
    "ntasks-per-node": ("", _REQUIRED),
    "open-mode": ("", _REQUIRED),
    "output": ("o", _REQUIRED),
    "relative": ("r", _REQUIRED),
    "tasks-per-node": ("", _REQUIRED),
    "time": ("t", _REQUIRED),
    "unbuffered": ("u", _NONE),
    "wait": ("W", _REQUIRED),
}
#: They concern binding, accounting or resources that this cluster does not divide among steps.
_IGNORED = {
    "accel-bind": ("", _REQUIRED),
    "acctg-freq": ("", _REQUIRED),
    "cpu-bind": ("", _REQUIRED),
    "cpu-freq": ("", _REQUIRED),
    "comment": ("", _REQUIRED),
    "core-spec": ("S", _REQUIRED),
    "cores-per-socket": ("", _REQUIRED),
    "cpus-per-gpu": ("", _REQUIRED),
    "deadline": ("", _REQUIRED),
    "disable-status": ("X", _NONE),
    "exact": ("", _NONE),
    "exclusive": ("", _OPTIONAL),
    "extra-node-info": ("B", _REQUIRED),
    "gpu-bind": ("", _REQUIRED),
    "gpu-freq": ("", _REQUIRED),
    "gres-flags": ("", _REQUIRED),
    "hint": ("", _REQUIRED),
    "immediate": ("I", _OPTIONAL),
    "job-name": ("J", _REQUIRED),
    "mem": ("", _REQUIRED),
    "mem-bind": ("", _REQUIRED),
    "mem-per-cpu": ("", _REQUIRED),
    "mem-per-gpu": ("", _REQUIRED),
    "mpi": ("", _REQUIRED),
    "msg-timeout": ("", _REQUIRED),
    "network": ("", _REQUIRED),
    "no-kill": ("k", _OPTIONAL),
    "no-requeue": ("", _NONE),
    "ntasks-per-core": ("", _REQUIRED),
    "ntasks-per-gpu": ("", _REQUIRED),
    "ntasks-per-socket": ("", _REQUIRED),
    "overcommit": ("O", _NONE),
    "overlap": ("", _NONE),
    "oversubscribe": ("s", _NONE),
    "propagate": ("", _OPTIONAL),
    "quiet": ("Q", _NONE),
    "quit-on-interrupt": ("q", _NONE),
    "resv-ports": ("", _OPTIONAL),
    "slurmd-debug": ("", _REQUIRED),
    "sockets-per-node": ("", _REQUIRED),
    "thread-spec": ("", _REQUIRED),
    "threads": ("T", _REQUIRED),
    "threads-per-core": ("", _REQUIRED),
    "verbose": ("v", _NONE),
    "wckey": ("", _REQUIRED),
    "whole": ("", _NONE),
}
_REFUSED = {
    "bcast": ("", _OPTIONAL, "It copies no programs; give a path that every node sees."),
    "container": ("", _REQUIRED, "Name the image when the job is submitted (--image)."),
    "container-image": ("", _REQUIRED, "Name the image when the job is submitted (--image)."),
    "container-mounts": ("", _REQUIRED, "This cluster mounts nothing into containers."),
    "epilog": ("", _REQUIRED, "Run the command after srun in the script."),
    "het-group": ("", _REQUIRED, "A job here has nodes of one kind."),
    "multi-prog": ("", _NONE, "Start one srun per program, each with & and a wait at the end."),
    "prolog": ("", _REQUIRED, "Run the command before srun in the script."),
    "pty": ("", _NONE, "A batch job has no terminal."),
    "reboot": ("", _NONE, "Nodes are not restarted."),
    "reservation": ("", _REQUIRED, "There are no reservations here."),
    "task-epilog": ("", _REQUIRED, "Let the task's own command do it."),
    "task-prolog": ("", _REQUIRED, "Let the task's own command do it."),
}
#: They belong to a job, which has its values already.
_OF_JOBS = {
    "account": ("A", _REQUIRED),
    "begin": ("", _REQUIRED),
    "cluster-constraint": ("", _REQUIRED),
    "clusters": ("", _REQUIRED),
    "constraint": ("C", _REQUIRED),
    "dependency": ("d", _REQUIRED),
    "licenses": ("", _REQUIRED),
    "mail-type": ("", _REQUIRED),
    "mail-user": ("", _REQUIRED),
    "partition": ("p", _REQUIRED),
    "priority": ("", _REQUIRED),
    "qos": ("q", _REQUIRED),
    "tmp": ("", _REQUIRED),
}

_OPTIONS: Options = {
    **_READ,
    **_IGNORED,
    **{name: (short, argument) for name, (short, argument, _) in _REFUSED.items()},
    **_OF_JOBS,
}
_ALIASES = {"tasks-per-node": "ntasks-per-node"}


def read_options(arguments: Sequence[str]) -> tuple[Mapping[str, str], list[str]]:
    """Return the values of the options by their long names, and the command.

    An option without a value has "". Unknown, ambiguous and refused options raise `Refused`.
    """
    given, command = read_command_line("srun", _OPTIONS, arguments)
    found: dict[str, str] = {}
    for name, value in given:
        if name in _REFUSED:
            raise Refused(f"--{name} is not offered on this cluster. {_REFUSED[name][2]}")
        if name in _READ:
            found[_ALIASES.get(name, name)] = value
    return found, command

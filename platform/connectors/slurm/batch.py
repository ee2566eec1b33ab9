"""The batch script that runs a workload's script on its Slurm job: on every node, or once.

The batch shell runs on the first node. It starts one rank per node with srun. The only rank of a
job it starts itself, which saves the cluster a step. Ranks report on their standard output. On
their standard input, the shell tells them to pass on the notice or to give up. That needs no
controller. It works whether a signal through the REST API reaches only the shell (v0.0.38) or the
ranks too.

NOTICE_SIGNAL requests the notice. Unlike the signals that scripts know, it does not end a process
that does not expect it. STOP_SIGNAL has the ranks killed at once. A cancel must follow: alone it
would wait for Slurm's KillWait between TERM and KILL. Signals from Slurm itself reach all
processes.

The end of the job: the shell exits with the code of the first rank that failed, or 0. Otherwise the
shell dies of a signal:

- TIMED_OUT_SIGNAL when our own time limit ended the ranks (Slurm's limit has minutes only), or a
  rank after the notice of that limit, whatever its exit code.
- NOT_STARTED_SIGNAL when a rank could not start.
- STOPPED_SIGNAL when no cancel followed a stop.

Beside its outputs, a job has a folder for files that the portal lists, in `TIDEGATE_OUTPUT_DIR`.
While outputs grow, a rank's shell notes once a second how large they are. Ranks also leave their
exit codes in files (see `connectors.slurm.logs`). As for every shell, a
script that itself exits with 129 to 192 looks like one that a signal killed.

The script of a batch job is the only rank, on the first node. It is started as the only rank of a
job is, finds Slurm's variables and the cluster's `srun`, and is told of no other rank. In a
container there is no `srun`, unless the image has one.

Somebody may make the limit longer meanwhile. So some time before its notice, a rank has the shell
ask Slurm for the job's limit: 16 s before, or less where the limit is short. The shell asks once
for each limit and tells all ranks, so that none stops while others run on. Without an answer in
that time the limit stays, and the notice comes as due. After the question it stays, too.

User input is never part of the shell's text or environment: it travels as base64.

With several ranks, `srun` inside them is a program that refuses. Slurm's own srun would wait for
the GPUs that the ranks hold, until the job's time limit.

A workload with a container image has its ranks started by pyxis, NVIDIA's plugin for srun
(https://github.com/NVIDIA/pyxis). `--container-image` names the image. `--container-mounts` lists
the directories that the container sees under their own names: the outputs of the ranks and the
working directory. `--container-workdir` is the working directory. The rank's shell runs inside the
container too, so the image must have /bin/bash and the usual tools. The batch shell and its
scontrol stay outside.
"""

from __future__ import annotations

import base64
import re
import shlex
import signal
from collections.abc import Mapping, Sequence

from batch.file_names import parts_of
from connectors.protocol import ENDING_S, Workload
from connectors.slurm.shell_texts import (
    ADDRESS,
    ALONE,
    AWAIT,
    CONTAINER,
    CONTAINER_CHECK,
    RANK,
    SHELL,
    SRUN,
)

NOTICE_SIGNAL = "URG"
STOP_SIGNAL = "ABRT"
STOPPED_SIGNAL = int(signal.SIGABRT)
TIMED_OUT_SIGNAL = int(signal.SIGXCPU)
NOT_STARTED_SIGNAL = int(signal.SIGSYS)

#: MASTER_PORT is chosen by job number below the ports that Linux gives out by itself.
_PORT_FIRST = 15_000
_PORTS = 15_000
_SHEBANG_CHARACTERS_MAX = 254


def batch_script(
    workload: Workload,
    *,
    tag: str,
    directory: str,
    gpus_per_node: int,
    path: str,
    mounts: Sequence[str] = (),
) -> str:
    """Return the batch script of `workload`, which has passed `workload_checks`.

    `tag` is the job's name, `directory` the output directory of the ranks and `path` their PATH.
    `mounts` are the directories that a container sees; the first is the working directory.
    """
    script = workload.script.encode()
    settings = _settings(workload).encode()
    values = {
        "KEY": shlex.quote(workload.key),
        "DIRECTORY": shlex.quote(directory),
        "FILES": shlex.quote(f"{directory}/{files_folder(workload.key)}"),
        "TAG": shlex.quote(tag),
        "PATH": shlex.quote(path),
        "PORT_FIRST": str(_PORT_FIRST),
        "PORTS": str(_PORTS),
        "RANKS": str(workload.ranks),
        "GPUS": str(gpus_per_node),
        "SETTINGS_BYTES": str(len(settings)),
        "SCRIPT_BYTES": str(len(script)),
        "RANK": shlex.quote(_filled(RANK.strip(), {"AWAIT": AWAIT.strip()})),
        "AWAIT": AWAIT.strip(),
        **_container(workload, mounts),
        "PAYLOAD": base64.encodebytes(settings + script).decode().strip(),
    }
    return _filled(_template(workload), values)


#: The bash text of each field that differs between ranks or is the cluster's own.
_OF_RANK = {
    "A": "$SLURM_JOB_ID",
    "J": "$SLURM_JOB_ID",
    "N": "${SLURMD_NODENAME%%.*}",
    "j": "$SLURM_JOB_ID",
    "n": "$rank",
    "s": "batch",
    "t": "$rank",
    "u": "$USER",
}


def pyxis_image(image: str) -> str:
    """Return `image` in the form of pyxis: a path, or [USER@][REGISTRY#]IMAGE[:TAG].

    Elsewhere a slash ends the registry. The first part of a name is a registry if it contains a dot
    or a colon, or is "localhost". So "nvcr.io/nvidia/pytorch" becomes "nvcr.io#nvidia/pytorch".
    """
    name = image.removeprefix("docker://")
    if name.startswith(("/", ".")) or "://" in name or "#" in name:
        return name
    registry, slash, rest = name.partition("/")
    is_registry = "." in registry or ":" in registry or registry == "localhost"
    return f"{registry}#{rest}" if slash and is_registry else name


def files_folder(key: str) -> str:
    """Return the name of the folder of a workload's own files, in the output directory."""
    return f"{key}-files"


def _filled(template: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z0-9_]+)@", lambda found: values[found[1]], template)


def _template(workload: Workload) -> str:
    """Return the shell's text for this kind of workload, with its values not filled in.

    A single rank needs srun only for a container: a step of its own would double the cost of a
    start for the cluster.
    """
    is_contained = workload.image is not None
    is_alone = workload.ranks == 1 and not is_contained
    parts = {
        "ADDRESS": "" if is_alone else ADDRESS,
        "START": ALONE if is_alone else SRUN,
        "CONTAINER": CONTAINER if is_contained else "",
        "CONTAINER_OPTIONS": ' "${container[@]}"' if is_contained else "",
        "CONTAINER_CHECK": CONTAINER_CHECK if is_contained else "",
    }
    text = SHELL
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part.lstrip("\n"))
    return text


def _container(workload: Workload, mounts: Sequence[str]) -> Mapping[str, str]:
    if workload.image is None:
        return {}
    return {
        "IMAGE": base64.b64encode(pyxis_image(workload.image).encode()).decode(),
        "MOUNTS": shlex.quote(",".join(f"{path}:{path}" for path in mounts)),
        "WORKDIR": shlex.quote(mounts[0]),
    }


def command_of(script: str) -> list[str]:
    """Return the program that runs `script`, with its argument, as the kernel would choose it.

    The `#!` line names the program; everything after it is one argument. Without that line it is
    /bin/sh.
    """
    line = script[2:_SHEBANG_CHARACTERS_MAX].partition("\n")[0].strip(" \t")
    if not script.startswith("#!") or not line:
        return ["/bin/sh"]
    command = re.split(r"[ \t]+", line, maxsplit=1)
    # env would take a program with "=" in its path for a variable.
    return ["/bin/sh", "-c", 'exec "$@"', "sh", *command] if "=" in command[0] else command


def _own_files(workload: Workload) -> str:
    """Return the author's folder and files as bash assignments, which each rank evaluates."""
    files = workload.files
    names = ""
    for variable, first, other in zip(
        ("output_file", "error_file"), files.of_rank(0), files.of_rank(1), strict=True
    ):
        word = "" if first is None else _file_word(first, files.values)
        is_for_first_only = workload.ranks > 1 and first != other
        condition = f'{variable}=; [ "$rank" != 0 ] || ' if is_for_first_only else ""
        names += f"{condition}{variable}={word}\n"
    return (
        f"folder={shlex.quote(files.folder or '')}\nappends={'1' if files.appends else ''}\n{names}"
    )


def _file_word(pattern: str, values: Mapping[str, str]) -> str:
    """Return the bash word that is the name of a file on the rank's node."""
    known = {name: value for name, value in values.items() if name in "ax"}
    # Tasks of one array share its number. Elsewhere the numbers are those of this Slurm.
    if values.get("A") != values.get("j"):
        known["A"] = values["A"]
    word = []
    for part in parts_of(pattern):
        if isinstance(part, str):
            word.append(shlex.quote(part))
        elif part.letter in known:
            word.append(shlex.quote(known[part.letter].zfill(part.width)))
        elif part.width:
            word.append(f'"$(printf %0{part.width}d "{_OF_RANK[part.letter]}")"')
        else:
            word.append(f'"{_OF_RANK[part.letter]}"')
    return "".join(word)


def _settings(workload: Workload) -> str:
    """Return the settings of the ranks as bash assignments."""
    limit_ms = 1_000 * (workload.time_limit_s or 0)
    batch = workload.batch
    variables = [f"{name}={value}" for name, value in workload.environment.items()]
    if batch is not None:
        # To Slurm the job has the name by which it is found again.
        variables.append(f"SLURM_JOB_NAME={workload.name}")
    return (
        f"command=({shlex.join(command_of(workload.script))})\n"
        f"arguments=({shlex.join(workload.arguments)})\n"
        f"is_batch={'1' if batch else ''}\n"
        f"{_own_files(workload)}"
        f"variables=({shlex.join(variables)})\n"
        f"notice_signal={workload.notice_signal}\n"
        f"notice_number={signal.Signals[f'SIG{workload.notice_signal}'].value}\n"
        f"shell_only={'1' if workload.signals_shell_only else ''}\n"
        f"grace_s={workload.grace_s}\n"
        f"ending_s={min(workload.grace_s, ENDING_S)}\n"
        f"limit_ms={limit_ms}\n"
        f"ahead_ms={1_000 * workload.wanted_ahead_s}\n"
    )

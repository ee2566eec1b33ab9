"""Checks of text for a cluster. Text that Slurm cannot carry is refused with a sentence."""

from __future__ import annotations

import re

from connectors.errors import WorkloadRejected
from connectors.slurm.neutral import Association, Qos, Submission

MAX_SCRIPT_BYTES = 3_900_000
MAX_ENVIRONMENT_BYTES = 1_000_000
_MAX_LINE = 4_096
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,127}", re.ASCII)
_LINE = re.compile(r"[^\x00-\x1f\x7f]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}", re.ASCII)
# A name that Slurm does not know cancels the job on some versions, so only these go out.
SIGNALS = frozenset(
    {
        *("HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "USR2", "ALRM", "TERM"),
        *("CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG"),
    }
)


def check_name(what: str, name: str) -> None:
    """Check the name of a user, account, node or the like. Raises WorkloadRejected."""
    if not _NAME.fullmatch(name):
        raise WorkloadRejected(
            f"{what} {name[:80]!r} is no name for Slurm: 1 to 128 of A-Z a-z 0-9 _ . @ + -"
        )


def check_line(what: str, text: str) -> None:
    """Check one line of text without control characters. Raises WorkloadRejected."""
    if len(text) > _MAX_LINE or not _LINE.fullmatch(text):
        raise WorkloadRejected(
            f"the {what} must be one line of at most {_MAX_LINE} characters without control "
            "characters"
        )
    _check_encoding(what, text)


def check_signal(signal: str) -> None:
    """Check a signal name without SIG. Raises WorkloadRejected."""
    if signal not in SIGNALS:
        raise WorkloadRejected(f"{signal[:20]!r} is none of the signals {sorted(SIGNALS)}")


def check_submission(submission: Submission) -> None:
    """Raise WorkloadRejected with a sentence for the first field that Slurm cannot carry."""
    names = ("account", "partition", "qos", *(("gres_type",) if submission.has_gpus else ()))
    for what in names:
        check_name(what, getattr(submission, what))
    for what in ("name", "comment", "working_directory", "standard_output", "standard_error"):
        check_line(what, getattr(submission, what))
    if not submission.name:
        raise WorkloadRejected("a job needs a name to be found by")
    if not submission.working_directory.startswith("/"):
        raise WorkloadRejected("the working directory must be an absolute path")
    if submission.constraint is not None:
        check_line("constraint", submission.constraint)
    for node in submission.excluded_nodes:
        check_name("excluded node", node)
    for what, least in (("gpus_per_node", 1), ("node_count", 1), ("tasks_per_node", 1)):
        if getattr(submission, what) < least:
            raise WorkloadRejected(f"{what} must be at least {least}")
    for what in ("cpus_per_task", "memory_mb_per_node", "time_limit_minutes"):
        # 0 is "all memory of the node" or "no limit" in places: never by accident.
        if (count := getattr(submission, what)) is not None and count < 1:
            raise WorkloadRejected(f"{what} must be at least 1 or left out")
    _check_script(submission.script)
    _check_environment(submission)


def _check_script(script: str) -> None:
    if not script.startswith("#!"):
        raise WorkloadRejected('the script must start with "#!" and its interpreter')
    if "\0" in script:
        raise WorkloadRejected("the script must not hold a NUL character")
    _check_encoding("script", script)
    if len(script.encode()) > MAX_SCRIPT_BYTES:
        raise WorkloadRejected(f"the script must be at most {MAX_SCRIPT_BYTES} bytes")


def _check_environment(submission: Submission) -> None:
    if not submission.environment:
        raise WorkloadRejected("the environment must not be empty: give at least PATH")
    size = 0
    for variable, value in submission.environment.items():
        if not _VARIABLE.fullmatch(variable):
            raise WorkloadRejected(f"{variable[:80]!r} is no name for an environment variable")
        if "\0" in value:
            raise WorkloadRejected(f"the variable {variable} must not hold a NUL character")
        _check_encoding(f"variable {variable}", value)
        size += len(variable) + len(value.encode()) + 2
    if size > MAX_ENVIRONMENT_BYTES:
        raise WorkloadRejected(f"the environment must be at most {MAX_ENVIRONMENT_BYTES} bytes")


def _check_encoding(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise WorkloadRejected(f"the {what} is no valid text") from error


def check_association(association: Association) -> None:
    """Raise WorkloadRejected for names that Slurm cannot carry."""
    check_name("account", association.account)
    check_name("cluster", association.cluster)
    for what in ("user", "partition", "parent_account", "default_qos"):
        if name := getattr(association, what):
            check_name(what, name)
    for name in association.qos:
        check_name("QOS", name)


def check_qos(qos: Qos) -> None:
    """Raise WorkloadRejected for names that Slurm cannot carry."""
    check_name("QOS", qos.name)
    check_line("description", qos.description)
    for name in (*qos.flags, *qos.preempts, *qos.preempt_mode):
        check_name("QOS", name)

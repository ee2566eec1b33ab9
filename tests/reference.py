"""Writes pages of docs that follow from the code or from files; `make reference` runs it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import typer

from arbiter.api.plan import NUMBERS, Code, Waiting
from arbiter.explain.sentences import sentence
from builders.arbiter_builders import GPU, a_queued
from cli.main import app
from primitives.units import DeviceKind

REPO = Path(__file__).resolve().parents[1]
PAGES = REPO / "docs/reference"
GUIDE = REPO / "docs/guide"

_GENERATED = (
    "<!-- Written by `make reference`. Change the code or tests/reference.py, not this file. -->\n"
)

#: Of each reason code: what it means, and what the owner of the job can do.
REASONS = {
    "waiting_for_free_gpus": (
        "Too few GPUs are free.",
        "Wait, ask for fewer GPUs, or accept another pool.",
    ),
    "waiting_for_reclaim": (
        "Borrowers give GPUs back for this job.",
        "Wait one grace period.",
    ),
    "waiting_for_guarantee": (
        "The guarantee covers the job, but no GPUs can be freed for it now.",
        "Wait until a job of the team ends, or until nodes are repaired.",
    ),
    "borrow_limit_reached": (
        "The team may borrow no more.",
        "Wait, or ask the team lead for a higher borrow limit.",
    ),
    "parent_limit_reached": (
        "A department or the organization may use no more.",
        "Wait, or ask for a change of its quota.",
    ),
    "reserved_for_larger_job": (
        "The job would delay a larger job that comes first.",
        "Set a time limit that ends before the time in the sentence.",
    ),
    "behind_credits": (
        "A team of equal rank with more credits comes first.",
        "Wait, or let your guarantee be lent: lending earns credits.",
    ),
    "behind_fair_share": (
        "A team that used less of its share comes first.",
        "Wait. Past use counts half after each half-life.",
    ),
    "behind_higher_priority": (
        "A job of the same team comes first.",
        "Use a higher priority class, if you may.",
    ),
    "topology_fragmented": (
        "Enough GPUs are free, but not together.",
        "Use smaller parts, drop features, or make the topology a preference.",
    ),
    "class_cap_reached": (
        "The team uses all GPUs that the priority class allows.",
        "Use another class, or ask an administrator for a higher cap.",
    ),
    "cluster_unavailable": (
        "No cluster that may run the job accepts jobs now.",
        "Wait, or accept other clusters.",
    ),
    "maintenance": (
        "The job could still run in a maintenance of its cluster, or of nodes.",
        "Set a time limit that ends before it, or accept another cluster. Else wait for its end.",
    ),
    "never_fits": (
        "No cluster could run the job, even if all were empty.",
        "Cancel it, and submit a request that fits.",
    ),
    "dependency": (
        "The job waits for other jobs.",
        "Wait until they end, or cancel this job.",
    ),
    "array_limit_reached": (
        "As many tasks of the array run as its limit allows.",
        "Wait until a task ends.",
    ),
    "singleton": (
        "The job is a singleton, and another job of its user and name runs or comes first.",
        "Wait, or cancel the other job.",
    ),
    "begin_time": ("The begin time of the job is in the future.", "Wait until then."),
    "budget_exhausted": (
        "A budget of the user, the team or a node above it has too little left for the job, or "
        "stops borrowing.",
        "Give a shorter time limit, ask for fewer GPUs, or ask for a larger budget.",
    ),
    "user_cap_reached": (
        "The user has as many GPUs in the team as the cap allows, or the job is larger.",
        "Wait for an own job to end, ask for fewer GPUs, or ask a lead for a higher cap.",
    ),
    "team_archived": (
        "The team is archived.",
        "Ask an administrator to restore the team, or cancel the job.",
    ),
    "user_deactivated": (
        "The user is deactivated.",
        "Ask an administrator to reactivate the user, or cancel the job.",
    ),
    "cluster_archived": (
        "The job is pinned to a cluster that is archived.",
        "Ask an administrator to restore the cluster, or cancel the job.",
    ),
    "pool_archived": (
        "All pools that the job accepts are archived.",
        "Ask an administrator to restore a pool, or cancel the job.",
    ),
    "held_by_user": ("A person holds the job.", "Release it: `tidegate release JOB`."),
    "dispatching": ("The job is being sent to its cluster.", "Wait some seconds."),
    "not_yet_decided": (
        "No cycle has looked at the job yet.",
        "Wait some seconds. If it stays, ask the operator whether the arbiter runs.",
    ),
    "not_waiting": ("The job runs, is being stopped, or has ended.", "Nothing."),
    "would_start": ("A preview: the job would start now.", "Submit it."),
}

_TEAM, _DEPARTMENT = "ai-company/research/nlp", "ai-company/research"
_AHEAD = "ai-company/research/vision"
_EXAMPLES: dict[Code, dict[str, int]] = {
    Code.NEVER_FITS: {"need_mgpu": 16 * GPU, "could_ever_mgpu": 12 * GPU},
    Code.WAITING_FOR_GUARANTEE: {
        "need_mgpu": 16 * GPU,
        "largest_free_on_a_cluster_mgpu": 3 * GPU,
    },
    Code.BORROW_LIMIT_REACHED: {"limit_mgpu": 96 * GPU, "held_mgpu": 90 * GPU},
    Code.PARENT_LIMIT_REACHED: {"limit_mgpu": 400 * GPU, "held_mgpu": 392 * GPU},
    Code.WAITING_FOR_FREE_GPUS: {
        "need_mgpu": 16 * GPU,
        "free_mgpu": 3 * GPU,
        "largest_free_on_a_cluster_mgpu": 3 * GPU,
        "available_by_quota_mgpu": 40 * GPU,
    },
    Code.WAITING_FOR_RECLAIM: {
        "need_mgpu": 16 * GPU,
        "within_guarantee_mgpu": 16 * GPU,
        "earmarked_mgpu": 8 * GPU,
        "victims": 1,
        "grace_left_s": 252,
    },
    Code.BEHIND_HIGHER_PRIORITY: {"need_mgpu": 16 * GPU},
    Code.BEHIND_CREDITS: {
        "need_mgpu": 16 * GPU,
        "free_mgpu": 0,
        "largest_free_on_a_cluster_mgpu": 0,
        "available_by_quota_mgpu": 40 * GPU,
        "credits_tenths": -20,
        "ahead_credits_tenths": 300,
    },
    Code.BEHIND_FAIR_SHARE: {
        "need_mgpu": 16 * GPU,
        "taken_mgpu": 40 * GPU,
        "weight_permille": 250,
        "used_permille": 400,
    },
    Code.RESERVED_FOR_LARGER_JOB: {
        "need_mgpu": 16 * GPU,
        "reserved_mgpu": 128 * GPU,
        "reserved_start_at": 1_800_000_000,
    },
    Code.TOPOLOGY_FRAGMENTED: {
        "nodes_needed": 2,
        "nodes_fitting": 1,
        "mgpu_per_node": 8 * GPU,
        "largest_free_on_a_cluster_mgpu": 24 * GPU,
    },
    Code.CLASS_CAP_REACHED: {"class_cap_mgpu": 32 * GPU, "class_in_use_mgpu": 24 * GPU},
    Code.CLUSTER_UNAVAILABLE: {},
    Code.MAINTENANCE: {
        "maintenance_nodes": 4,
        "maintenance_start_at": 1_800_000_000,
        "maintenance_end_at": 1_800_014_400,
    },
}
_WITHHELD: dict[str, dict[str, int]] = {
    "dependency": {"jobs_waited_for": 3},
    "array_limit_reached": {"tasks_at_once_max": 8, "tasks_active": 8, "tasks_first": 0},
    "singleton": {},
    "begin_time": {"begin_at": 1_800_000_000},
    "budget_exhausted": {
        "room_at": 1_801_440_000,
    },
    "user_cap_reached": {
        "need_mgpu": 4 * GPU,
        "user_cap_mgpu": 16 * GPU,
        "user_in_use_mgpu": 14 * GPU,
    },
    "team_archived": {},
    "user_deactivated": {},
    "cluster_archived": {},
    "pool_archived": {},
}


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


def _table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return "".join((_row(*header), "|---" * len(header) + "|\n", *(_row(*row) for row in rows)))


def labels() -> dict[str, str]:
    """The title of each code on the pages."""
    source = (REPO / "frontend/src/jobs/words.ts").read_text()
    block = source.partition("const CODE_WORDS")[2].partition("};")[0]
    return dict(re.findall(r'^  (\w+): "(.*)",$', block, re.MULTILINE))


def _example(code: str) -> str:
    """The sentence of one made-up case, by the functions that write the real ones."""
    from jobs.queue.withholding import (
        BUDGET_EXHAUSTED,
        USER_CAP_REACHED,
        BudgetSubject,
        CapSubject,
        Shortage,
        Withheld,
        withheld_sentence,
    )

    if code in _WITHHELD:
        subject = BudgetSubject("training", _DEPARTMENT, Shortage.TOO_SMALL)
        budget = subject if code == BUDGET_EXHAUSTED else None
        capped = CapSubject(_TEAM, "h100", DeviceKind.GPU) if code == USER_CAP_REACHED else None
        return withheld_sentence(Withheld("job", code, _WITHHELD[code], budget, capped))
    if code not in set(Code):
        return ""
    job = a_queued("job", "team", gpus=8, nodes=2)
    node = {
        Code.PARENT_LIMIT_REACHED: "department",
        Code.BEHIND_CREDITS: "ahead",
        Code.BEHIND_FAIR_SHARE: "team",
        Code.BORROW_LIMIT_REACHED: "team",
    }.get(Code(code))
    waiting = Waiting("job", Code(code), _EXAMPLES[Code(code)], node)
    return sentence(waiting, job, {"team": _TEAM, "department": _DEPARTMENT, "ahead": _AHEAD})


def reason_codes() -> str:
    """The page of the reason codes."""
    label = labels()
    rows = (
        (f"`{code}`", label[code], meaning, helps) for code, (meaning, helps) in REASONS.items()
    )
    examples = ((f"`{code}`", text) for code in REASONS if (text := _example(code)))
    numbers = ((f"`{name}`", meaning) for name, meaning in NUMBERS.items())
    return (
        f"{_GENERATED}# Reason codes\n\n"
        "Every waiting job has a code, a sentence and numbers: on its page, in "
        "`tidegate why JOB` and in `GET /api/v1/jobs/{job_id}/explanation`. Codes are stable. "
        "Programs read the code and the numbers, never the sentence. "
        "[scheduling.md](../scheduling.md) has the rule behind each code.\n\n"
        "## Codes\n\n"
        + _table(("code", "on the page", "it means", "what helps"), rows)
        + "\n## Sentences\n\nOne example of each; a real job has its own numbers. The sentences "
        "of other codes depend on the state of the job.\n\n"
        + _table(("code", "example"), examples)
        + "\n## Numbers\n\nThe numbers of a reason of the scheduler. Names ending in `_mgpu` count "
        "thousandths of a GPU, names ending in `_s` count seconds.\n\n"
        + _table(("name", "meaning"), numbers)
    )


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name."""
    found = getattr(command, "commands", None)
    if found is None:
        yield path, command
        return
    for name, each in found.items():
        yield from _commands(each, f"{path} {name}")


def _help(command: Any) -> str:
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _command(name: str, command: Any) -> str:
    context = command.context_class(command, info_name=name)
    usage = " ".join(command.get_usage(context).removeprefix("Usage:").split())
    rows = (
        (f"`{record[0]}`", " ".join(record[1].split()))
        for parameter in command.get_params(context)
        if "--help" not in parameter.opts and (record := parameter.get_help_record(context))
    )
    table = "".join(_row(*row) for row in rows)
    options = f"\n{_row('option', 'meaning')}|---|---|\n{table}" if table else ""
    return f"## {name}\n\n    {usage}\n\n{_help(command)}\n{options}"


def commands() -> str:
    """The page of the command line."""
    root = typer.main.get_command(app)
    parts = [_command(name, command) for name, command in _commands(root, "tidegate")]
    return (
        f"{_GENERATED}# The `tidegate` command\n\n{_help(root).partition(chr(10))[2].strip()}\n\n"
        "`tidegate login` stores server and token. The variables that win over them are in "
        "[settings.md](settings.md).\n\n" + "\n".join(parts)
    )


def _of_tag(document: Any, tag: str) -> Iterator[tuple[str, ...]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation["tags"] == [tag]:
                mark = " (deprecated)" if operation.get("deprecated") else ""
                name = f"`{method.upper()} {path.removeprefix('/api/v1')}`"
                yield name, operation["summary"] + mark


def endpoints() -> str:
    """The table of endpoints, by resource, as frontend/openapi.json has them."""
    document = json.loads((REPO / "frontend/openapi.json").read_text())
    tags = sorted(
        {
            operation["tags"][0]
            for methods in document["paths"].values()
            for operation in methods.values()
        }
    )
    return "\n".join(
        f"### {tag}\n\n" + _table(("endpoint", "what it does"), _of_tag(document, tag))
        for tag in tags
    )


def errors() -> str:
    """The table of error codes: every `PortalError`, in the order of its status."""
    from primitives.errors import PortalError

    def below(kind: type[PortalError]) -> Iterator[type[PortalError]]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    found = {
        (each.http_status, each.code, each.title)
        for each in below(PortalError)
        if each.code != PortalError.code
    }
    return _table(
        ("status", "code", "title"),
        ((str(status), f"`{code}`", title) for status, code, title in sorted(found)),
    )


_BLOCK = re.compile(
    r"(<!-- (errors|endpoints): written by `make reference` -->\n).*?(<!-- end -->)", re.DOTALL
)


def api(page: str) -> str:
    """The page of the API, with its two tables as the code has them."""
    tables = {"errors": errors, "endpoints": endpoints}
    return _BLOCK.sub(lambda found: f"{found[1]}\n{tables[found[2]]()}\n{found[3]}", page)


_RECIPE = re.compile(
    r"(<!-- (\w+\.(py|sh)): written by `make reference` -->\n).*?(<!-- end -->)", re.DOTALL
)
_LANGUAGES = {"py": "python", "sh": "bash"}


def recipes(page: str) -> str:
    """The page of the recipes, with the text of each of their files."""

    def block(found: re.Match[str]) -> str:
        text = (GUIDE / "recipes" / found[2]).read_text()
        return (
            f"{found[1]}<details>\n<summary>{found[2]}</summary>\n\n"
            f"```{_LANGUAGES[found[3]]}\n{text}```\n\n</details>\n{found[4]}"
        )

    return _RECIPE.sub(block, page)


def pages() -> dict[Path, str]:
    """Every page that follows from the code, as it should be."""
    import portal.urls  # noqa: F401 - loads every kind of error

    return {
        PAGES / "reason-codes.md": reason_codes(),
        PAGES / "cli.md": commands(),
        PAGES / "api.md": api((PAGES / "api.md").read_text()),
        GUIDE / "checkpointing.md": recipes((GUIDE / "checkpointing.md").read_text()),
    }


if __name__ == "__main__":
    django.setup()
    for path, text in pages().items():
        path.write_text(text)

"""`tidegate policy`: policies of an organization, its classes, and the installation."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from cli.api import Api
from cli.context import open_api
from cli.errors import CliError
from cli.organizations import organization_named
from cli.output import (
    Format,
    Output,
    duration,
    gpus,
    print_data,
    print_fields,
    print_table,
    tell,
)
from cli.submitting import number, seconds
from primitives.currencies import money_text

_CLASSES_MAX = 500
_YES_NO = {"yes": True, "true": True, "no": False, "false": False}
#: Settings that are typed in GPUs: the API's name by the name here.
_GPUS = {"team_cap": "team_cap_mgpu", "moved_gpus": "moved_mgpu_max"}
#: Settings with another name in the API.
_NAMES = {**_GPUS, "price": "price_multiplier_ppm", "use_factor": "use_factor_percent"}
_MULTIPLIER = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,6}))?")

policy_app = typer.Typer(
    no_args_is_help=True,
    help="Priorities, grace periods and preemption rules.",
    rich_markup_mode=None,
)

OrganizationArgument = Annotated[
    str | None,
    typer.Argument(metavar="[ORGANIZATION]", help="Its slug. Default: the whole installation."),
]
IfMatch = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION",
        help="Change it only if this is still its version, as in `get` or `classes -o json`. "
        "Default: the present version.",
    ),
]
ClassArgument = Annotated[str, typer.Argument(metavar="CLASS", help="Its name.")]
OfOrganization = Annotated[
    str | None,
    typer.Option("--organization", help="Required if several organizations have this class."),
]
ClassSettings = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME=VALUE...",
        help="order=100, grace_period_s=5m, team_cap=64 (GPUs, or none), price=1.5 (a factor), "
        "use_factor=50 (percent of the use that counts for fair-share), "
        "preempts_within_team=yes, preempts_across_teams=no, description=...",
    ),
]
SecondPersonSettings = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[NAME=VALUE...]",
        help="stopped_jobs_min=1 (running jobs that a change would stop, or none), moved_gpus=16 "
        "(GPUs that a person may move alone within a day, or none), guards_rules=yes, "
        "allows_emergency=no.",
    ),
]
Settings = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME=VALUE...",
        help="grace_period_s=10m, rank=ai-company/production,ai-company/research, "
        "skips_blocked_within_team=no. Times need a unit.",
    ),
]


@policy_app.command("get")
def policy_get(
    ctx: typer.Context, organization: OrganizationArgument = None, output: Output = Format.TABLE
) -> None:
    """Show the policy of an organization, or of the whole installation."""
    api = open_api(ctx)
    shown = api.get(_path(api, organization))
    _print(shown, output)
    _tell_if_cut(api, shown)


@policy_app.command("set")
def policy_set(
    ctx: typer.Context,
    settings: Settings,
    organization: Annotated[
        str | None, typer.Option(help="Its slug. Default: the policy of the whole installation.")
    ] = None,
    if_match: IfMatch = None,
    output: Output = Format.TABLE,
) -> None:
    """Change settings of a policy, by their names in `get`. Other settings stay.

    For administrators of the organization; the installation's policy is for platform
    administrators. The change takes effect with the next decision.
    """
    api = open_api(ctx)
    patch = _read(settings)
    path = _path(api, organization)
    seen = _version(api.get(path)) if if_match is None else _tag(if_match)
    _print(api.patch(path, patch, if_match=seen), output)


@policy_app.command("second-person")
def policy_second_person(
    ctx: typer.Context,
    organization: Annotated[str, typer.Argument(metavar="ORGANIZATION", help="Its slug.")],
    settings: SecondPersonSettings = None,
    output: Output = Format.TABLE,
) -> None:
    """Show or change which changes of quotas, policy and classes need a second person.

    For administrators of the organization. While a rule is on, its change needs a second person,
    too: then the command exits with 75.
    """
    api = open_api(ctx)
    path = f"organizations/{organization_named(api, organization)['id']}/second-person"
    shown = api.get(path)
    if settings:
        shown = api.patch(path, _read(settings), if_match=_version(shown))
    _print(shown, output)


@policy_app.command("classes")
def policy_classes(
    ctx: typer.Context,
    organization: Annotated[
        str | None, typer.Argument(help="Only this organization, by its slug.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """List priority classes, highest priority first. CAP is the limit of GPUs in a team."""
    found = list(
        open_api(ctx).items("priority-classes", most=_CLASSES_MAX, organization=organization)
    )
    if output is not Format.TABLE:
        print_data(found, output)
        return
    if not found:
        tell("No priority classes yet.")
        return
    print_table(
        ["ORGANIZATION", "CLASS", "ORDER", "STOPS", "GRACE", "CAP", "PRICE", "FOR"],
        [
            [
                each["organization"],
                each["name"],
                each["order"],
                _stops(each),
                duration(each["grace_period_s"]),
                "none" if each["team_cap_mgpu"] is None else gpus(each["team_cap_mgpu"]),
                money_text(each["price_multiplier_ppm"] * 1_000, None),
                f"(retired) {each['description']}" if each["is_retired"] else each["description"],
            ]
            for each in sorted(found, key=lambda one: (one["organization"], -one["order"]))
        ],
        squeeze="FOR",
    )


@policy_app.command("add-class")
def policy_add_class(
    ctx: typer.Context,
    name: ClassArgument,
    settings: ClassSettings,
    organization: Annotated[str, typer.Option(help="Its organization, by the slug.")],
    output: Output = Format.TABLE,
) -> None:
    """Add a priority class. `order=` is required. For administrators of the organization.

    Defaults are those of `normal`: no preemption, 5 minutes of grace, no cap, and the normal price.
    """
    body = {"organization": organization, "name": name, **_read(settings)}
    _print(open_api(ctx).post("priority-classes", body, key=str(uuid.uuid4())), output)


@policy_app.command("set-class")
def policy_set_class(
    ctx: typer.Context,
    name: ClassArgument,
    settings: ClassSettings,
    organization: OfOrganization = None,
    if_match: IfMatch = None,
    output: Output = Format.TABLE,
) -> None:
    """Change a priority class. With `is_retired=yes` it accepts no new jobs.

    For administrators of its organization. Price managers may change its price, too.
    """
    api = open_api(ctx)
    patch = _read(settings)
    each = class_named(api, name, organization)
    seen = _version(each) if if_match is None else _tag(if_match)
    _print(api.patch(f"priority-classes/{each['id']}", patch, if_match=seen), output)


@policy_app.command("remove-class")
def policy_remove_class(
    ctx: typer.Context,
    name: ClassArgument,
    organization: OfOrganization = None,
    if_match: IfMatch = None,
) -> None:
    """Remove a priority class that no job ever used. Retire other classes with `set-class`."""
    api = open_api(ctx)
    each = class_named(api, name, organization)
    seen = _version(each) if if_match is None else _tag(if_match)
    api.delete(f"priority-classes/{each['id']}", if_match=seen)
    tell(f"Removed {name} of {each['organization']}.")


def class_named(api: Api, name: str, organization: str | None) -> Mapping[str, Any]:
    """Return the priority class of this name. Raises CliError where there is none or several."""
    classes = api.items("priority-classes", most=_CLASSES_MAX, organization=organization)
    found = [each for each in classes if each["name"] == name]
    if not found:
        raise CliError(f"There is no priority class {name[:63]!r}. `policy classes` lists them.")
    if len(found) > 1:
        where = ", ".join(sorted(str(each["organization"]) for each in found))
        raise CliError(f"{name} is a class of {where}. Choose one with --organization.")
    return found[0]


def _path(api: Api, organization: str | None) -> str:
    if organization is None:
        return "policy"
    return f"organizations/{organization_named(api, organization)['id']}/policy"


def _version(shown: Mapping[str, Any]) -> str:
    return _tag(str(shown["version"]))


def _tag(version: str) -> str:
    """Return the ETag of a version, given as a number or as the ETag itself."""
    return f'"v{version.strip().strip(chr(34)).removeprefix("v")}"'


def _read(settings: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            raise CliError(f"{setting[:60]!r}: write NAME=VALUE.")
        found[_NAMES.get(name, name)] = _value(name, value)
    return found


def _value(name: str, text: str) -> object:
    """Return a value in the form of the API, which refuses unknown names itself."""
    if name in _GPUS:
        given = None if text == "none" else number(text, f"{name}=")
        return None if given is None else round(given * 1_000)
    if name == "rank":
        return [path for path in text.split(",") if path]
    if name == "price":
        return multiplier(text, "price=")
    if name.endswith(("_s", "_s_max")):
        return seconds(text, f"{name}=")
    if name == "stopped_jobs_min":
        return None if text == "none" else number(text, f"{name}=")
    if name.startswith(("preempts_", "skips_", "is_", "guards_", "allows_")):
        if text not in _YES_NO:
            raise CliError(f"{name}={text[:20]}: write yes or no.")
        return _YES_NO[text]
    return int(text) if text.isascii() and text.isdigit() and name != "description" else text


def multiplier(text: str, said: str) -> int:
    """Return a factor of the price, typed after `said`, in millionths. Raises CliError."""
    match = _MULTIPLIER.fullmatch(text)
    if match is None:
        raise CliError(f"{said}{text[:40]}: write a factor of the price, such as 1.5.")
    return int(match[1]) * 1_000_000 + int((match[2] or "").ljust(6, "0"))


def _stops(each: Mapping[str, Any]) -> str:
    if each["preempts_across_teams"]:
        return "lower, all teams"
    return "lower, own team" if each["preempts_within_team"] else "nobody"


def _print(shown: Mapping[str, Any], output: Format) -> None:
    if output is not Format.TABLE:
        print_data(shown, output)
        return
    # As they are typed in `set`.
    typed = {api: name for name, api in _NAMES.items()}
    print_fields(
        [
            (typed.get(name, name), _told(name, value))
            for name, value in shown.items()
            if name != "id"
        ]
    )


def _tell_if_cut(api: Api, shown: Mapping[str, Any]) -> None:
    """Print on standard error if the installation limits the grace period to a shorter time."""
    if "grace_period_s" in shown:
        most_s = api.get("policy")["grace_period_s_max"]
        if shown["grace_period_s"] > most_s:
            tell(f"The installation limits grace_period_s to {most_s} ({duration(most_s)}).")


def _told(name: str, value: Any) -> object:
    if name == "price_multiplier_ppm":
        return money_text(value * 1_000, None)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith(("_s", "_s_max")):
        return f"{value} ({duration(value)})"
    if name == "stopped_jobs_min":
        return "none" if value is None else value
    if "_mgpu" in name:
        return "none" if value is None else f"{gpus(value)} GPUs"
    if isinstance(value, list):
        return ", then ".join(value) or "none"
    return value

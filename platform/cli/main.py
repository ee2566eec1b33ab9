"""`tidegate`: jobs, quotas and reports from the command line.

All commands use the REST API only, except `simulate` and `focus`, which work offline.

Exit codes: 0 done, 2 wrong usage, 3 refused by the server, 4 server not reachable, 75 waits
for a second person, 130 interrupted.
`tidegate wait` exits with the code of the job, `tidegate focus check` with 1 for a broken rule.
"""

from __future__ import annotations

import typer

from cli import (
    account_commands,
    cluster_user_commands,
    fleet_commands,
    fleet_edit_commands,
    job_commands,
    people_commands,
    tree_file_commands,
)
from cli.adjustment_commands import adjustments_app, disputes_app
from cli.announcement_commands import announcements_app
from cli.audit_command import audit
from cli.budget_commands import budgets_app
from cli.budget_default_commands import default_app
from cli.cap_commands import caps_app
from cli.capacity_command import capacity
from cli.change_commands import changes_app
from cli.checkpoint_command import checkpoint
from cli.code_commands import codes_app
from cli.context import Commands
from cli.credits_commands import credits_app
from cli.decisions_command import decisions
from cli.delivery_commands import deliveries_app
from cli.entitlement_command import entitlement
from cli.estimate_command import estimate
from cli.export_commands import export_app
from cli.extend_command import extend
from cli.fair_share_command import fair_share
from cli.files_command import files
from cli.focus_command import focus_app
from cli.history_command import history
from cli.identity_commands import identity_app
from cli.limit_commands import limits_app
from cli.logs_command import logs
from cli.maintenance_commands import maintenance_app
from cli.mcp_command import mcp
from cli.member_commands import members_app
from cli.metrics_command import metrics, unused
from cli.notices_command import notices
from cli.notify_commands import notify_app
from cli.organization_commands import organization_app
from cli.periods_commands import periods_app
from cli.policy_commands import policy_app
from cli.prices_commands import prices_app
from cli.push_commands import quota_push
from cli.reconciliation_command import reconciliation
from cli.replay_command import replay
from cli.report_commands import quota_app, report_app
from cli.request_commands import requests_app
from cli.schedule_commands import schedule, schedules
from cli.scim_commands import scim_app
from cli.second_factor_commands import second_factor_app
from cli.service_account_commands import service_accounts_app
from cli.session_commands import session_app
from cli.simulate_command import simulate
from cli.statement_commands import statements_app
from cli.submit_command import SubmitCommand, submit
from cli.template_commands import app as templates_app
from cli.terms_commands import terms_app
from cli.today_command import today
from cli.top_command import top
from cli.tree_commands import tree_app
from cli.view_commands import app as views_app
from cli.why_command import why

app = typer.Typer(
    cls=Commands,
    help=__doc__,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.callback(cls=Commands, help=__doc__, no_args_is_help=True)(account_commands.options)
app.command()(account_commands.login)
app.command()(account_commands.whoami)
app.command()(people_commands.passwd)
app.command(cls=SubmitCommand)(submit)
for _command in job_commands.COMMANDS:
    app.command()(_command)
app.command()(logs)
app.command()(files)
app.command()(metrics)
app.command()(unused)
app.command()(schedules)
app.command()(schedule)
app.command()(why)
app.command()(fleet_commands.clusters)
app.command()(fleet_commands.nodes)
fleet_commands.cluster_app.command("create")(fleet_edit_commands.cluster_create)
fleet_commands.cluster_app.command("set")(fleet_edit_commands.cluster_set)
fleet_commands.cluster_app.command("test")(fleet_edit_commands.cluster_test)
fleet_commands.cluster_app.command("enable")(fleet_edit_commands.cluster_enable)
fleet_commands.cluster_app.command("disable")(fleet_edit_commands.cluster_disable)
fleet_commands.cluster_app.command("users")(cluster_user_commands.cluster_users)
fleet_commands.cluster_app.command("map")(cluster_user_commands.cluster_map)
fleet_commands.cluster_app.command("unmap")(cluster_user_commands.cluster_unmap)
fleet_commands.cluster_app.command("accepted")(cluster_user_commands.cluster_accepted)
fleet_commands.pool_app.command("list")(fleet_edit_commands.pool_list)
fleet_commands.pool_app.command("create")(fleet_edit_commands.pool_create)
fleet_commands.pool_app.command("set")(fleet_edit_commands.pool_set)
app.add_typer(fleet_commands.cluster_app, name="cluster")
app.add_typer(fleet_commands.pool_app, name="pool")
app.add_typer(fleet_commands.node_app, name="node")
quota_app.command("push")(quota_push)
app.add_typer(quota_app, name="quota")
app.add_typer(changes_app, name="quota-changes")
app.add_typer(policy_app, name="policy")
app.add_typer(credits_app, name="credits")
budgets_app.add_typer(default_app, name="default")
app.add_typer(budgets_app, name="budgets")
app.add_typer(limits_app, name="limits")
app.add_typer(caps_app, name="caps")
prices_app.add_typer(terms_app, name="terms")
app.add_typer(prices_app, name="prices")
app.add_typer(report_app, name="report")
app.add_typer(export_app, name="export")
app.add_typer(deliveries_app, name="deliveries")
app.add_typer(focus_app, name="focus")
app.command()(reconciliation)
app.add_typer(periods_app, name="periods")
app.add_typer(adjustments_app, name="adjustments")
app.add_typer(disputes_app, name="disputes")
app.add_typer(requests_app, name="requests")
app.add_typer(statements_app, name="statements")
app.add_typer(codes_app, name="codes")
app.add_typer(organization_app, name="organization")
app.add_typer(members_app, name="members")
app.add_typer(service_accounts_app, name="service-accounts")
app.add_typer(people_commands.user_app, name="user")
app.add_typer(people_commands.token_app, name="token")
app.add_typer(session_app, name="session")
app.add_typer(second_factor_app, name="second-factor")
app.add_typer(identity_app, name="identity")
app.add_typer(scim_app, name="scim")
tree_app.command("export")(tree_file_commands.export)
tree_app.command("import")(tree_file_commands.import_)
app.add_typer(tree_app, name="tree")
app.add_typer(templates_app, name="templates")
app.add_typer(views_app, name="views")
app.command()(checkpoint)
app.command()(estimate)
app.command()(extend)
app.command()(decisions)
app.command()(top)
app.command()(today)
app.command()(entitlement)
app.command()(fair_share)
app.command()(capacity)
app.command()(history)
app.command()(audit)
app.command()(notices)
app.add_typer(notify_app, name="notify")
app.add_typer(announcements_app, name="announcements")
app.add_typer(maintenance_app, name="maintenance")
app.command()(replay)
app.command()(mcp)
app.command()(simulate)
app.command()(account_commands.version)

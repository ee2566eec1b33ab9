"""Default budgets of new teams."""

import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

#: Teams are made below organizations and departments only.
_RULE = """
CREATE FUNCTION refuse_budget_default_of_team() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM tenants_node n WHERE n.id = NEW.node_id AND n.kind = 'team') THEN
        RAISE EXCEPTION 'a team has no default budget, because no team is made below it'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'budgetdefault_is_above_teams';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER budgetdefault_is_above_teams
    BEFORE INSERT OR UPDATE OF node_id ON budgets_budgetdefault
    FOR EACH ROW EXECUTE FUNCTION refuse_budget_default_of_team();
"""
_NO_RULE = """
DROP TRIGGER budgetdefault_is_above_teams ON budgets_budgetdefault;
DROP FUNCTION refuse_budget_default_of_team();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("budgets", "0001_schema"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="BudgetDefault",
            fields=[
                (
                    "measure",
                    models.CharField(
                        choices=[
                            ("gpu_hours", "Gpu Hours"),
                            ("credits", "Credits"),
                            ("money", "Money"),
                        ],
                        max_length=9,
                    ),
                ),
                ("limit", models.BigIntegerField()),
                (
                    "window",
                    models.CharField(
                        choices=[
                            ("month", "Month"),
                            ("quarter", "Quarter"),
                            ("year", "Year"),
                            ("rolling", "Rolling"),
                        ],
                        max_length=7,
                    ),
                ),
                ("rolling_days", models.PositiveSmallIntegerField(null=True)),
                (
                    "policy",
                    models.CharField(
                        choices=[
                            ("notify", "Notify"),
                            ("stop_borrowing", "Stop Borrowing"),
                            ("stop_starts", "Stop Starts"),
                        ],
                        max_length=14,
                    ),
                ),
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=33)),
                ("version", models.IntegerField(default=1)),
                (
                    "node",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("limit__gte", 1), ("limit__lte", 1000000000000000000)),
                        name="budgetdefault_limit_is_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("measure__in", ["gpu_hours", "credits", "money"])),
                        name="budgetdefault_measure_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("rolling_days", None), ("window__in", ["month", "quarter", "year"])
                            ),
                            models.Q(
                                ("rolling_days__gte", 1),
                                ("rolling_days__isnull", False),
                                ("rolling_days__lte", 366),
                                ("window", "rolling"),
                            ),
                            _connector="OR",
                        ),
                        name="budgetdefault_window_is_whole",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("policy__in", ["notify", "stop_borrowing", "stop_starts"])
                        ),
                        name="budgetdefault_policy_is_known",
                    ),
                ],
            },
        ),
        migrations.RunSQL(_RULE, _NO_RULE),
    ]

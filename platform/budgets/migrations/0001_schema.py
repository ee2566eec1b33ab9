"""Budgets, their use by day, and their alerts."""

import django.contrib.postgres.fields
import django.db.models.deletion
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

#: A budget, its node and its user are of one organization. An alert never changes.
_RULES = """
CREATE FUNCTION refuse_budget_of_others() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM tenants_node n
        WHERE n.id = NEW.node_id AND n.organization_id = NEW.organization_id
    ) OR (NEW.user_id IS NOT NULL AND NOT EXISTS (
        SELECT FROM tenants_user u
        WHERE u.id = NEW.user_id AND u.organization_id = NEW.organization_id
    )) THEN
        RAISE EXCEPTION 'a budget is of its node''s and user''s organization'
            USING ERRCODE = 'integrity_constraint_violation',
                  CONSTRAINT = 'budget_is_of_one_organization';
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER budget_is_of_one_organization
    BEFORE INSERT OR UPDATE OF node_id, user_id, organization_id ON budgets_budget
    FOR EACH ROW EXECUTE FUNCTION refuse_budget_of_others();
CREATE TRIGGER budget_alert_is_not_changed
    BEFORE UPDATE ON budgets_budgetalert
    FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
"""
_NO_RULES = """
DROP TRIGGER budget_alert_is_not_changed ON budgets_budgetalert;
DROP TRIGGER budget_is_of_one_organization ON budgets_budget;
DROP FUNCTION refuse_budget_of_others();
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("audit", "0001_schema"),
        ("clusters", "0003_jobs_may_reach_the_portal"),
        ("tenants", "0001_schema"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid_utils.compat.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("name", models.CharField(max_length=100)),
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
                ("created_at", models.DateTimeField()),
                ("version", models.IntegerField(default=1)),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "pool",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BudgetEvaluation",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="tenants.node",
                    ),
                ),
                ("as_of", models.DateTimeField()),
                (
                    "recent_attempts",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), size=None
                    ),
                ),
                ("whole_day", models.DateField()),
            ],
        ),
        migrations.CreateModel(
            name="BudgetAlert",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("window_start", models.DateTimeField()),
                (
                    "kind",
                    models.CharField(
                        choices=[("used", "Used"), ("forecast", "Forecast")], max_length=8
                    ),
                ),
                ("percent", models.PositiveSmallIntegerField()),
                ("at", models.DateTimeField()),
                ("amount", models.BigIntegerField()),
                ("limit", models.BigIntegerField()),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alerts",
                        to="budgets.budget",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BudgetDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("used", models.BigIntegerField()),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="days",
                        to="budgets.budget",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="BudgetState",
            fields=[
                (
                    "budget",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="state",
                        serialize=False,
                        to="budgets.budget",
                    ),
                ),
                ("as_of", models.DateTimeField()),
                ("window_start", models.DateTimeField()),
                ("window_end", models.DateTimeField()),
                ("used", models.BigIntegerField()),
                ("on_hold", models.BigIntegerField()),
                ("room_at", models.DateTimeField()),
                ("forecast_low", models.BigIntegerField(null=True)),
                ("forecast", models.BigIntegerField(null=True)),
                ("forecast_high", models.BigIntegerField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("on_hold__gte", 0), ("used__gte", 0)),
                        name="budget_use_is_not_negative",
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.UniqueConstraint(
                fields=("organization", "name"), name="budget_name_once_per_organization"
            ),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(
                condition=models.Q(("limit__gte", 1), ("limit__lte", 1000000000000000000)),
                name="budget_limit_is_in_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(
                condition=models.Q(("measure__in", ["gpu_hours", "credits", "money"])),
                name="budget_measure_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("rolling_days", None), ("window__in", ["month", "quarter", "year"])),
                    models.Q(
                        ("rolling_days__gte", 1),
                        ("rolling_days__isnull", False),
                        ("rolling_days__lte", 366),
                        ("window", "rolling"),
                    ),
                    _connector="OR",
                ),
                name="budget_window_is_whole",
            ),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("policy__in", ["notify", "stop_starts"]),
                    models.Q(("policy", "stop_borrowing"), ("user", None)),
                    _connector="OR",
                ),
                name="budget_policy_is_possible",
            ),
        ),
        migrations.AddConstraint(
            model_name="budgetalert",
            constraint=models.UniqueConstraint(
                fields=("budget", "window_start", "kind", "percent", "limit"),
                name="budget_alerts_once_a_window",
            ),
        ),
        migrations.AddConstraint(
            model_name="budgetalert",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("kind", "used"), ("percent__in", [50, 80, 90, 100])),
                    models.Q(("kind", "forecast"), ("percent", 100)),
                    _connector="OR",
                ),
                name="budget_alert_is_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="budgetday",
            constraint=models.UniqueConstraint(
                fields=("budget", "day"), name="budget_day_is_counted_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="budgetday",
            constraint=models.CheckConstraint(
                condition=models.Q(("used__gte", 0)), name="budget_day_is_not_negative"
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]

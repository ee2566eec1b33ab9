"""Credit banks, what they settled, and earnings that are not spent yet."""

import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models

#: What was settled never changes.
_RULES = """
CREATE TRIGGER settlement_is_append_only
    BEFORE DELETE OR UPDATE ON bank_settlement
    FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
CREATE TRIGGER settlement_is_never_emptied
    BEFORE TRUNCATE ON bank_settlement
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_history();
CREATE TRIGGER settlement_line_is_append_only
    BEFORE DELETE OR UPDATE ON bank_settlementline
    FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
CREATE TRIGGER settlement_line_is_never_emptied
    BEFORE TRUNCATE ON bank_settlementline
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_history();
"""
_NO_RULES = """
DROP TRIGGER settlement_line_is_never_emptied ON bank_settlementline;
DROP TRIGGER settlement_line_is_append_only ON bank_settlementline;
DROP TRIGGER settlement_is_never_emptied ON bank_settlement;
DROP TRIGGER settlement_is_append_only ON bank_settlement;
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("audit", "0001_schema"),
        ("clusters", "0002_pools_have_other_names"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="CreditBank",
            fields=[
                (
                    "organization",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="credit_bank",
                        serialize=False,
                        to="tenants.node",
                    ),
                ),
                ("is_on", models.BooleanField(default=False)),
                ("cap_s", models.PositiveIntegerField(default=1209600)),
                ("switched_at", models.DateTimeField()),
                ("version", models.IntegerField(default=1)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("cap_s__lte", 31536000)),
                        name="credit_bank_cap_is_in_range",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CreditPool",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("settled_until", models.DateTimeField()),
                ("epoch", models.BigIntegerField(default=0)),
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
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="clusters.pool",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CreditLot",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("expires_at", models.DateTimeField()),
                ("amount", models.BigIntegerField()),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
                (
                    "credit_pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lots",
                        to="bank.creditpool",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Settlement",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("start", models.DateTimeField()),
                ("end", models.DateTimeField()),
                ("recorded_at", models.DateTimeField()),
                (
                    "credit_pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="settlements",
                        to="bank.creditpool",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SettlementLine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("guaranteed", models.BigIntegerField()),
                ("used", models.BigIntegerField()),
                ("paid", models.BigIntegerField()),
                ("unpaid", models.BigIntegerField()),
                ("lent", models.BigIntegerField()),
                (
                    "settlement",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
                        to="bank.settlement",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="tenants.node",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="creditpool",
            constraint=models.UniqueConstraint(
                fields=("organization", "pool"), name="credit_pool_once_per_organization"
            ),
        ),
        migrations.AddConstraint(
            model_name="creditlot",
            constraint=models.UniqueConstraint(
                fields=("credit_pool", "team", "expires_at"), name="credit_lot_once_per_expiry"
            ),
        ),
        migrations.AddConstraint(
            model_name="creditlot",
            constraint=models.CheckConstraint(
                condition=models.Q(("amount__gt", 0)), name="credit_lot_has_credits"
            ),
        ),
        migrations.AddConstraint(
            model_name="settlement",
            constraint=models.UniqueConstraint(
                fields=("credit_pool", "start"), name="interval_is_settled_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="settlement",
            constraint=models.CheckConstraint(
                condition=models.Q(("end__gt", models.F("start"))), name="settlement_has_a_length"
            ),
        ),
        migrations.AddConstraint(
            model_name="settlementline",
            constraint=models.UniqueConstraint(
                fields=("settlement", "team"), name="settlement_line_once_per_team"
            ),
        ),
        migrations.AddConstraint(
            model_name="settlementline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lent__gte", 0),
                    ("paid__gte", 0),
                    ("unpaid__gte", 0),
                    models.Q(("lent", 0), models.Q(("paid", 0), ("unpaid", 0)), _connector="OR"),
                ),
                name="team_borrows_or_lends",
            ),
        ),
        migrations.AddConstraint(
            model_name="settlementline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("paid", 0), ("unpaid", 0)),
                    (
                        "used",
                        django.db.models.expressions.CombinedExpression(
                            django.db.models.expressions.CombinedExpression(
                                models.F("guaranteed"), "+", models.F("paid")
                            ),
                            "+",
                            models.F("unpaid"),
                        ),
                    ),
                    _connector="OR",
                ),
                name="settlement_line_adds_up",
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]

"""Settlements have revisions, and name the payments that they consist of."""

from datetime import UTC, datetime

import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models

#: Earlier settlements get the basis that they most probably had, and their payments. A pool counts
#: as settled since now, so an earlier interval without a settlement is never settled late.
_FORMER = """
UPDATE bank_creditpool SET settled_since = settled_until;
ALTER TABLE bank_settlement DISABLE TRIGGER settlement_is_append_only;
UPDATE bank_settlement s
SET weight = p.weight, cap_s = b.cap_s,
    floor_s = COALESCE((SELECT MAX(credit_floor_s) FROM quotas_installationpolicy), 604800),
    after_number = COALESCE(
        (SELECT MIN(t.number) - 1 FROM ledger_transfer t JOIN ledger_account a ON a.id = t.debit_id
         WHERE a.ledger = 'credits:' || c.id AND t.effective_at = s."end"),
        (SELECT MAX(t.number) FROM ledger_transfer t WHERE t.created_at <= s.recorded_at),
        0)
FROM bank_creditpool c
JOIN clusters_pool p ON p.id = c.pool_id
JOIN bank_creditbank b ON b.organization_id = c.organization_id
WHERE c.id = s.credit_pool_id;
ALTER TABLE bank_settlement ENABLE TRIGGER settlement_is_append_only;
"""
_RULES = """
CREATE TRIGGER settlement_transfer_is_append_only
    BEFORE DELETE OR UPDATE ON bank_settlementtransfer
    FOR EACH ROW EXECUTE FUNCTION refuse_to_change_history();
CREATE TRIGGER settlement_transfer_is_never_emptied
    BEFORE TRUNCATE ON bank_settlementtransfer
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_history();
"""
_NO_RULES = """
DROP TRIGGER settlement_transfer_is_never_emptied ON bank_settlementtransfer;
DROP TRIGGER settlement_transfer_is_append_only ON bank_settlementtransfer;
"""
_FORMER_PAYMENTS = """
INSERT INTO bank_settlementtransfer (settlement_id, key)
SELECT s.id, t.key
FROM bank_settlement s
JOIN ledger_account a ON a.ledger = 'credits:' || s.credit_pool_id
JOIN ledger_transfer t ON t.debit_id = a.id AND t.effective_at = s."end"
WHERE t.code IN ('lent', 'common', 'above_cap');
SET CONSTRAINTS ALL IMMEDIATE;
SET CONSTRAINTS ALL DEFERRED;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("bank", "0003_notices"),
        ("ledger", "0004_transfers_are_found_by_key"),
        ("quotas", "0001_schema"),
        ("tenants", "0001_schema"),
    ]

    operations = [
        migrations.CreateModel(
            name="SettlementTransfer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("key", models.UUIDField()),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="settlement",
            name="interval_is_settled_once",
        ),
        migrations.RemoveConstraint(
            model_name="settlementline",
            name="team_borrows_or_lends",
        ),
        migrations.RemoveConstraint(
            model_name="settlementline",
            name="settlement_line_adds_up",
        ),
        migrations.AddField(
            model_name="creditpool",
            name="settled_since",
            field=models.DateTimeField(default=datetime(2000, 1, 1, tzinfo=UTC)),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="settlement",
            name="after_number",
            field=models.BigIntegerField(default=0),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="settlement",
            name="cap_s",
            field=models.PositiveIntegerField(default=0),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="settlement",
            name="floor_s",
            field=models.PositiveIntegerField(default=0),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="settlement",
            name="reason",
            field=models.CharField(blank=True, max_length=500),
        ),
        migrations.AddField(
            model_name="settlement",
            name="revision",
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.AddField(
            model_name="settlement",
            name="weight",
            field=models.IntegerField(default=0),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="settlementline",
            name="waived",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.RunSQL(_FORMER, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="settlement",
            constraint=models.UniqueConstraint(
                fields=("credit_pool", "start", "revision"), name="interval_is_settled_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="settlementline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lent__gte", 0),
                    ("paid__gte", 0),
                    ("unpaid__gte", 0),
                    ("waived__gte", 0),
                    models.Q(
                        ("lent", 0),
                        models.Q(("paid", 0), ("unpaid", 0), ("waived", 0)),
                        _connector="OR",
                    ),
                ),
                name="team_borrows_or_lends",
            ),
        ),
        migrations.AddConstraint(
            model_name="settlementline",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("paid", 0), ("unpaid", 0), ("waived", 0)),
                    (
                        "used",
                        django.db.models.expressions.CombinedExpression(
                            django.db.models.expressions.CombinedExpression(
                                django.db.models.expressions.CombinedExpression(
                                    models.F("guaranteed"), "+", models.F("paid")
                                ),
                                "+",
                                models.F("unpaid"),
                            ),
                            "+",
                            models.F("waived"),
                        ),
                    ),
                    _connector="OR",
                ),
                name="settlement_line_adds_up",
            ),
        ),
        migrations.AddField(
            model_name="settlementtransfer",
            name="settlement",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="transfers",
                to="bank.settlement",
            ),
        ),
        migrations.AddConstraint(
            model_name="settlementtransfer",
            constraint=models.UniqueConstraint(
                fields=("settlement", "key"), name="settlement_names_a_transfer_once"
            ),
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
        migrations.RunSQL(_FORMER_PAYMENTS, migrations.RunSQL.noop),
    ]

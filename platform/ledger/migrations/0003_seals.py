"""Seals over the heads of accounts. Nobody changes them."""

import django.db.models.deletion
from django.db import migrations, models

_RULES = """
CREATE TRIGGER seal_is_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_seal
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER sealed_head_is_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_sealedhead
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();

DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT CASE r.grantee WHEN 0 THEN 'PUBLIC' ELSE r.grantee::regrole::text END
        FROM pg_class c, aclexplode(c.relacl) r
        WHERE c.oid = 'ledger_seal'::regclass AND r.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON ledger_seal, ledger_sealedhead FROM %s', grantee);
    END LOOP;
END
$$;
"""

_NO_RULES = """
DROP TRIGGER sealed_head_is_append_only ON ledger_sealedhead;
DROP TRIGGER seal_is_append_only ON ledger_seal;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("ledger", "0002_balances_have_one_writer"),
    ]

    operations = [
        migrations.CreateModel(
            name="Seal",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("ledger", models.CharField(max_length=64)),
                ("number", models.PositiveIntegerField()),
                ("sealed_at", models.DateTimeField()),
                ("hash", models.BinaryField(max_length=32)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("ledger", "number"), name="seal_number_is_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SealedHead",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "seal_id",
                        "account_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("sequence", models.BigIntegerField()),
                ("head", models.BinaryField(max_length=32)),
                (
                    "account",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="ledger.account",
                    ),
                ),
                (
                    "seal",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="heads",
                        to="ledger.seal",
                    ),
                ),
            ],
        ),
        migrations.RunSQL(_RULES, _NO_RULES),
    ]

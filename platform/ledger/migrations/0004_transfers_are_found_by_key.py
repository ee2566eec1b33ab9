"""The trigger looks up accounts and transfers by their keys, whatever the planner thinks.

A session plans the trigger's statements once. A plan of the time when the table was small would
read all of it for each transfer.
"""

from django.db import migrations

_LOOKUPS = """
ALTER FUNCTION ledger_apply_transfers() SET enable_seqscan = off;
ALTER FUNCTION ledger_apply_transfers() SET enable_hashjoin = off;
ALTER FUNCTION ledger_apply_transfers() SET enable_mergejoin = off;
"""

_NO_LOOKUPS = """
ALTER FUNCTION ledger_apply_transfers() RESET enable_seqscan;
ALTER FUNCTION ledger_apply_transfers() RESET enable_hashjoin;
ALTER FUNCTION ledger_apply_transfers() RESET enable_mergejoin;
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0003_seals")]

    operations = [migrations.RunSQL(_LOOKUPS, _NO_LOOKUPS)]

"""Raw use and prices of an organization as Parquet, for the audit: nothing is rated or summed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection

from exports.tables import Column, text, whole
from exports.writers import ParquetWriter

_BATCH_ROWS = 5_000

#: Times are epoch seconds. An empty end means that the segment or the price goes on.
SEGMENT_COLUMNS: Sequence[Column] = (
    text("attempt", lambda row: row[0]),
    text("pool", lambda row: row[1]),
    whole("multiplier_ppm", lambda row: row[2]),
    whole("start_s", lambda row: row[3]),
    whole("end_s", lambda row: row[4]),
    whole("guaranteed_mgpu", lambda row: row[5]),
    whole("borrowed_mgpu", lambda row: row[6]),
    whole("unpaid_mgpu", lambda row: row[7]),
    text("fault", lambda row: row[8]),
)
RATE_COLUMNS: Sequence[Column] = (
    text("line", lambda row: row[0]),
    text("pool", lambda row: row[1]),
    text("usage_class", lambda row: row[2]),
    whole("price_nano", lambda row: row[3]),
    whole("start_s", lambda row: row[4]),
    whole("end_s", lambda row: row[5]),
)
TERMS_COLUMNS: Sequence[Column] = (
    text("pool", lambda row: row[0]),
    text("mode", lambda row: row[1]),
    whole("guaranteed_ppm", lambda row: row[2]),
    whole("borrowed_ppm", lambda row: row[3]),
    whole("unpaid_ppm", lambda row: row[4]),
    whole("minimum_s", lambda row: row[5]),
    whole("increment_s", lambda row: row[6]),
    whole("start_s", lambda row: row[7]),
    whole("end_s", lambda row: row[8]),
)
QUOTA_COLUMNS: Sequence[Column] = (
    text("quota", lambda row: row[0]),
    text("pool", lambda row: row[1]),
    whole("guaranteed_mgpu", lambda row: row[2]),
)
#: An empty end means that the team is still archived.
ARCHIVING_COLUMNS: Sequence[Column] = (
    text("quota", lambda row: row[0]),
    whole("start_s", lambda row: row[1]),
    whole("end_s", lambda row: row[2]),
)
#: In the order of `number`. Without `before_mgpu`, the change created the quota.
QUOTA_CHANGE_COLUMNS: Sequence[Column] = (
    text("quota", lambda row: row[0]),
    whole("number", lambda row: row[1]),
    whole("at_s", lambda row: row[2]),
    whole("before_mgpu", lambda row: row[3]),
    whole("after_mgpu", lambda row: row[4]),
)


# All segments of the attempts that used something in the period: costs depend on the use before.
_SEGMENTS = """
SELECT a.id::text, p.name, a.multiplier_ppm,
       date_part('epoch', s.start)::bigint, date_part('epoch', s."end")::bigint,
       s.guaranteed_mgpu, s.borrowed_mgpu, s.unpaid_mgpu, s.fault
FROM billing_meteredattempt a
JOIN clusters_pool p ON p.id = a.pool_id
JOIN billing_usagesegment s ON s.attempt_id = a.id
WHERE a.organization_id = %(organization)s
  AND a.id IN (
      SELECT attempt_id FROM billing_usagesegment
      WHERE start < %(until)s AND ("end" > %(since)s OR "end" IS NULL)
  )
"""
_RATES = """
SELECT l.id::text, p.name, l.usage_class, l.price_nano,
       date_part('epoch', l.start)::bigint, date_part('epoch', l."end")::bigint
FROM billing_rateline l
JOIN billing_ratecard c ON c.id = l.card_id
JOIN clusters_pool p ON p.id = l.pool_id
WHERE c.organization_id = %(organization)s
"""


_TERMS = """
SELECT p.name, t.mode, t.guaranteed_ppm, t.borrowed_ppm, t.unpaid_ppm, t.minimum_s, t.increment_s,
       date_part('epoch', t.start)::bigint, date_part('epoch', t."end")::bigint
FROM billing_poolterms t
JOIN billing_ratecard c ON c.id = t.card_id
JOIN clusters_pool p ON p.id = t.pool_id
WHERE c.organization_id = %(organization)s
"""
_QUOTAS = """
SELECT q.id::text, p.name, q.guaranteed_mgpu
FROM quotas_quota q
JOIN tenants_node n ON n.id = q.node_id
JOIN clusters_pool p ON p.id = q.pool_id
WHERE n.organization_id = %(organization)s AND n.kind = 'team'
"""
_ARCHIVINGS = """
SELECT q.id::text, floor(date_part('epoch', a.start))::bigint,
       floor(date_part('epoch', a."end"))::bigint
FROM quotas_quota q
JOIN tenants_node n ON n.id = q.node_id
CROSS JOIN LATERAL (
    SELECT start, "end" FROM tenants_formerarchiving WHERE node_id = n.id
    UNION ALL
    SELECT n.archived_at, NULL WHERE n.archived_at IS NOT NULL
) AS a
WHERE n.organization_id = %(organization)s AND n.kind = 'team'
"""
_QUOTA_CHANGES = """
SELECT c.quota_id::text, row_number() OVER (ORDER BY c.at, c.id),
       floor(date_part('epoch', c.at))::bigint, (c.before ->> 'guaranteed_mgpu')::bigint,
       (c.after ->> 'guaranteed_mgpu')::bigint
FROM quotas_quotachange c
JOIN quotas_quota q ON q.id = c.quota_id
JOIN tenants_node n ON n.id = q.node_id
WHERE n.organization_id = %(organization)s AND n.kind = 'team'
"""
_TABLES = {
    "segments": (SEGMENT_COLUMNS, _SEGMENTS),
    "rates": (RATE_COLUMNS, _RATES),
    "terms": (TERMS_COLUMNS, _TERMS),
    "quotas": (QUOTA_COLUMNS, _QUOTAS),
    "archivings": (ARCHIVING_COLUMNS, _ARCHIVINGS),
    "quota_changes": (QUOTA_CHANGE_COLUMNS, _QUOTA_CHANGES),
}
#: The names of the files, without ".parquet".
RAW_TABLES = tuple(_TABLES)


def write_raw_use(folder: Path, *, organization: UUID, since: datetime, until: datetime) -> None:
    """Write the Parquet files of `RAW_TABLES` for `[since, until)`. Must run in a transaction.

    At most a few thousand rows are in memory.
    """
    scope = {"organization": organization, "since": since, "until": until}
    for name, (columns, statement) in _TABLES.items():
        with ParquetWriter(folder / f"{name}.parquet", columns) as writer:
            for batch in _batches(statement, scope):
                writer.write(batch)


def _batches(statement: str, scope: dict[str, Any]) -> Iterator[list[tuple[Any, ...]]]:
    with connection.chunked_cursor() as cursor:
        cursor.execute(statement, scope)
        while batch := cursor.fetchmany(_BATCH_ROWS):
            yield batch

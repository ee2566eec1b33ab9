"""The trigger that applies transfers, and the rules that keep everybody else from doing so."""

from django.db import migrations

#: Hashes, as `ledger.hashing` computes them.
_HASHES = """
CREATE FUNCTION ledger_hash(line json) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN sha256(convert_to(line::text, 'UTF8'));
END
$$;

CREATE FUNCTION ledger_microseconds(moment timestamptz) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN extract(epoch FROM moment) * 1000000;
END
$$;

ALTER TABLE ledger_transfer ADD CONSTRAINT transfer_hash_is_of_its_body CHECK (
    body_hash = ledger_hash(json_build_array(
        key, debit_id, credit_id, amount, state, code, resolves_id, reverses_id, enforces_limits,
        ledger_microseconds(effective_at), ledger_microseconds(expires_at), reference, reason
    ))
);
"""

_NO_HASHES = """
ALTER TABLE ledger_transfer DROP CONSTRAINT transfer_hash_is_of_its_body;
DROP FUNCTION ledger_microseconds(timestamptz);
DROP FUNCTION ledger_hash(json);
"""

#: The one writer of balances. It runs as the owner of the tables, once for each statement.
_WRITER = """
CREATE FUNCTION ledger_apply_transfers() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    broken record;
    step record;
    at_account bigint;
    last_hash bytea;
    room bigint;
    accounts bigint[] := '{}';
    sequences bigint[] := '{}';
    numbers bigint[] := '{}';
    balances bigint[] := '{}';
    helds bigint[] := '{}';
    incomings bigint[] := '{}';
    hashes bytea[] := '{}';
    n integer := 0;
BEGIN
    -- In the order of ids, so that two statements never wait for each other.
    PERFORM FROM ledger_account
    WHERE id IN (SELECT debit_id FROM added UNION ALL SELECT credit_id FROM added)
    ORDER BY id
    FOR NO KEY UPDATE;

    SELECT * INTO broken FROM (
        SELECT t.number, t.key, p.amount, CASE
            WHEN d.id IS NULL OR c.id IS NULL THEN 'transfer_accounts_exist'
            WHEN d.ledger <> c.ledger THEN 'transfer_stays_in_its_ledger'
            WHEN t.resolves_id IS NOT NULL THEN CASE
                WHEN p.state IS DISTINCT FROM 'pending' OR p.number >= t.number
                    THEN 'resolution_names_a_pending_transfer'
                WHEN p.debit_id <> t.debit_id OR p.credit_id <> t.credit_id
                    THEN 'resolution_keeps_the_accounts'
                WHEN t.amount > p.amount OR (t.state = 'voided' AND t.amount <> p.amount)
                    THEN 'resolution_fits_the_pending_amount'
                WHEN t.state = 'posted' AND t.created_at >= p.expires_at
                    THEN 'resolution_comes_before_the_expiry'
            END
            WHEN t.reverses_id IS NOT NULL THEN CASE
                WHEN r.state IS DISTINCT FROM 'posted' OR r.number >= t.number
                    OR r.reverses_id IS NOT NULL
                    THEN 'reversal_names_a_posted_transfer'
                WHEN r.debit_id <> t.credit_id OR r.credit_id <> t.debit_id
                    OR r.amount <> t.amount
                    THEN 'reversal_is_the_exact_opposite'
            END
        END AS rule
        FROM added t
        LEFT JOIN ledger_account d ON d.id = t.debit_id
        LEFT JOIN ledger_account c ON c.id = t.credit_id
        LEFT JOIN ledger_transfer p ON p.key = t.resolves_id
        LEFT JOIN ledger_transfer r ON r.key = t.reverses_id
    ) AS judged
    WHERE rule IS NOT NULL
    ORDER BY number
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'transfer % is refused: %', broken.key, broken.rule
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = broken.rule,
                  DETAIL = json_build_object('transfer', broken.key, 'limit', broken.amount);
    END IF;

    -- Each transfer in the order of recording, once for each of its accounts, with the sums after it.
    FOR step IN
        SELECT a.id AS account_id, m.number, m.key, m.body_hash, m.created_at, m.is_debit,
            m.checks_limits, m.amount, a.floor, a.cap, a.head,
            a.sequence + row_number() OVER history AS sequence,
            (a.posted_credits - a.posted_debits + sum(m.posted) OVER history)::bigint AS balance,
            (a.pending_debits + sum(m.held) OVER history)::bigint AS held,
            (a.pending_credits + sum(m.incoming) OVER history)::bigint AS incoming
        FROM (
            SELECT t.debit_id AS account_id, t.number, t.key, t.body_hash, t.created_at, t.amount,
                true AS is_debit, t.enforces_limits AND p.key IS NULL AS checks_limits,
                CASE t.state WHEN 'posted' THEN -t.amount ELSE 0 END AS posted,
                CASE t.state WHEN 'pending' THEN t.amount ELSE coalesce(-p.amount, 0) END AS held,
                0::bigint AS incoming
            FROM added t LEFT JOIN ledger_transfer p ON p.key = t.resolves_id
            UNION ALL
            SELECT t.credit_id, t.number, t.key, t.body_hash, t.created_at, t.amount,
                false, t.enforces_limits AND p.key IS NULL,
                CASE t.state WHEN 'posted' THEN t.amount ELSE 0 END,
                0,
                CASE t.state WHEN 'pending' THEN t.amount ELSE coalesce(-p.amount, 0) END
            FROM added t LEFT JOIN ledger_transfer p ON p.key = t.resolves_id
        ) AS m
        JOIN ledger_account a ON a.id = m.account_id
        WINDOW history AS (PARTITION BY a.id ORDER BY m.number)
        ORDER BY a.id, m.number
    LOOP
        IF at_account IS DISTINCT FROM step.account_id THEN
            at_account := step.account_id;
            last_hash := step.head;
        END IF;
        IF step.checks_limits THEN
            room := CASE WHEN step.is_debit THEN step.balance - step.held - step.floor
                         ELSE step.cap - step.balance - step.incoming END;
            IF room < 0 THEN
                RAISE EXCEPTION 'transfer % breaks a limit of account %', step.key, at_account
                    USING ERRCODE = 'integrity_constraint_violation',
                          CONSTRAINT = CASE WHEN step.is_debit THEN 'account_keeps_its_floor'
                                            ELSE 'account_keeps_its_cap' END,
                          DETAIL = json_build_object(
                              'transfer', step.key, 'account', at_account, 'amount', step.amount,
                              'room', room + step.amount);
            END IF;
        END IF;
        last_hash := ledger_hash(json_build_array(
            encode(last_hash, 'hex'), at_account, step.sequence, encode(step.body_hash, 'hex'),
            ledger_microseconds(step.created_at), step.balance, step.held, step.incoming
        ));
        n := n + 1;
        accounts[n] := at_account;
        sequences[n] := step.sequence;
        numbers[n] := step.number;
        balances[n] := step.balance;
        helds[n] := step.held;
        incomings[n] := step.incoming;
        hashes[n] := last_hash;
    END LOOP;

    INSERT INTO ledger_entry (account_id, sequence, transfer_id, balance, held, incoming, hash)
    SELECT * FROM unnest(accounts, sequences, numbers, balances, helds, incomings, hashes);

    UPDATE ledger_account a
    SET posted_debits = a.posted_debits + s.debits,
        posted_credits = a.posted_credits + s.credits,
        pending_debits = e.held,
        pending_credits = e.incoming,
        sequence = e.sequence,
        head = e.hash
    FROM (
        SELECT m.account_id, count(*) AS steps, sum(m.debits)::bigint AS debits,
            sum(m.credits)::bigint AS credits
        FROM (
            SELECT debit_id AS account_id,
                CASE state WHEN 'posted' THEN amount ELSE 0 END AS debits, 0::bigint AS credits
            FROM added
            UNION ALL
            SELECT credit_id, 0, CASE state WHEN 'posted' THEN amount ELSE 0 END FROM added
        ) AS m
        GROUP BY m.account_id
    ) AS s, ledger_entry e
    WHERE a.id = s.account_id AND e.account_id = a.id AND e.sequence = a.sequence + s.steps;

    INSERT INTO ledger_pendingtransfer (transfer_id, expires_at)
    SELECT number, expires_at FROM added WHERE state = 'pending';

    DELETE FROM ledger_pendingtransfer open
    USING added t JOIN ledger_transfer p ON p.key = t.resolves_id
    WHERE open.transfer_id = p.number;
    RETURN NULL;
END
$$;

CREATE TRIGGER transfers_are_applied
    AFTER INSERT ON ledger_transfer
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT
    EXECUTE FUNCTION ledger_apply_transfers();
"""

_NO_WRITER = """
DROP TRIGGER transfers_are_applied ON ledger_transfer;
DROP FUNCTION ledger_apply_transfers();
"""

#: A trigger that the writer fires has a depth above 0; one that a person fires has not.
_REFUSALS = """
CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% refused on %: only new transfers change the ledger', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = TG_NAME;
END
$$;

CREATE TRIGGER transfer_is_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_transfer
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();

CREATE TRIGGER entry_is_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entry
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER entry_comes_from_a_transfer
    BEFORE INSERT ON ledger_entry
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION ledger_refuse();

CREATE TRIGGER pending_comes_from_a_transfer
    BEFORE INSERT OR UPDATE OR DELETE ON ledger_pendingtransfer
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER pending_is_never_emptied
    BEFORE TRUNCATE ON ledger_pendingtransfer
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();

CREATE TRIGGER account_opens_empty
    BEFORE INSERT ON ledger_account
    FOR EACH ROW WHEN (
        (NEW.posted_debits, NEW.posted_credits, NEW.pending_debits, NEW.pending_credits,
         NEW.sequence) <> (0, 0, 0, 0, 0)
        OR NEW.head <> ledger_hash(json_build_array(NEW.ledger, NEW.owner, NEW.kind))
    ) EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER account_changes_by_transfers
    BEFORE UPDATE ON ledger_account
    FOR EACH ROW WHEN (
        pg_trigger_depth() = 0
        AND (OLD.id, OLD.ledger, OLD.owner, OLD.kind, OLD.posted_debits, OLD.posted_credits,
             OLD.pending_debits, OLD.pending_credits, OLD.sequence, OLD.head)
            IS DISTINCT FROM
            (NEW.id, NEW.ledger, NEW.owner, NEW.kind, NEW.posted_debits, NEW.posted_credits,
             NEW.pending_debits, NEW.pending_credits, NEW.sequence, NEW.head)
    ) EXECUTE FUNCTION ledger_refuse();
CREATE TRIGGER account_stays
    BEFORE DELETE OR TRUNCATE ON ledger_account
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse();

-- The application's role has any name. It got all rights on new tables by default.
DO $$
DECLARE
    grantee text;
BEGIN
    FOR grantee IN
        SELECT DISTINCT CASE r.grantee WHEN 0 THEN 'PUBLIC' ELSE r.grantee::regrole::text END
        FROM pg_class c, aclexplode(c.relacl) r
        WHERE c.oid = 'ledger_transfer'::regclass AND r.grantee <> c.relowner
    LOOP
        EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON ledger_transfer, ledger_account FROM %s', grantee);
        EXECUTE format('REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON ledger_entry, ledger_pendingtransfer FROM %s', grantee);
        EXECUTE format('GRANT UPDATE (floor, cap) ON ledger_account TO %s', grantee);
    END LOOP;
END
$$;
"""

_NO_REFUSALS = """
DROP TRIGGER account_stays ON ledger_account;
DROP TRIGGER account_changes_by_transfers ON ledger_account;
DROP TRIGGER account_opens_empty ON ledger_account;
DROP TRIGGER pending_is_never_emptied ON ledger_pendingtransfer;
DROP TRIGGER pending_comes_from_a_transfer ON ledger_pendingtransfer;
DROP TRIGGER entry_comes_from_a_transfer ON ledger_entry;
DROP TRIGGER entry_is_append_only ON ledger_entry;
DROP TRIGGER transfer_is_append_only ON ledger_transfer;
DROP FUNCTION ledger_refuse();
"""


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_schema")]

    operations = [
        migrations.RunSQL(_HASHES, _NO_HASHES),
        migrations.RunSQL(_WRITER, _NO_WRITER),
        migrations.RunSQL(_REFUSALS, _NO_REFUSALS),
    ]

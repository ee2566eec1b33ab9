"""The ledger: double entry, append-only, for any kind of value and any owner."""

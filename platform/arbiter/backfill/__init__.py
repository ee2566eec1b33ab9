"""Reservations and backfill: early starts that delay no reserved start."""

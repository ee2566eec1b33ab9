"""Reservations of blocked jobs, and what may start beside them."""

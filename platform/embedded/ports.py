"""Finds free ports on this machine, and the process that uses a port."""

import socket

import psutil

HOST = "127.0.0.1"


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port` of the loopback address now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def a_free_port(preferred: int | None = None) -> int:
    """Return `preferred` when it is free, or a port that the system picks."""
    if preferred and is_free(preferred):
        return preferred
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def holder_of(port: int) -> str | None:
    """Return the process that listens on `port` as `process 123 (nginx: master)`, or None.

    Only the superuser sees the sockets of other users, so the process may stay unknown.
    """
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.Error:
        return None
    for connection in connections:
        if (
            connection.status == psutil.CONN_LISTEN
            and connection.laddr
            and connection.laddr.port == port
            and connection.pid
        ):
            try:
                words = psutil.Process(connection.pid).cmdline()
            except psutil.Error:
                words = []
            command = " ".join(words)[:80] or "unknown command"
            return f"process {connection.pid} ({command})"
    return None

"""Ports of this machine for the servers of tests.

Owns: the choice. Promises: two tests at a time get others, and none that a connection may take. Must not: hold a port.
"""

import itertools
import os
import socket

#: Where this process looks for ports: below those that a system gives to connections, and to each process its own place.
PORTS = itertools.count(os.getpid() * 1_009)


def free_port():
    """One that nobody has, nor takes before it is used: a connection, or another test's server."""
    for number in PORTS:
        port = 10_000 + number % 20_000
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
        return port

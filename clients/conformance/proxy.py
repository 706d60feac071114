"""A line between client and server that breaks: cuts, half-closes, delays.

Owns: the links. Promises: bytes pass unchanged or not at all, in order. Must not: know what passes.
"""

import asyncio
import socket
import struct


def reset(transport):
    """Ends a connection as the system does of a killed process."""
    raw = transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class Proxy:
    def __init__(self, target_port):
        self.target_port = target_port
        self.links = set()
        #: Each chunk waits for so long, s.
        self.delay = 0.0

    async def start(self):
        self.server = await asyncio.start_server(self.link, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def stop(self):
        self.server.close()
        self.cut()
        while self.links:
            await asyncio.sleep(0.01)

    async def link(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            writer.transport.abort()
            return
        link = (writer, far_writer)
        self.links.add(link)
        try:
            await asyncio.gather(self.pass_on(reader, far_writer), self.pass_on(far_reader, writer))
        finally:
            self.links.discard(link)
            for side in link:
                side.transport.abort()

    async def pass_on(self, reader, writer):
        try:
            while data := await reader.read(4096):
                if self.delay:
                    await asyncio.sleep(self.delay)
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (OSError, RuntimeError):
            writer.transport.abort()

    def cut(self):
        """Both sides are reset, in the middle of whatever passes."""
        for link in list(self.links):
            for side in link:
                reset(side.transport)

    def half_close(self):
        """The server's side has ended, as the client sees it."""
        for near, _ in list(self.links):
            if near.can_write_eof() and not near.transport.is_closing():
                near.write_eof()

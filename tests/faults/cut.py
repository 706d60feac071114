"""Ways between processes of one machine that can be cut, one way or both, slowed, and lose messages of NATS.

Owns: a thread, and the sockets of all connections that pass. Promises: what is held back comes later, in order, as TCP has
it; what is lost is whole messages of NATS' protocol. Must not: hold anything back for a process that is gone.
"""

import asyncio
import random
import threading

#: What one side may send in one line, or one message, of NATS' protocol.
LINE_BYTES = 16 << 20
#: Nobody else's ports are there.
HOST = "127.0.1.1"


class Way:
    """One direction of a connection between two processes."""

    def __init__(self):
        self.is_open, self.delay, self.loses = asyncio.Event(), 0.0, 0.0
        self.is_open.set()


class Ways(threading.Thread):
    """All of them. `of` and `to` are names of machines: of the process that calls, and of the one that is called."""

    def __init__(self, seed):
        super().__init__(daemon=True)
        self.dice, self.ways, self.loop, self.lost = random.Random(seed), {}, asyncio.new_event_loop(), 0
        self.start()

    def run(self):
        self.loop.run_forever()

    def inside(self, what):
        """Runs a coroutine in the thread."""
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(60)

    def through(self, of, to, target, is_nats=False):
        """The address at which `of` reaches what listens at `target` on `to`."""
        return self.inside(self.listen(of, to, target, is_nats))

    async def listen(self, of, to, target, is_nats):
        host, port = target.rsplit(":", 1)

        async def serve(reader, writer):
            pumps = []
            try:
                there, back = await asyncio.open_connection(host, int(port), limit=LINE_BYTES)
                pumps = [
                    asyncio.ensure_future(self.pump(reader, back, self.way(of, to), False)),
                    asyncio.ensure_future(self.pump(there, writer, self.way(to, of), is_nats)),
                ]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                back.close()
            except (OSError, asyncio.CancelledError):
                pass
            finally:
                for pump in pumps:
                    pump.cancel()
                writer.close()

        server = await asyncio.start_server(serve, HOST, 0, limit=LINE_BYTES)
        return f"{HOST}:{server.sockets[0].getsockname()[1]}"

    def way(self, of, to):
        return self.ways.setdefault((of, to), Way())

    async def pump(self, reader, writer, way, is_nats):
        # Each piece is late by itself: those behind it do not wait for it and for their own delay, too.
        pieces = asyncio.Queue(1_000)
        writing = asyncio.ensure_future(self.deliver(pieces, writer, way))
        try:
            while data := await (self.message(reader, way) if is_nats else reader.read(1 << 16)):
                await pieces.put((self.loop.time() + way.delay, data))
        except (OSError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            writing.cancel()
            raise
        await pieces.put((0, None))
        await writing
        # That a connection has ended is not seen through a cut, either.
        await way.is_open.wait()

    async def deliver(self, pieces, writer, way):
        try:
            while (piece := await pieces.get())[1] is not None:
                await asyncio.sleep(max(0, piece[0] - self.loop.time()))
                await way.is_open.wait()
                writer.write(piece[1])
                await writer.drain()
        except OSError:
            # Nobody reads there any more: what comes is dropped, until the reader ends.
            writer.close()
            while (await pieces.get())[1] is not None:
                pass

    async def message(self, reader, way):
        """The next line of NATS' protocol with what belongs to it; messages are lost as the way says."""
        while True:
            data = await reader.readline()
            words = data.split()
            if not words or words[0] not in (b"MSG", b"HMSG"):
                return data
            data += await reader.readexactly(int(words[-1]) + 2)
            if self.dice.random() >= way.loses:
                return data
            self.lost += 1

    def set(self, pairs, **given):
        """`is_open`, `delay`, `loses` of the directions between these machines, as pairs."""

        async def change():
            for pair in pairs:
                way = self.way(*pair)
                way.delay, way.loses = given.get("delay", way.delay), given.get("loses", way.loses)
                if "is_open" in given:
                    way.is_open.set() if given["is_open"] else way.is_open.clear()

        self.inside(change())

    def heal(self):
        self.set(list(self.ways), is_open=True, delay=0.0, loses=0.0)

    def close(self):
        self.inside(self.end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.join(60)

    async def end(self):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

"""A channel leaves nothing open, however it ends."""

import asyncio

from nodes.wire.client import Channel
from nodes.wire.security import ClientSecurity, Credentials

PATIENCE_S = 30.0


def test_a_channel_that_is_closed_while_it_logs_in_disconnects() -> None:
    """The peer, who has not answered yet, sees the end; nobody is left who could close it later."""

    async def run() -> bytes:
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(4)
            asked.set_result(None)
            try:
                ended.set_result(await reader.read())
            except ConnectionResetError:
                ended.set_result(b"")
            finally:
                writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        security = ClientSecurity(credentials=Credentials(username="u", password="p"))
        port = server.sockets[0].getsockname()[1]
        channel = Channel("127.0.0.1", port, client_id="test", security=security)
        request = asyncio.create_task(channel.request(None))
        async with server, asyncio.timeout(PATIENCE_S):
            await asked
            channel.close()
            rest = await ended
            await asyncio.wait([request])
        assert request.cancelled()
        return rest

    asyncio.run(run())

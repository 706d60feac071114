"""Connections and subscriptions with tokens, personal channels, and what back ends do with connections."""

import asyncio
import time

import pytest
from centrifuge import ReplyError

from sdk import Person, name, token


def test_a_bad_token_ends_it(tokens):
    async def talk():
        for bad in ["", "x", token(sub="42", channel="a"), token(sub="42")[:-2]]:
            async with Person(tokens, token=bad) as ann:
                ended = await ann.heard.next("disconnected")
                assert ended.code == (3501 if bad == "" else 3500), bad

    asyncio.run(talk())


def test_an_expired_token_is_replaced(tokens):
    async def talk():
        async def renew():
            return token(sub="42")

        old = token(sub="42", exp=int(time.time()) - 10)
        async with Person(tokens, token=old, get_token=renew) as ann:
            await ann.heard.next("connected")

    asyncio.run(talk())


@pytest.mark.parametrize("is_protobuf", [False, True])
def test_a_personal_channel(tokens, is_protobuf):
    async def talk():
        user = name("user-")
        async with Person(tokens, is_protobuf, token=token(sub=user)) as ann:
            subscribed = await ann.heard.next("subscribed")
            assert subscribed.channel == f"#{user}" and subscribed.recoverable
            assert (await ann.heard.next("join")).info.user == user
            tokens.did("publish", channel=f"#{user}", data={"to": user})
            got = await ann.heard.next("publication")
            assert (got.channel, ann.read(got.pub.data), got.pub.offset) == (f"#{user}", {"to": user}, 1)
            await ann.client.publish(f"#{user}", ann.data("own"))
            assert ann.read((await ann.heard.next("publication")).pub.data) == "own"

    asyncio.run(talk())


def test_a_channel_needs_a_token_of_its_own(tokens):
    async def talk():
        channel = name()
        async with Person(tokens, token=token(sub="42", info={"name": "Ann"})) as ann:
            _, heard = await ann.subscribe(channel)
            assert (await heard.next("unsubscribed")).code == 103
            _, heard = await ann.subscribe(name("open:"))
            await heard.next("subscribed")
            _, heard = await ann.subscribe(name("unknown:"))
            assert (await heard.next("unsubscribed")).code == 102
            with pytest.raises(ReplyError) as refused:
                await ann.client.publish(channel, {})
            assert refused.value.code == 103

        claims = {"sub": "42", "channel": channel, "info": {"role": "owner"}}
        async with Person(tokens, token=token(sub="42", info={"name": "Ann"})) as ann:
            room, heard = await ann.subscribe(channel, token=token(**claims))
            await heard.next("subscribed")
            (info,) = (await room.presence()).clients.values()
            assert (info.user, info.conn_info, info.chan_info) == ("42", {"name": "Ann"}, {"role": "owner"})
            await room.publish("x")
            assert (await heard.next("publication")).pub.info.user == "42"

        # A token of another channel or user ends the connection.
        for other in [{"channel": "other"}, {"sub": "7"}]:
            async with Person(tokens, token=token(sub="42")) as ann:
                await ann.subscribe(channel, token=token(**{**claims, **other}))
                assert (await ann.heard.next("disconnected")).code == 3500

    asyncio.run(talk())


def test_back_ends_rule_connections(tokens):
    async def talk():
        user, channel = name("user-"), name()
        async with Person(tokens, token=token(sub=user)) as ann:
            connected = await ann.heard.next("connected")
            personal = await ann.heard.next("subscribed")
            assert personal.channel == f"#{user}"
            tokens.did("subscribe", user=user, channel=channel, data={"x": 1})
            subscribed = await ann.heard.next("subscribed")
            assert (subscribed.channel, subscribed.data) == (channel, {"x": 1})
            tokens.did("publish", channel=channel, data=5)
            assert (await ann.heard.next("publication")).pub.data == 5
            assert list(tokens.did("presence", channel=channel)["presence"]) == [connected.client]
            assert tokens.did("presence_stats", channel=channel) == {"num_clients": 1, "num_users": 1}
            found = tokens.did("channels", pattern=channel)["channels"]
            assert found == {channel: {"num_clients": 1}}
            (node,) = tokens.did("info")["nodes"]
            assert node["num_clients"] >= 1 and node["num_users"] >= 1 and node["uptime"] >= 0
            tokens.did("unsubscribe", user=user, channel=channel)
            assert (await ann.heard.next("unsubscribed")).channel == channel
            tokens.did("disconnect", user=user, whitelist=[connected.client])
            assert tokens.refused("disconnect", user=user, disconnect={"code": 4500, "reason": "123"}) == 107
            tokens.did("disconnect", user=user, disconnect={"code": 4500, "reason": "banned"})
            ended = await ann.heard.next("disconnected")
            assert (ended.code, ended.reason) == (4500, "banned")

    asyncio.run(talk())

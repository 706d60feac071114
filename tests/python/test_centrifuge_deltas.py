"""Deltas of the Centrifuge dialect: who gets a delta, made from what, and who gets the whole, in raw frames."""

import json
import random
import re

import pytest

from centrifuge_wire import SECRET, Peer, token
from server import Server

DELTAS = f"""
[centrifuge.client]
token.hmac_secret_key = "{SECRET}"
insecure = true
[[centrifuge.channel.namespaces]]
name = "delta"
allowed_delta_types = ["fossil"]
[[centrifuge.channel.namespaces]]
name = "whole"
"""
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~"
WORDS = ["a", "few ", "wörds ", "😀", "longer than a block of the search, ", '"', "\\", "€"]


@pytest.fixture(scope="module")
def deltas(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("deltas"), config=DELTAS).start()
    yield running
    running.kill()


@pytest.fixture(params=[False, True], ids=["json", "protobuf"])
def both(request, deltas):
    """Makes connections in one encoding."""
    peers = []

    def connected(**more):
        peers.append(Peer(deltas, protobuf=request.param, **more))
        return Reader(peers[-1])

    yield connected
    for peer in peers:
        peer.socket.close()


def applied(source, delta):
    """What a delta makes of a source, by the words of the format."""
    length, rest = re.match(rb"([0-9A-Z_a-z~]+)\n", delta), b""
    at, out = length.end(), b""
    number = lambda digits: sum(DIGITS.index(chr(one)) * 64**place for place, one in enumerate(reversed(digits)))
    while True:
        digits, sign = re.compile(rb"([0-9A-Z_a-z~]+)([@:;])").match(delta, at).groups()
        at += len(digits) + 1
        if sign == b"@":
            rest = re.compile(rb"([0-9A-Z_a-z~]+),").match(delta, at)
            begin, at = number(rest[1]), rest.end()
            assert begin + number(digits) <= len(source)
            out += source[begin : begin + number(digits)]
        elif sign == b":":
            out += delta[at : at + number(digits)]
            at += number(digits)
        else:
            padded = out + bytes(-len(out) % 4)
            words = (int.from_bytes(padded[place : place + 4], "big") for place in range(0, len(padded), 4))
            assert number(digits) == sum(words) % 2**32 and at == len(delta)
            assert number(length[1]) == len(out)
            return out


class Reader:
    """A subscriber who takes deltas. What it is sent comes as `(offset, data, whether it was a delta)`."""

    def __init__(self, peer):
        self.peer, self.newest = peer, None

    def subscribe(self, channel, **more):
        answer = self.peer.result(subscribe={"channel": channel, "delta": "fossil", **more})
        assert answer["delta"]
        return [self.take(one) for one in answer.get("publications", [])]

    def take(self, publication):
        data = publication["data"]
        if not self.peer.protobuf:
            data = json.loads(data).encode()
        is_delta = bool(publication.get("delta"))
        self.sent = len(data)
        self.newest = applied(self.newest, data) if is_delta else data
        return publication["offset"], self.newest, is_delta

    def next(self, count=1):
        return [self.take(self.peer.push()["pub"]) for _ in range(count)]

    def publish(self, channel, data):
        assert self.peer.result(publish={"channel": channel, "data": data}) == {}


def document(number):
    return json.dumps({"text": "of this not much changes, " * 20, "n": number}).encode()


def test_deltas_are_granted_where_the_settings_allow_them(deltas, name):
    for peer in [Peer(deltas), Peer(deltas, protobuf=True)]:
        with peer:
            for channel, asked in [(f"whole:{name}", "fossil"), (f"delta:{name}", ""), (f"delta:{name}", "xdelta")]:
                assert "delta" not in peer.result(subscribe={"channel": channel, "delta": asked})
                peer.result(publish={"channel": channel, "data": document(1)})
                peer.result(publish={"channel": channel, "data": document(2)})
                for publication in peer.publications(2):
                    assert publication["data"] in [document(1), document(2)] and "delta" not in publication
                peer.result(unsubscribe={"channel": channel})
            assert peer.result(subscribe={"channel": f"delta:{name}", "delta": "fossil"})["delta"]
    with Peer(deltas, token=token(sub="ann", subs={f"delta:{name}": {}})) as peer:
        assert "delta" not in peer.connection["subs"][f"delta:{name}"]


def test_where_everybody_may_do_everything_there_are_deltas(server, name):
    with Peer(server) as peer:
        assert peer.result(subscribe={"channel": name, "delta": "fossil"})["delta"]


def test_the_first_one_is_whole_and_the_others_are_deltas(both, name):
    ann, channel = both(), f"delta:{name}"
    assert ann.subscribe(channel) == []
    for number in range(1, 5):
        ann.publish(channel, document(number))
        assert ann.next() == [(number, document(number), number > 1)]
        assert (ann.sent < 80) == (number > 1)
    # Where the whole is shorter it is sent whole, and the next one is made from it.
    ann.publish(channel, b'"short"')
    ann.publish(channel, b'"short"')
    assert ann.next(2) == [(5, b'"short"', False), (6, b'"short"', False)]
    ann.publish(channel, document(7))
    ann.publish(channel, document(8))
    assert ann.next(2) == [(7, document(7), False), (8, document(8), True)]


def test_each_gets_a_delta_of_what_it_has(both, name):
    ann, bob, plain, channel = both(), both(), both(), f"delta:{name}"
    ann.subscribe(channel)
    plain.peer.result(subscribe={"channel": channel})
    ann.publish(channel, document(1))
    assert ann.next() == [(1, document(1), False)]
    bob.subscribe(channel)
    ann.publish(channel, document(2))
    ann.publish(channel, document(3))
    assert ann.next(2) == [(2, document(2), True), (3, document(3), True)]
    first, second = bob.next(2)
    assert first == (2, document(2), False) and second == (3, document(3), True)
    for number in [1, 2, 3]:
        assert plain.peer.publications(1)[0]["data"] == document(number)
    # What is read in a history is whole, always.
    history = ann.peer.result(history={"channel": channel, "limit": 9})["publications"]
    assert [one["data"] for one in history] == [document(1), document(2), document(3)]


def test_after_a_recovery_the_first_one_is_whole(both, name):
    ann, bob, channel = both(), both(), f"delta:{name}"
    ann.subscribe(channel)
    for number in range(1, 4):
        ann.publish(channel, document(number))
    ann.next(3)
    recovered = bob.subscribe(channel, recover=True, offset=1)
    assert recovered == [(2, document(2), False), (3, document(3), False)]
    ann.publish(channel, document(4))
    ann.publish(channel, document(5))
    assert [one[2] for one in ann.next(2)] == [True, True]
    assert bob.next(2) == [(4, document(4), False), (5, document(5), True)]


def test_a_long_recovery_is_whole_throughout(both, name):
    ann, bob, channel = both(), both(), f"delta:{name}"
    for start in range(1, 1500, 100):
        messages = [{"entry": {"n": number, "text": "the same " * 9}} for number in range(start, start + 100)]
        params = json.dumps({"timeline": channel, "messages": messages}).encode()
        ann.peer.result(rpc={"method": "message.append_batch", "data": params})
    first = bob.subscribe(channel, recover=True)
    rest = bob.next(1500 - len(first))
    assert [json.loads(data)["n"] for _, data, _ in first + rest] == list(range(1, 1501))
    assert not any(is_delta for *_, is_delta in first + rest)
    for _ in range(2):
        ann.publish(channel, document(0))
    assert [one[2] for one in bob.next(2)] == [False, True]


def test_an_edit_takes_away_what_a_delta_was_to_be_made_from(both, name):
    ann, bob, channel = both(), both(), f"delta:{name}"
    ann.subscribe(channel)
    for number in range(1, 3):
        ann.publish(channel, document(number))
    assert [one[2] for one in ann.next(2)] == [False, True]
    change = json.dumps({"timeline": channel, "sequence": 2, "set": {"publication": {"now": "else"}}}).encode()
    ann.peer.result(rpc={"method": "message.update", "data": change})
    assert bob.subscribe(channel, recover=True, offset=1) == [(2, b'{"now":"else"}', False)]
    ann.publish(channel, document(3))
    ann.publish(channel, document(4))
    for reader in [ann, bob]:
        (third, fourth) = reader.next(2)
        assert third == (3, document(3), False) and fourth == (4, document(4), True)


def test_many_at_once_are_deltas_of_each_other(both, name):
    ann, channel = both(), f"delta:{name}"
    ann.subscribe(channel)
    ann.publish(channel, b'{"n":0}')
    messages = [{"entry": {"n": number, "text": "the same " * 9}} for number in range(1, 20)]
    params = json.dumps({"timeline": channel, "messages": messages}).encode()
    ann.peer.result(rpc={"method": "message.append_batch", "data": params})
    got = ann.next(20)
    assert [json.loads(data)["n"] for _, data, _ in got] == list(range(20))
    assert [is_delta for *_, is_delta in got] == [False, False] + [True] * 18


@pytest.mark.parametrize("seed", range(3))
def test_deltas_of_any_text_lead_to_it(both, name, seed):
    chance, ann, channel = random.Random(seed), both(), f"delta:{name}"
    ann.subscribe(channel)
    words = [chance.choice(WORDS) for _ in range(60)]
    for number in range(1, 80):
        for _ in range(chance.randrange(4)):
            at = chance.randrange(len(words))
            words[at : at + chance.randrange(5)] = [chance.choice(WORDS) for _ in range(chance.randrange(1, 5))]
        data = json.dumps({"text": "".join(words), "n": number}, ensure_ascii=bool(number % 10 == 0)).encode()
        ann.publish(channel, data)
        assert ann.next()[0][:2] == (number, data)


def test_bytes_that_are_no_json_are_told_by_deltas_too(deltas, name):
    channel = f"delta:{name}"
    with Peer(deltas, protobuf=True) as bytewise, Peer(deltas) as texts:
        readers = [Reader(bytewise), Reader(texts)]
        for reader in readers:
            reader.subscribe(channel)
        for number in range(3):
            sent = bytes(range(256)) * 2 + bytes([number])
            readers[0].publish(channel, sent)
            assert readers[0].next() == [(number + 1, sent, number > 0)]
            (_, text, is_delta) = readers[1].next()[0]
            assert list(json.loads(text)) == ["$binary"] and is_delta == (number > 0)
        pretty = b'{\n  "a": 1\n}'
        readers[0].publish(channel, pretty)
        assert readers[0].next()[0][1] == pretty and json.loads(readers[1].next()[0][1]) == {"a": 1}

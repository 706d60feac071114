"""What one may not read is not found: not by hits, by how many there are, by pages, by tokens, or by what an error says.

Each case stands beside its control: the same search by somebody who may. The texts of a case share one word that no
other case has.
"""

import base64
import json
import re

import pytest

from client import Refused, until
from guarded import POLICIES, Guarded, who
from searching import SETTINGS, found, pages, texts, timelines

@pytest.fixture(scope="module")
def house(tmp_path_factory):
    running = Guarded(tmp_path_factory.mktemp("searched"), auth=POLICIES, before=SETTINGS).start()
    yield running
    running.kill()


def asks(house, bearer, acting=None):
    """Calls as the owner of a credential."""
    return lambda method, **params: house.call(bearer, method, acting, **params)


@pytest.fixture
def admin(house):
    return asks(house, house.admin)


def say(admin, timeline, *many, **more):
    for text in many:
        admin("message.append", timeline=timeline, entry={"text": text}, **more)


def sees(house, bearer, word, acting=None, **params):
    return texts(found(asks(house, bearer, acting), word, **params))


def key(house, *grants, act_as=None):
    rights = [{"on": on, "allow": allow} for on, allow in grants]
    more = {"act_as": act_as} if act_as else {}
    return house.call(house.admin, "key.create", name="reads", rights=rights, **more)["key"]


# Who reads a timeline


def test_members_find_and_others_do_not(house, admin):
    say(admin, "room/m", "memberword")
    admin("member.add", timeline="room/m", members=[{"user": "ann"}, {"user": "bill", "role": "blind"}])
    for bearer, expected in [(who("ann"), 1), (house.admin, 1), (who("bill"), 0), (who("eve"), 0), (who("eve", "append", on="room/*"), 0)]:
        for params in [{}, {"order": "best"}, {"timelines": ["room/m"]}, {"prefix": "room/"}, {"sender": "$key/admin"}]:
            assert len(sees(house, bearer, "memberword", **params)) == expected, params
    # A right by a token, of a user who is no member.
    assert sees(house, who("eve", "read", on="room/*"), "memberword") == ["memberword"]
    assert sees(house, who("eve", "read", on="room/n*"), "memberword") == []


def test_who_joins_later_finds_from_there_on(house, admin):
    say(admin, "room/late", "lateword 1", "lateword 2")
    admin("member.add", timeline="room/late", members=[{"user": "ann"}])
    admin("member.add", timeline="room/late", members=[{"user": "ben"}], history="none")
    admin("member.add", timeline="room/late", members=[{"user": "cleo"}], history=1)
    say(admin, "room/late", "lateword 3")
    for user, expected in [("ann", "123"), ("ben", "3"), ("cleo", "23")]:
        assert sees(house, who(user), "lateword") == [f"lateword {number}" for number in expected], user
        assert [page for page in pages(asks(house, who(user)), query="lateword", limit=1)][-1].get("next") is None
    # An edit of what was before is not news to who came later.
    admin("message.update", timeline="room/late", sequence=1, set={"text": "lateword edited"})
    assert sees(house, who("ben"), "edited") == [] and sees(house, who("ann"), "lateword edited") == ["lateword edited"]


def test_who_has_left_finds_nothing(house, admin):
    say(admin, "room/left", "leftword")
    admin("member.add", timeline="room/left", members=[{"user": "ann"}, {"user": "ben"}])
    after = [house.call(who("ann"), "message.search", query="leftword")]
    assert texts(after[0]["messages"]) == ["leftword"]
    admin("member.remove", timeline="room/left", users=["ann"])
    assert sees(house, who("ann"), "leftword") == [] and sees(house, who("ben"), "leftword") == ["leftword"]
    # Who comes back with nothing of it begins anew.
    admin("member.add", timeline="room/left", members=[{"user": "ann"}], history="none")
    assert sees(house, who("ann"), "leftword") == []
    say(admin, "room/left", "leftword again")
    assert sees(house, who("ann"), "leftword") == ["leftword again"]


def test_a_role_counts_as_it_is_now(house, admin):
    say(admin, "room/role", "roleword")
    admin("member.add", timeline="room/role", members=[{"user": "ann"}, {"user": "ben"}])
    for role, expected in [("blind", 0), ("owner", 1), ("blind", 0)]:
        admin("member.update", timeline="room/role", user="ann", role=role)
        assert len(sees(house, who("ann"), "roleword")) == expected
        assert len(sees(house, who("ben"), "roleword")) == 1


def test_what_i_cleared_or_hid_is_not_found_by_me(house, admin):
    admin("timeline.create", timeline="room/mine", members=[{"user": "ann"}, {"user": "ben"}])
    say(admin, "room/mine", *(f"mineword {number}" for number in range(1, 7)))
    house.call(who("ann"), "conversation.clear", timeline="room/mine", before=3)
    house.call(who("ann"), "message.hide", timeline="room/mine", sequences=[5])
    assert sees(house, who("ann"), "mineword") == ["mineword 3", "mineword 4", "mineword 6"]
    for other in [who("ben"), house.admin]:
        assert len(sees(house, other, "mineword")) == 6
    # Of one's own messages the same counts.
    say(asks(house, who("ann")), "room/mine", "mineword own")
    house.call(who("ann"), "message.hide", timeline="room/mine", sequences=[7])
    assert "mineword own" not in sees(house, who("ann"), "mineword") and "mineword own" in sees(house, who("ben"), "mineword")


def test_members_only_shuts_out_users_with_a_right(house, admin):
    say(admin, "open/closed", "closedword")
    say(admin, "open/wide", "closedword wide")
    assert len(sees(house, who("eve"), "closedword")) == 2
    admin("member.add", timeline="open/closed", members=[{"user": "ann"}])
    admin("timeline.configure", timeline="open/closed", settings={"members_only": True})
    assert sees(house, who("eve"), "closedword") == ["closedword wide"]
    assert len(sees(house, who("ann"), "closedword")) == 2
    # Back ends have their rights only.
    assert len(sees(house, key(house, ("open/*", ["read"])), "closedword")) == 2
    admin("timeline.configure", timeline="open/closed", settings={"members_only": None})
    assert len(sees(house, who("eve"), "closedword")) == 2


def test_rights_by_prefix_and_by_name(house, admin):
    for timeline in ["p/a/1", "p/a/2", "p/b/1", "p/ann/1", "q"]:
        say(admin, timeline, f"prefixword {timeline}")
    for bearer, expected in [
        (who("ann", "read", on="p/a/*"), ["p/a/1", "p/a/2"]), (who("ann", "read", on="p/a/1"), ["p/a/1"]), (who("ann", "read", on="p/*"), ["p/a/1", "p/a/2", "p/ann/1", "p/b/1"]),
        (who("ann", "read", on="p/{user}/*"), ["p/ann/1"]), (who("eve", "read", on="p/{user}/*"), []), (who("ann", "append", on="*"), []),
        (key(house, ("p/b/*", ["read"]), ("q", ["read"])), ["p/b/1", "q"]), (key(house, ("p/*", ["append"])), []), (key(house), []),
        (house.admin, ["p/a/1", "p/a/2", "p/ann/1", "p/b/1", "q"]),
    ]:
        assert sees(house, bearer, "prefixword") == [f"prefixword {one}" for one in expected], expected


def test_a_key_that_acts_for_a_user_has_its_own_rights(house, admin):
    admin("timeline.create", timeline="room/acts", members=[{"user": "ann"}])
    say(admin, "room/acts", "actsword 1", "actsword 2")
    house.call(who("ann"), "conversation.clear", timeline="room/acts", before=2)
    reads, blind = key(house, ("room/*", ["read"]), act_as=["ann"]), key(house, act_as=["ann"])
    assert sees(house, reads, "actsword") == ["actsword 1", "actsword 2"]
    assert sees(house, reads, "actsword", acting="ann") == ["actsword 2"]
    assert sees(house, blind, "actsword", acting="ann") == [] and sees(house, who("ann"), "actsword") == ["actsword 2"]


def test_no_credential_is_no_search(house):
    for method in ["message.search", "timeline.search"]:
        assert house.rpc(None, method, query="x")[0] == 401
        assert house.rpc(who("eve"), method, query="x")[0] == 200


# What is gone


def test_what_is_gone_is_found_by_nobody(house, admin):
    admin("timeline.create", timeline="room/gone", members=[{"user": "ann"}])
    say(admin, "room/gone", *(f"goneword {number}" for number in range(1, 8)))
    readers = [who("ann"), house.admin, who("eve", "read", on="*")]
    assert all(len(sees(house, bearer, "goneword")) == 7 for bearer in readers)
    admin("message.delete", timeline="room/gone", sequence=4)
    admin("message.recall", timeline="room/gone", sequence=5, reason="goneword reason")
    admin("message.update", timeline="room/gone", sequence=6, set={"text": "edited away"})
    admin("timeline.trim", timeline="room/gone", before=3)
    for bearer in readers:
        assert sees(house, bearer, "goneword") == ["goneword 3", "goneword 7"] and sees(house, bearer, "away") == ["edited away"]
    admin("timeline.delete", timeline="room/gone")
    assert all(sees(house, bearer, "goneword") == [] for bearer in readers)
    # A timeline of that name without these members is another one.
    say(admin, "room/gone", "goneword anew")
    assert [len(sees(house, bearer, "goneword")) for bearer in readers] == [0, 1, 1]


def test_what_expired_is_found_by_nobody(house, admin):
    say(admin, "feed/e", "expireword 1", expires_in_ms=1_500)
    say(admin, "feed/e", "expireword 2")
    reader = who("eve", "read", on="feed/*")
    until(lambda: sees(house, reader, "expireword") == ["expireword 2"] == sees(house, house.admin, "expireword"))


def test_the_servers_own_timelines_hold_nothing_that_is_found(house, admin):
    """An inbox has each message once more for each user."""
    admin("timeline.create", timeline="room/copied", settings={"fan_out": "write"}, members=[{"user": "ann"}, {"user": "ben"}])
    say(admin, "room/copied", "copyword")
    for user in ["ann", "ben"]:
        until(lambda user=user: said_in_inbox(house, user))
    for bearer in [who("ann"), who("ben"), house.admin]:
        [hit] = found(asks(house, bearer), "copyword")
        assert hit["timeline"] == "room/copied"
        assert found(asks(house, bearer), "copyword", prefix="$") == []
    assert timelines(admin, prefix="$") == []


def said_in_inbox(house, user):
    try:
        return "room/copied" in json.dumps(house.call(who(user), "message.range", timeline=f"$inbox/{user}"))
    except Refused:
        return False


# What an answer tells


def answer(house, bearer, method="message.search", **params):
    status, _, body = house.rpc(bearer, method, **params)
    return status, re.sub(rb'"next":"([^"]*)"', lambda found: b"next of %d" % len(found[1]), body)


def test_answers_are_the_same_whether_hidden_messages_are_there(house, admin):
    """By bytes: hits and pages; of tokens, which nobody can read, that they are there and how long they are."""
    admin("timeline.create", timeline="room/seen", members=[{"user": "ann"}])
    say(admin, "room/seen", *(f"sameword {number}" for number in range(6)))
    asked = [
        {"query": "sameword"}, {"query": "sameword", "limit": 2}, {"query": "sameword", "limit": 6}, {"query": "sam*", "limit": 3}, {"query": "-sameword", "prefix": "room/seen"},
        {"query": "sameword", "timelines": ["room/unseen"]}, {"query": "sameword", "prefix": "room/u"}, {"query": "hiddenword"}, {"query": "hidden*"},
        {"query": "sameword", "sender": "olga"}, {"prefix": "room/unseen"}, {"query": "sameword", "where": [{"name": "topic", "op": "=", "value": "hidden"}]},
    ]
    walk = lambda bearer: [hit["message"]["sequence"] for page in pages(asks(house, bearer), query="sameword", limit=2) for hit in page["messages"]]
    bearer = who("ann")
    before = [answer(house, bearer, **params) for params in asked], walk(bearer)
    admin("timeline.create", timeline="room/unseen", members=[{"user": "olga", "role": "owner"}], meta={"title": "hiddenword"})
    for number in range(30):
        house.call(who("olga"), "message.append", timeline="room/unseen", entry={"text": f"sameword hiddenword {number}", "topic": "hidden"})
    assert ([answer(house, bearer, **params) for params in asked], walk(bearer)) == before
    assert answer(house, bearer, "timeline.search", query="hiddenword") == answer(house, bearer, "timeline.search", query="nosuchword")
    # Who may read them is told.
    assert len(sees(house, who("olga"), "hiddenword")) == 30 and timelines(asks(house, who("olga")), "hiddenword") == ["room/unseen"]
    assert len(sees(house, house.admin, "sameword")) == 36


def test_naming_a_hidden_timeline_is_as_naming_none(house, admin):
    admin("timeline.create", timeline="room/named", members=[{"user": "ann"}], meta={"title": "namedword"})
    say(admin, "room/named", "namedword")
    for user in ["bill", "eve"]:
        for params in [{"query": "namedword"}, {}]:
            hidden = answer(house, who(user), timelines=["room/named"], **params)
            assert hidden == answer(house, who(user), timelines=["room/none-of"], **params)
            hidden = answer(house, who(user), prefix="room/named", **params)
            assert hidden == answer(house, who(user), prefix="room/none-of", **params)
            hidden = answer(house, who(user), "timeline.search", prefix="room/named", **params)
            assert hidden == answer(house, who(user), "timeline.search", prefix="room/none-of", **params)
    assert sees(house, who("ann"), "namedword", timelines=["room/named"]) == ["namedword"]
    assert timelines(asks(house, who("ann")), "namedword") == ["room/named"]


def test_a_token_tells_nothing_and_is_its_callers(house, admin):
    admin("timeline.create", timeline="room/tok1", members=[{"user": "ann"}, {"user": "ben"}])
    admin("timeline.create", timeline="room/tok2", members=[{"user": "ben"}])
    for number in range(8):
        say(admin, f"room/tok{1 + number % 2}", f"tokenword {number}")
    first = house.call(who("ann"), "message.search", query="tokenword", limit=2)
    plain = base64.urlsafe_b64decode(first["next"].replace("+", "-").replace("/", "_") + "===")
    assert b"tok2" not in plain and b"tokenword" not in plain and "tok2" not in json.dumps(first)
    second = house.call(who("ann"), "message.search", query="tokenword", limit=2, after=first["next"])
    assert texts(first["messages"] + second["messages"]) == [f"tokenword {number}" for number in (0, 2, 4, 6)]
    for bearer in [who("ben"), who("eve"), house.admin, key(house, ("*", ["read"]))]:
        with pytest.raises(Refused) as refused:
            house.call(bearer, "message.search", query="tokenword", limit=2, after=first["next"])
        assert refused.value.data["field"] == "after"
    # Rights of the next page are those of then.
    admin("member.remove", timeline="room/tok1", users=["ann"])
    assert house.call(who("ann"), "message.search", query="tokenword", limit=2, after=first["next"]).get("messages") == []
    assert len(sees(house, who("ben"), "tokenword")) == 8


def test_timelines_are_found_by_who_reads_them(house, admin):
    for name, members, more in [("room/t1", ["ann", "ben"], {}), ("room/t2", ["ben"], {}), ("open/t3", ["ben"], {}), ("open/t4", ["ben"], {"settings": {"members_only": True}})]:
        admin("timeline.create", timeline=name, meta={"title": "titleword"}, members=[{"user": user} for user in members], **more)
    admin("member.add", timeline="room/t1", members=[{"user": "bill", "role": "blind"}])
    for bearer, expected in [
        (who("ann"), ["open/t3", "room/t1"]), (who("ben"), ["open/t3", "open/t4", "room/t1", "room/t2"]), (who("bill"), ["open/t3"]), (who("eve"), ["open/t3"]),
        (house.admin, ["open/t3", "open/t4", "room/t1", "room/t2"]), (key(house, ("open/*", ["read"])), ["open/t3", "open/t4"]), (key(house), []),
    ]:
        assert timelines(asks(house, bearer), "titleword") == expected, expected
        assert timelines(asks(house, bearer), "titleword", limit=1) == expected
    # As timeline.get tells each of them.
    admin("member.add", timeline="room/t2", members=[{"user": "ann"}], history="none")
    for one in house.call(who("ann"), "timeline.search", query="titleword")["timelines"]:
        assert one == house.call(who("ann"), "timeline.get", timeline=one["timeline"])


def test_few_that_may_be_read_are_found_among_many(house, admin):
    admin("timeline.create", timeline="room/few", members=[{"user": "ann"}])
    for number in range(3):
        say(admin, "room/few", f"needleword {number}")
        for turn in range(20):
            batch = [{"entry": {"text": f"needleword of others {number} {turn} {one}"}} for one in range(100)]
            admin("message.append_batch", timeline=f"room/many{turn % 5}", messages=batch)
    for order in ["newest", "best"]:
        assert sees(house, who("ann"), "needleword", order=order) == [f"needleword {number}" for number in range(3)]
    assert len(sees(house, house.admin, "needleword")) == 6_003


def test_rules_that_change_count_at_once(house, admin):
    say(admin, "feed/rules", "rulesword")
    assert sees(house, who("eve"), "rulesword") == []
    house.reconfigure(POLICIES + '[[policy]]\nprefix = "feed/"\nothers = ["read"]\n')
    assert sees(house, who("eve"), "rulesword") == ["rulesword"]
    house.reconfigure(POLICIES)
    assert sees(house, who("eve"), "rulesword") == []
    assert sees(house, house.admin, "rulesword") == ["rulesword"]

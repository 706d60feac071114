"""spec/search.md, section 6: a search over messages finds what grep finds, in pages, in order, also behind a kill."""

import json
import random
import re
import signal
import threading
import time

import pytest

from client import Client, Refused, until
from searching import ALONE, SETTINGS, TRANSLATIONS, caught_up, found, grep, lines, pages, pattern, places, texts, timelines, translations, words
from server import Server

EASTERN = [
    "今天的潮水很高，船都在港口里。",
    "港口明天开放吗？我们想去看船。",
    "他说：港口在城市的东边。",
    "明日の朝、東京の港で会いましょう。",
    "カタカナとひらがなと漢字が混ざった文です。",
    "東京タワーは高いですか。",
    "오늘 항구에 배가 많이 들어왔습니다.",
    "내일 아침에 항구에서 만나요",
    "바다는 넓고 하늘은 높다",
    "版本2.0发布了, see tideline版本notes",
]
if TRANSLATIONS:
    EASTERN = translations(3_000, 4) + EASTERN
CJK = re.compile(rf"[{ALONE}]+")


def searchable(directory, settings=SETTINGS):
    return Server(directory, config=settings)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    running = searchable(tmp_path_factory.mktemp("indexed")).start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def chat(indexed):
    """A slice of a real chat and some lines of the East in four timelines: what each message says, by its place."""
    corpus = {}
    with Client(indexed) as client:
        some = [lines(1_500, 1), lines(1_500, 2), lines(600, 3)]
        if TRANSLATIONS:
            all_of_it = lines(1 << 30, 1)
            some = [all_of_it[first::3] for first in range(3)]
        for number, many in enumerate([*some, EASTERN]):
            timeline = f"chat/{number}"
            for first in range(0, len(many), 100):
                batch = many[first : first + 100]
                client.call("message.append_batch", timeline=timeline, messages=[{"entry": {"text": text}} for text in batch])
            corpus.update({(timeline, at): text for at, text in enumerate(many, 1)})
        caught_up(client.call)
    return corpus


@pytest.fixture
def ask(indexed):
    with Client(indexed) as client:
        yield client.call


@pytest.fixture
def own(tmp_path):
    running = searchable(tmp_path)
    yield running
    running.kill()


def samples(corpus, count, seed, least=3):
    """Lines with so many words at least, of which nothing is the query language's."""
    rng = random.Random(seed)
    fitting = sorted(text for text in set(corpus.values()) if len(words(text)) >= least and text.isascii())
    return rng, rng.sample(fitting, 200 if TRANSLATIONS else count)


def in_chat(ask, query, **params):
    return places(found(ask, query, prefix="chat/", **params))


# Words


def test_all_words_of_a_line_find_what_grep_finds(chat, ask):
    rng, some = samples(chat, 60, 11)
    for text in some:
        chosen = rng.sample(sorted(set(words(text))), min(rng.randint(1, 5), len(set(words(text)))))
        query = " ".join(word.upper() if rng.random() < 0.2 else word for word in chosen)
        expected = grep(chat, *(pattern([word]) for word in chosen))
        assert expected and in_chat(ask, query) == expected, query


def test_a_phrase_finds_what_grep_finds(chat, ask):
    rng, some = samples(chat, 40, 12, least=4)
    for text in some:
        many = words(text)
        first = rng.randrange(len(many) - 1)
        chosen = many[first : first + rng.randint(2, 4)]
        expected = grep(chat, pattern(chosen))
        assert expected and in_chat(ask, f'"{" ".join(chosen)}"') == expected, chosen


def test_a_phrase_is_found_as_it_is_written(chat, ask):
    rng, some = samples(chat, 40, 13, least=4)
    for text in some:
        spans = [match.span() for match in re.finditer(r"[^\W_]+", text)]
        first = rng.randrange(len(spans) - 1)
        last = min(first + rng.randint(1, 4), len(spans) - 1)
        cut = text[spans[first][0] : spans[last][1]]
        if '"' not in cut:
            assert in_chat(ask, f'"{cut}"') == grep(chat, pattern(words(cut))), cut


def test_a_beginning_finds_what_grep_finds(chat, ask):
    rng, some = samples(chat, 40, 14)
    for text in some:
        word = rng.choice([word for word in words(text)])
        begin = word[: rng.randint(min(2, len(word)), len(word))]
        other = rng.choice(words(text))
        expected = grep(chat, pattern([begin], begins=True), pattern([other]))
        assert expected and in_chat(ask, f"{begin}* {other}") == expected, (begin, other)


def test_without_finds_what_grep_finds(chat, ask):
    rng, some = samples(chat, 40, 15)
    for text in some:
        word, *others = rng.sample(words(text), 3)
        of_others = rng.choice(words(rng.choice(some)))
        query = f'{word} -{of_others} -"{others[0]} {others[1]}"'
        without = [pattern([of_others]), pattern(others[:2])]
        assert in_chat(ask, query) == grep(chat, pattern([word]), without=without), query
    # Nothing but words that must not be there: all other messages.
    assert in_chat(ask, "-the") == grep(chat, without=[pattern(["the"])])


def test_a_line_as_it_stands_finds_itself(chat, ask):
    """Addresses, times, smileys: what is no language of queries is text."""
    _, some = samples(chat, 60, 16)
    for text in some:
        if '"' in text or len(text) > 900 or any(part.startswith("-") or part.endswith("*") for part in text.split()):
            continue
        itself = {place for place, other in chat.items() if other == text}
        got = in_chat(ask, text)
        assert itself <= got <= grep(chat, *(pattern([word]) for word in words(text))), text


def test_parts_of_eastern_lines_find_what_grep_finds(chat, ask):
    rng = random.Random(17)
    runs = [match.group() for text in EASTERN for match in CJK.finditer(text)]
    for run in rng.sample(runs, 200) if TRANSLATIONS else runs:
        for _ in range(1 if TRANSLATIONS else 6):
            first = rng.randrange(len(run))
            part = run[first : first + rng.randint(1, 6)]
            expected = {place for place, text in chat.items() if part in text}
            assert expected and in_chat(ask, part) == expected, part
            assert in_chat(ask, f'"{part}"') == expected
    # The other order is another text.
    assert in_chat(ask, "口港") == set() and in_chat(ask, "港 口") >= in_chat(ask, "港口")
    assert in_chat(ask, "版本 notes -港口") == {("chat/3", len(EASTERN))}


def test_every_text_of_an_entry_is_found(ask, name):
    nested = {"text": "alpha", "title": "beta", "blocks": [{"kind": "x", "spans": ["gamma", {"deep": "delta"}]}], "n": 4711}
    ask("message.append", timeline=name, entry=nested)
    for word in ["alpha", "beta", "gamma", "delta", "alpha delta", "GAMMA beta"]:
        assert places(found(ask, word, timelines=[name])) == {(name, 1)}, word
    # Two texts are not one, and names are not texts.
    for word in ['"alpha beta"', "blocks", "epsilon"]:
        assert found(ask, word, timelines=[name]) == []
    for script in ["ไปตลาดพรุ่งนี้เช้า", "Øresund straße ΑΘΗΝΑ Москва"]:
        ask("message.append", timeline=name, entry={"text": script})
    for word, expected in [("ตลาด", 2), ("พรุ่งนี้", 2), ("øresund", 3), ("STRASSE -x", None), ("αθηνα", 3), ("МОСКВА", 3)]:
        assert expected is None or places(found(ask, word, timelines=[name])) == {(name, expected)}, word


def test_what_was_found_is_shown_as_it_stands(chat, ask):
    rng, some = samples(chat, 30, 18)
    for text in some:
        word = rng.choice(words(text))
        for hit in found(ask, word, prefix="chat/", limit=50)[:50]:
            said = hit["message"]["entry"]["text"]
            assert hit["found"], hit
            for piece in hit["found"]:
                assert piece["name"] == "text" and "".join(part["text"] for part in piece["parts"]) in said
                marked = [part["text"] for part in piece["parts"] if part.get("hit")]
                assert all(word in words(one) for one in marked), (word, piece)
            assert any(part.get("hit") for piece in hit["found"] for part in piece["parts"])


# What else can be asked for


def test_sender_times_and_timelines_narrow_a_search(indexed, ask, name):
    for number, user in enumerate(["ann", "ben", "ann"]):
        with Client(indexed, user=user) as client:
            client.append(f"{name}/{number % 2}", {"text": f"narrow {number}"})
        time.sleep(0.02)
    whole = found(ask, "narrow", prefix=f"{name}/")
    assert [hit["message"]["entry"]["text"] for hit in whole] == ["narrow 2", "narrow 1", "narrow 0"]
    at = [hit["message"]["timestamp"] for hit in whole][::-1]
    for params, expected in [
        ({"sender": "ann"}, [0, 2]), ({"sender": "ben"}, [1]), ({"sender": "an"}, []), ({"timelines": [f"{name}/1"]}, [1]),
        ({"timelines": [f"{name}/0", f"{name}/1", f"{name}/none"]}, [0, 1, 2]), ({"prefix": f"{name}/0"}, [0, 2]),
        ({"timelines": [f"{name}/1"], "prefix": f"{name}/0"}, []), ({"from": at[1]}, [1, 2]), ({"to": at[1]}, [0]),
        ({"from": at[0], "to": at[2]}, [0, 1]), ({"from": at[2] + 1}, []), ({"from": at[1], "sender": "ann"}, [2]),
    ]:
        got = found(ask, "narrow", **{"prefix": f"{name}/", **params})
        assert texts(got) == [f"narrow {number}" for number in expected], params
    # Without a query all of them.
    assert len(found(ask, prefix=f"{name}/", sender="ann")) == 2
    assert all(hit["found"] == [] for hit in found(ask, prefix=f"{name}/"))


def test_where_compares_names_that_the_operator_chose(ask, name):
    values = [1, 2.0, 2, -5, "2", "tide", "Tide", True, 9_007_199_254_740_993]
    for value in values:
        ask("message.append", timeline=name, entry={"text": "w", "n": value})
    ask("message.append", timeline=name, entry={"text": "w", "topic": "boats"})
    number = lambda value: isinstance(value, (int, float)) and not isinstance(value, bool)
    alike = lambda one, other: number(one) == number(other) and (number(one) or type(one) is type(other))
    does = {
        "=": lambda a, b: alike(a, b) and a == b, "<": lambda a, b: alike(a, b) and a < b, "<=": lambda a, b: alike(a, b) and a <= b,
        ">": lambda a, b: alike(a, b) and a > b, ">=": lambda a, b: alike(a, b) and a >= b,
    }
    for op, holds in does.items():
        for wanted in [2, 2.0, -5, 0, "2", "tide", "sea", 9_007_199_254_740_992]:
            expected = {(name, at) for at, value in enumerate(values, 1) if holds(value, wanted)}
            asked = {"name": "n", "op": op, "value": wanted}
            assert places(found(ask, "w", timelines=[name], where=[asked])) == expected, (op, wanted)
    assert places(found(ask, timelines=[name], where=[{"name": "n", "op": "=", "value": True}])) == {(name, 8)}
    # All of them have to hold; a name that is not there fulfils nothing.
    both = [{"name": "n", "op": ">", "value": 0}, {"name": "n", "op": "<", "value": 2}]
    assert places(found(ask, timelines=[name], where=both)) == {(name, 1)}
    assert places(found(ask, timelines=[name], where=[{"name": "topic", "op": "=", "value": "boats"}])) == {(name, 10)}
    assert places(found(ask, timelines=[name], where=[{"name": "n", "op": "!=", "value": "x"}])) == {(name, at) for at in range(1, 10)}


# Pages and order


def test_pages_are_one_list_in_order(chat, ask):
    whole = found(ask, "the", prefix="chat/")
    keys = [(-hit["message"]["timestamp"], hit["timeline"], -hit["message"]["sequence"]) for hit in whole]
    assert keys == sorted(keys) and len(keys) > 100
    for limit in [1, 7, 99, 1_000]:
        some = pages(ask, query="the", prefix="chat/", limit=limit, patience=2_000)
        assert all(len(page["messages"]) <= min(limit, 100) for page in some)
        assert [hit for page in some for hit in page["messages"]] == whole
    best = found(ask, "the", prefix="chat/", order="best")
    assert places(best) == places(whole) and best != whole
    assert [hit for page in pages(ask, query="the", prefix="chat/", order="best", limit=13) for hit in page["messages"]] == best
    assert len(ask("message.search", query="the")["messages"]) == 20


def test_the_best_are_those_that_are_most_about_the_words(ask, name):
    for text in ["tide " + "x " * 60, "tide", "a b c d e f g tide h i j k"]:
        ask("message.append", timeline=name, entry={"text": text})
    got = found(ask, "tide", timelines=[name], order="best")
    assert [hit["message"]["sequence"] for hit in got] == [2, 3, 1]


def test_what_comes_between_two_pages_moves_none(indexed, ask, name):
    for number in range(30):
        ask("message.append", timeline=name, entry={"text": f"page {number}"})
    first = ask("message.search", query="page", timelines=[name], limit=10)
    for number in range(30, 40):
        ask("message.append", timeline=name, entry={"text": f"page {number}"})
    ask("message.delete", timeline=name, sequence=15)
    rest, after = [], first["next"]
    while after:
        page = ask("message.search", query="page", timelines=[name], limit=10, after=after)
        rest += page["messages"]
        after = page.get("next")
    assert [hit["message"]["sequence"] for hit in first["messages"] + rest] == [at for at in range(30, 0, -1) if at != 15]


def test_a_page_of_many_large_messages_fits_a_frame(ask, name):
    for number in range(12):
        ask("message.append", timeline=name, entry={"text": f"large {number}", "rest": "y" * 200_000})
    assert len(found(ask, "large", timelines=[name])) == 12


def test_a_token_is_of_its_search_and_its_caller(indexed, ask, name):
    for number in range(5):
        ask("message.append", timeline=name, entry={"text": "token word"})
    asked = {"query": "token", "timelines": [name], "limit": 2}
    after = ask("message.search", **asked)["next"]
    assert len(ask("message.search", **asked, after=after)["messages"]) == 2
    # Of the same caller on another connection, and with another limit.
    with Client(indexed) as again:
        assert len(again.call("message.search", **{**asked, "limit": 3}, after=after)["messages"]) == 3
    for change in [
        {"query": "word"}, {"query": "token word"}, {"timelines": [name, "x"]}, {"prefix": name}, {"sender": "ann"}, {"from": 1}, {"to": 1 << 50},
        {"order": "best"}, {"where": [{"name": "n", "op": "=", "value": 1}]},
    ]:
        is_refused(ask, "message.search", "after", **{**asked, **change}, after=after)
    with Client(indexed, user="eve") as eve:
        is_refused(eve.call, "message.search", "after", **asked, after=after)
    is_refused(ask, "timeline.search", "after", query="token", after=after)
    for garbage in ["", "x", after[:-1], after + "A", after[1:], "A" * len(after), "é", "A" * 5_000]:
        is_refused(ask, "message.search", "after", **asked, after=garbage)


# Bad input


def is_refused(ask, method, field, **params):
    with pytest.raises(Refused) as refused:
        ask(method, **params)
    error = refused.value
    assert (error.code, error.data["field"]) == (-32602, field), (params, error)
    assert error.message and error.data["retry"] is False


@pytest.mark.parametrize(
    ("field", "params"),
    [
        ("query", {"query": "x" * 4_097}), ("query", {"query": "a " * 10_000}), ("query", {"query": "港" * 1_366}), ("query", {"query": 5}), ("query", {"query": "a " * 65}),
        ("timelines", {"timelines": []}), ("timelines", {"timelines": ["x"] * 101}), ("timelines[1]", {"timelines": ["x", ""]}),
        ("timelines[0]", {"timelines": ["x" * 256]}), ("prefix", {"prefix": "x" * 256}), ("sender", {"sender": ""}), ("sender", {"sender": "x" * 129}),
        ("sender", {"sender": "a\nb"}), ("limit", {"limit": 0}), ("limit", {"limit": -1}), ("from", {"from": -1}), ("to", {"to": 1.5}),
        ("order", {"order": "worst"}), ("where", {"where": [{"name": "n", "op": "=", "value": 1}] * 17}),
        ("where[0].name", {"where": [{"name": "", "op": "=", "value": 1}]}), ("where[0].op", {"where": [{"name": "n", "op": "~", "value": 1}]}),
        ("where[0].value", {"where": [{"name": "n", "op": "=", "value": "x" * 1_025}]}),
        ("where[0].value", {"where": [{"name": "n", "op": "=", "value": {"$binary": "AA=="}}]}),
        ("where[0].name", {"where": [{"name": "unchosen", "op": "=", "value": 1}]}), ("after", {"after": "nonsense"}), ("nonsense", {"nonsense": 1}),
    ],
    ids=lambda it: it if isinstance(it, str) else json.dumps(it)[:40],
)
def test_what_cannot_be_asked_names_its_field(ask, field, params):
    is_refused(ask, "message.search", field, **{"query": "x", **params})


def test_no_query_is_a_mistake_of_syntax(ask, name):
    said = ['he said "tide', "- * \" ( ) AND OR", "a:b c^2 [x TO y] ~3 \\ /re/ {!} <>", "tide"]
    for text in said:
        ask("message.append", timeline=name, entry={"text": text})
    only = lambda query: {sequence for _, sequence in places(found(ask, query, timelines=[name]))}
    # A quote that does not close is text.
    assert only('said "tide') == {1} and only('"tide') == {1, 4}
    assert only("AND") == {2} and only("c^2") == {3} and only("[x TO y]") == {3} and only("a:b") == {3}
    # A blank query narrows nothing; signs alone are a text that no message has.
    for blank in ["", " ", " \t\n"]:
        assert only(blank) == {1, 2, 3, 4}
    for signs in ["*", '"', "( )", "***", "!?", "?"]:
        assert only(signs) == set(), signs
    for signs in ["-", '""', "-*", "--", '-"', "\u200b"]:
        only(signs)
    for odd in ["\x00", "\u202e", "*tide", "ti*de", "-tide*", '-"tide in"*', "tide " * 64, "a* " * 64, "é" * 500, "𝔘𝔫", "x" * 1_024]:
        only(odd)
    assert only("ti*") == {1, 4} and only("-ti*") == {2, 3} and only("tide -said") == {4}
    # Words side by side of which the last one only begins so.
    assert only("b-c*") == {3} and only("-b-c*") == {1, 2, 4} and only("-a-c*") == {1, 2, 3, 4}


def test_many_beginnings_are_bounded_work(chat, ask):
    begun = time.monotonic()
    many = " ".join(f"{one}*" for one in "abcdefghijklmnopqrstuvwxyz")
    pages(ask, query=many)
    pages(ask, query=" ".join(f"-{one}*" for one in "abcdefghijklmnopqrstuvwxyz"))
    ask("ping")
    assert time.monotonic() - begun < 60


def test_off_is_said(server, client):
    for method in ["message.search", "timeline.search"]:
        with pytest.raises(Refused) as refused:
            client.call(method, query="x")
        assert refused.value.reason == "search_off" and refused.value.data["retry"] is False
        # What is wrong with a call is said first, or it would be found when it is switched on.
        is_refused(client.call, method, "limit", limit=0)


# Changes


def test_an_answered_write_is_found_at_once(indexed, ask, name):
    with Client(indexed, user="ann") as ann:
        for number in range(40):
            ann.append(f"{name}/{number % 3}", {"text": f"atonce{number}"})
            assert len(found(ask, f"atonce{number}")) == 1
            assert len(found(ask, f"atonce{number}", timelines=[f"{name}/{number % 3}"])) == 1


def test_edits_deletions_and_trims_are_followed(indexed, ask, name):
    only = lambda query: {sequence for _, sequence in places(found(ask, query, timelines=[name]))}
    with Client(indexed, user="ann") as ann:
        for text in ["before one", "before two", "before three", "before four", "before five"]:
            ann.append(name, {"text": text, "topic": "a"})
        ann.call("message.update", timeline=name, sequence=2, set={"text": "afterwards two", "topic": "b"})
        assert only("before") == {1, 3, 4, 5} and only("afterwards") == {2}
        assert {sequence for _, sequence in places(found(ask, timelines=[name], where=[{"name": "topic", "op": "=", "value": "b"}]))} == {2}
        ann.call("message.update", timeline=name, sequence=2, remove=["text"])
        assert only("afterwards") == set() and only("two") == set()
        ann.call("message.delete", timeline=name, sequence=3)
        ann.call("message.recall", timeline=name, sequence=4, reason="wrongwindow")
        assert only("before") == {1, 5} and only("wrongwindow") == set()
        assert only(None) == {1, 2, 5}
        ask("timeline.trim", timeline=name, before=3)
        assert only("before") == {5} and only(None) == {5}
        assert ask("timeline.delete", timeline=name) == {"deleted": True}
        assert only("before") == set()
        ann.append(name, {"text": "another history"})
        assert only("before") == set() and only("history") == {1}
        assert found(ask, "history", timelines=[name])[0]["epoch"] == ask("timeline.get", timeline=name)["epoch"]


def test_what_expires_is_not_found_any_more(ask, name):
    ask("message.append", timeline=name, entry={"text": "brief"}, expires_in_ms=2_500)
    ask("message.append", timeline=name, entry={"text": "brief too"})
    hit = found(ask, "brief", timelines=[name])
    assert len(hit) in [1, 2]
    until(lambda: len(found(ask, "brief", timelines=[name])) == 1)
    assert texts(found(ask, "brief", timelines=[name])) == ["brief too"]


def test_a_message_that_grows_is_found_when_it_is_closed(indexed, ask, name):
    with Client(indexed, user="bot") as bot:
        sequence = bot.append(name, {"text": "begun"}, open=True)["sequence"]
        bot.call("message.extend", timeline=name, sequence=sequence, part=1, text=" and grown")
        assert len(found(ask, "begun", timelines=[name])) == 1
        bot.call("message.finish", timeline=name, sequence=sequence, parts=1)
        assert texts(found(ask, "begun grown", timelines=[name])) == ["begun and grown"]


def test_what_is_due_later_is_found_when_it_is_there(indexed, ask, name):
    with Client(indexed, user="ann") as ann:
        at = ann.call("ping")["time"] + 1_500
        ann.append(name, {"text": "duelater"}, message_id="m", deliver_at=at)
        early = found(ask, "duelater")
        assert ann.call("ping")["time"] >= at or early == []
        until(lambda: len(found(ask, "duelater")) == 1)


# Timelines


def test_timelines_are_found_by_their_metas(indexed, ask, name):
    metas = [{"title": "Harbour watch", "kind": "public", "n": 3}, {"title": "harbour office", "kind": "staff", "n": 5, "open": True}, {"about": {"deep": ["harbour"]}}, {}]
    for number, meta in enumerate(metas):
        ask("timeline.create", timeline=f"{name}/{number}", meta=meta)
    only = lambda query=None, **params: [one.rsplit("/", 1)[1] for one in timelines(ask, query, prefix=f"{name}/", **params)]
    assert only("harbour") == ["0", "1", "2"] and only("harb* -office") == ["0", "2"] and only('"harbour office"') == ["1"]
    assert only() == ["0", "1", "2", "3"] and only(limit=1) == ["0", "1", "2", "3"]
    # Of metas every scalar at the top can be asked for.
    for op, value, expected in [(">", 3, ["1"]), (">=", 3, ["0", "1"]), ("=", 5, ["1"])]:
        assert only(where=[{"name": "n", "op": op, "value": value}]) == expected
    assert only(where=[{"name": "kind", "op": "=", "value": "staff"}, {"name": "open", "op": "=", "value": True}]) == ["1"]
    assert only("harbour", where=[{"name": "kind", "op": "=", "value": "public"}]) == ["0"]
    [one] = ask("timeline.search", query="watch", prefix=f"{name}/")["timelines"]
    assert one == ask("timeline.get", timeline=f"{name}/0")
    ask("timeline.update", timeline=f"{name}/0", meta={"title": "Lighthouse", "kind": None})
    assert only("watch") == [] and only("lighthouse") == ["0"]
    ask("timeline.delete", timeline=f"{name}/1")
    assert only("harbour") == ["2"] and only() == ["0", "2", "3"]
    after = ask("timeline.search", prefix=f"{name}/", limit=1)["next"]
    is_refused(ask, "timeline.search", "after", prefix=name, after=after)
    is_refused(ask, "timeline.search", "limit", limit=0)
    is_refused(ask, "timeline.search", "query", query="x" * 4_097)


# Kills and switches


class Writer:
    """Appends with short pauses and keeps which words were acknowledged."""

    def __init__(self, server, number):
        self.server, self.number, self.done, self.answered = server, number, False, []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        count = 0
        while not self.done:
            try:
                with Client(self.server, user=f"w{self.number}") as client:
                    while not self.done:
                        word = f"word{self.number}x{count}"
                        count += 1
                        client.append(f"kill/{self.number}", {"text": f"some {word} here"})
                        self.answered.append(word)
                        # Each append is indexed: without a pause that takes all of the machine.
                        time.sleep(0.005)
            except Exception:  # the server is killed meanwhile
                time.sleep(0.05)


def test_what_was_acknowledged_is_found_behind_every_kill(own):
    own.start()
    writers = [Writer(own, number) for number in range(2)]
    rng, seen = random.Random(5), 0
    try:
        for turn in range(5):
            until(lambda: sum(len(writer.answered) for writer in writers) > seen + 60)
            with Client(own) as client:
                for _ in range(rng.randint(1, 8)):
                    for writer in writers:
                        word = writer.answered[-1]
                        assert len(found(client.call, word)) == 1, (turn, word)
            own.restart(signal.SIGKILL)
            with Client(own) as client:
                caught_up(client.call)
                for writer in writers:
                    whole = list(writer.answered)
                    got = {words(text)[1] for text in texts(found(client.call, "some", timelines=[f"kill/{writer.number}"]))}
                    assert set(whole) <= got, (turn, sorted(set(whole) - got)[:5])
            seen = sum(len(writer.answered) for writer in writers)
    finally:
        for writer in writers:
            writer.done = True
            writer.thread.join(60)


def test_what_was_written_while_it_was_off_is_found_when_it_is_on(own):
    own.config = None
    own.start()
    with Client(own) as client:
        client.append("off/1", {"text": "first of all"})
        client.call("timeline.create", timeline="off/2", meta={"title": "first room"})
    for config, text in [(SETTINGS, "second"), (None, "third"), (SETTINGS, "fourth")]:
        own.stop()
        own.config = config
        own.start()
        with Client(own) as client:
            client.append("off/1", {"text": f"{text} of all"})
            if config is None:
                client.call("message.update", timeline="off/1", sequence=1, set={"text": "edited of all"})
                client.call("message.delete", timeline="off/1", sequence=2)
                continue
            caught_up(client.call)
            expected = {"second": ["first of all", "second of all"], "fourth": ["edited of all", "fourth of all", "third of all"]}[text]
            assert texts(found(client.call, "all")) == expected
            assert timelines(client.call, "room") == ["off/2"]


def test_a_split_loses_and_doubles_nothing(own):
    own.start()
    with Client(own) as client:
        for number in range(60):
            client.append(f"split/{number}", {"text": f"apart {number}"})
        client.call("partition.split", partition=0)
        for number in range(60):
            client.append(f"split/{number}", {"text": f"apart again {number}"})
            if number % 20 == 0:
                assert len(found(client.call, f'"again {number}"')) == 1
        assert len(places(found(client.call, "apart"))) == 120
    own.restart(signal.SIGKILL)
    with Client(own) as client:
        caught_up(client.call)
        assert len(places(found(client.call, "apart"))) == 120

"""What the suites of searches share: servers with an index of all messages, whole answers, and a plain search by hand.

Owns: nothing. Promises: `grep` knows nothing of an index: it reads each text with regular expressions. Must not: be
told what a server found.
"""

import gettext
import os
import pathlib
import random
import re

from client import until

SETTINGS = '[search]\nmessages = true\nwhere = ["topic", "n"]\n'
ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAT = ROOT.parent / "shared" / "data" / "ubuntu-irc"
# The long form: all of the chat, more queries, and as lines of the East the translations (`ja/…/*.mo` and so on) below this folder.
TRANSLATIONS = os.environ.get("TIDELINE_TRANSLATIONS")


def pages(ask, method="message.search", limit=100, patience=3_000, **params):
    """All pages of a search. `ask` calls a method."""
    answers, after = [], {}
    while len(answers) < patience:
        page = ask(method, limit=limit, **params, **after)
        assert set(page) <= {"messages", "timelines", "next", "behind"}, page
        answers.append(page)
        if "next" not in page:
            return answers
        after = {"after": page["next"]}
    raise AssertionError(f"no end after {patience} pages")


def found(ask, query=None, **params):
    """All hits of a search that is not behind."""
    asked = params if query is None else {**params, "query": query}
    # A machine that is too busy for the index to keep up is told so, and asks again.
    for _ in range(5):
        answers = pages(ask, **asked)
        if not any("behind" in page for page in answers):
            return [hit for page in answers for hit in page["messages"]]
    raise AssertionError("the index is behind")


def places(hits):
    """Which messages they are. None is found twice."""
    all_of_them = [(hit["timeline"], hit["message"]["sequence"]) for hit in hits]
    assert len(set(all_of_them)) == len(all_of_them), all_of_them
    return set(all_of_them)


def texts(hits):
    return sorted(hit["message"]["entry"]["text"] for hit in hits)


def timelines(ask, query=None, **params):
    asked = params if query is None else {**params, "query": query}
    return [one["timeline"] for page in pages(ask, "timeline.search", **asked) for one in page["timelines"]]


def caught_up(ask):
    """Waits until the index has all that there is."""
    until(lambda: "behind" not in ask("message.search", query="x", limit=1))


def lines(count, seed):
    """So many lines of a real chat; of the repository's pages where the chat is not there."""
    folder, pattern = (CHAT, "*.raw.txt") if CHAT.is_dir() else (ROOT / "docs", "*.md")
    files = sorted(folder.glob(pattern))
    rng = random.Random(seed)
    rng.shuffle(files)
    got = []
    for path in files:
        whole = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
        first = rng.randrange(max(1, len(whole) - count // 3))
        got += whole[first : first + count // 3 + 1]
        if len(got) >= count:
            break
    return got[:count]


def translations(count, seed):
    """So many texts of the translations, of each language as many as of the others."""
    rng, got = random.Random(seed), []
    for language in ("zh_Hans", "ja", "ko"):
        files = sorted(pathlib.Path(TRANSLATIONS).rglob(f"{language}/LC_MESSAGES/*.mo"))
        assert files, f"no translations to {language} below {TRANSLATIONS}"
        texts = {text for path in files for text in gettext.GNUTranslations(path.open("rb"))._catalog.values() if len(text) < 2_000}
        texts = sorted(text for text in texts if not text.isascii())
        got += rng.sample(texts, min(count // 3, len(texts)))
    return got


# Characters that are words by themselves.
ALONE = r"\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
LETTER = rf"[^\W_{ALONE}]"


def words(text):
    return re.findall(rf"{LETTER}+", text.lower())


def pattern(words, begins=False):
    """Whether a text has these words side by side; with `begins` the last may go on."""
    middle = r"[\W_]+".join(re.escape(word) for word in words)
    search = re.compile(rf"(?<!{LETTER}){middle}" + ("" if begins else rf"(?!{LETTER})"), re.I).search
    # Most texts have not even the letters.
    return lambda text: all(word in text.lower() for word in words) and search(text)


def grep(corpus, *wanted, without=()):
    """The places of the texts in which all patterns are, and none of `without`."""
    has = lambda text: all(one(text) for one in wanted) and not any(one(text) for one in without)
    return {place for place, text in corpus.items() if has(text)}

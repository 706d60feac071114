"""Two people use the chat of docs/QUICKSTART.md, each in a browser.

Owns: what they do and see. Must not: have any line of the chat itself; that is on the page.
"""

import http.client
import json

from browser import Browser, chromium, until

ROOMS = ["room/harbour", "room/crew"]


def chat(directory, url):
    """Returns what the machine lacks for it."""
    if not chromium():
        return {"chromium"}
    until(lambda: (directory / "login.log").read_text(), lambda: answers(url))
    with Browser(directory / "browser") as browser:
        ann, ben = (browser.person(url) for _ in range(2))
        ann.submit("#login", user="ann", password="fog")
        until("the wrong password is still there", lambda: ann.run("document.forms.login.elements.password.value === '' && location.search === ''"))
        assert ann.texts("#rooms li") == [] and ask(url, "/token") == 401
        for person, name, password in ((ann, "ann", "tide"), (ben, "ben", "fog")):
            person.submit("#login", user=name, password=password)
            until(lambda: person.texts("#rooms li"), lambda: sorted(person.texts("#rooms li")) == sorted(ROOMS))
        ann.click("#rooms li", "room/harbour")
        ann.shows("#online", "online: ann")
        ann.submit("#send", text="the tide is in")
        ann.shows("#messages li", "ann: the tide is in")
        # The room with something new is the first, with a badge for who has not read it.
        ben.shows("#rooms li", "room/harbour (1)", "room/crew")
        ann.shows("#rooms li", "room/harbour", "room/crew")
        ben.click("#rooms li", "room/harbour")
        ben.shows("#messages li", "ann: the tide is in")
        ben.shows("#rooms li", "room/harbour", "room/crew")
        for person in (ann, ben):
            person.shows("#online", "online: ann, ben")
        ben.submit("#send", text="<b>fog</b>")
        for person in (ann, ben):
            person.shows("#messages li", "ann: the tide is in", "ben: <b>fog</b>")
        # A page that is loaded anew is logged in, and has all that it had.
        ann.run("location.reload()")
        ann.shows("#rooms li", "room/harbour", "room/crew")
        ann.click("#rooms li", "room/harbour")
        ann.shows("#messages li", "ann: the tide is in", "ben: <b>fog</b>")
    return set()


def ask(url, path):
    connection = http.client.HTTPConnection(url.split("/")[2], timeout=60)
    connection.request("POST", path, json.dumps({}))
    return connection.getresponse().status


def answers(url):
    try:
        return ask(url, "/token") == 401
    except OSError:
        return False

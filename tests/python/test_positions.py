"""PROTOCOL.md, "Slice 2: people": positions of a user's devices."""

import uuid

from client import Client


def test_positions_are_stored_for_a_device(ada, server):
    places = {"a": {"epoch": "E1", "after": 3}, "b": {"epoch": "E2", "after": 0, "changes_after": 7}}
    assert ada.call("position.set", device="phone", positions=places)["positions"] == places
    assert ada.call("position.list", device="phone") == {"positions": places}
    assert ada.call("position.list", device="tablet") == {"positions": {}}
    [phone] = ada.call("position.list")["devices"]
    assert phone["device"] == "phone" and phone["positions"] == 2 and phone["used_at"] > 1_600_000_000_000
    # Another user's are others.
    with Client(server, user=f"ben-{uuid.uuid4()}") as ben:
        assert ben.call("position.list") == {"devices": []}
        assert ben.call("position.list", device="phone") == {"positions": {}}


def test_positions_of_both_encodings_and_over_http_are_one(server):
    user = f"ada-{uuid.uuid4()}"
    place = {"a": {"epoch": "E1", "after": 3}}
    with Client(server, packed=True, user=user) as packed:
        packed.call("position.set", device="phone", positions=place)
        assert packed.call("position.list", device="phone")["positions"] == place
    with Client(server, user=user) as plain:
        assert plain.call("position.list", device="phone")["positions"] == place


def test_positions_only_move_forward(ada):
    def put(force=None, **place):
        more = {} if force is None else {"force": force}
        return ada.call("position.set", device="phone", positions={"a": {"epoch": "E1", **place}}, **more)["positions"]["a"]

    assert put(after=5, changes_after=2) == {"epoch": "E1", "after": 5, "changes_after": 2}
    # Each number for itself; what is not named stays.
    assert put(after=4, changes_after=3) == {"epoch": "E1", "after": 5, "changes_after": 3}
    assert put(after=6) == {"epoch": "E1", "after": 6, "changes_after": 3}
    assert put(after=2, force=False)["after"] == 6
    assert put(after=2, force=True) == {"epoch": "E1", "after": 2}
    # Another epoch is another history.
    assert put(after=9)["after"] == 9
    assert put(epoch="E2", after=1) == {"epoch": "E2", "after": 1}
    assert ada.call("position.list", device="phone")["positions"] == {"a": {"epoch": "E2", "after": 1}}


def test_devices_are_apart_and_removed_with_their_positions(ada):
    for device in ["phone", "tablet"]:
        ada.call("position.set", device=device, positions={"a": {"epoch": "E1", "after": len(device)}})
    assert ada.call("position.remove", device="phone") == {"removed": True}
    assert ada.call("position.remove", device="phone") == {"removed": False}
    assert [one["device"] for one in ada.call("position.list")["devices"]] == ["tablet"]
    assert ada.call("position.list", device="tablet")["positions"]["a"]["after"] == 6
    # It begins anew.
    ada.call("position.set", device="phone", positions={"b": {"epoch": "E1", "after": 1}})
    assert set(ada.call("position.list", device="phone")["positions"]) == {"b"}


def test_a_hundred_devices(ada, refused):
    for n in range(100):
        ada.call("position.set", device=f"d{n:02}", positions={"a": {"epoch": "E1", "after": n}})
    error = refused(ada, "position.set", 413, "too_many", field="device", device="one-more", positions={})
    assert (error.data["limit"], error.data["actual"]) == (100, 101)
    ada.call("position.set", device="d07", positions={"a": {"epoch": "E1", "after": 200}})
    ada.call("position.remove", device="d08")
    ada.call("position.set", device="one-more", positions={})
    names = [one["device"] for one in ada.call("position.list")["devices"]]
    assert len(names) == 100 and names == sorted(names) and "d08" not in names


def test_ten_thousand_positions_come_in_pages(ada, refused):
    places = {f"room/{n:04}": {"epoch": "E1", "after": n} for n in range(10_000)}
    names = list(places)
    for first in range(0, 10_000, 2_500):
        part = {name: places[name] for name in names[first : first + 2_500]}
        assert ada.call("position.set", device="phone", positions=part)["positions"] == part
    got, pages, after = {}, 0, {}
    while True:
        page = ada.call("position.list", device="phone", **after)
        got.update(page["positions"])
        pages += 1
        if "next" not in page:
            break
        after = {"after": page["next"]}
    assert got == places and pages > 1
    one_more = {"another": {"epoch": "E1", "after": 1}}
    error = refused(ada, "position.set", 413, "too_many", field="positions", device="phone", positions=one_more)
    assert (error.data["limit"], error.data["actual"]) == (10_000, 10_001)
    assert "another" not in ada.call("position.list", device="phone", after="a")["positions"]
    # An answer that can't be told whole is refused before anything is done.
    wide = {f"{n}{'x' * 200}": {"epoch": "E1", "after": n} for n in range(5_000)}
    refused(ada, "position.set", 413, "too_large", field="positions", device="other", positions=wide)
    assert [one["device"] for one in ada.call("position.list")["devices"]] == ["phone"]


def test_positions_outlive_a_kill(own_server):
    own_server.start()
    with Client(own_server, user="ada") as ada:
        ada.call("position.set", device="phone", positions={"a": {"epoch": "E1", "after": 3}})
    own_server.kill()
    own_server.start()
    with Client(own_server, user="ada") as ada:
        assert ada.call("position.list", device="phone")["positions"] == {"a": {"epoch": "E1", "after": 3}}


def test_a_user_is_needed(client, refused):
    refused(client, "position.set", 401, "unauthenticated", device="phone", positions={})
    refused(client, "position.list", 401, "unauthenticated")
    refused(client, "position.list", 401, "unauthenticated", device="phone")
    refused(client, "position.remove", 401, "unauthenticated", device="phone")


def test_params(ada, refused):
    good = {"epoch": "E1", "after": 1}
    refused(ada, "position.set", -32602, positions={"a": good})
    for device in ["", "x" * 65, "a\nb"]:
        refused(ada, "position.set", -32602, field="device", device=device, positions={"a": good})
        refused(ada, "position.remove", -32602, field="device", device=device)
        refused(ada, "position.list", -32602, field="device", device=device)
    for position, field in [
        (3, "positions.a.epoch"),
        ({"after": 3}, "positions.a.epoch"),
        ({"after": 3, "epoch": "not plain"}, "positions.a.epoch"),
        ({"after": 1 << 53, "epoch": "E1"}, "positions.a.after"),
        ({"after": 1, "epoch": "E1", "changes_after": 1 << 53}, "positions.a.changes_after"),
        ({"epoch": "E1"}, None),
        ({"epoch": "E1", "after": -1}, None),
        ({"epoch": "E1", "after": 1, "more": 1}, None),
    ]:
        refused(ada, "position.set", -32602, field=field, device="phone", positions={"a": position})
    refused(ada, "position.list", -32602, field="after", after="a")
    many = {f"t{n}": good for n in range(10_001)}
    refused(ada, "position.set", 413, "too_large", field="positions", device="phone", positions=many)
    assert ada.call("position.list") == {"devices": []}

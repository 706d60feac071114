"""What one caller takes of everything that callers share: the short form of `misuse.py`, without times."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tablestore import OTSServiceError

from client import until
from misuse import ATTACKS, HOLD_NOTHING, HOLDS, MEMORY_MAX, TABLE, UNREFUSED, Bed, Others, expression, misused
from sdk import key

# Small enough to be reached within seconds.
SETTINGS = """
connections_max = 60
inbound_bytes_max = 67108864
watched_timelines_max = 40004
tickets_max = 1000
tablestore_costly_reads_max = 8
tablestore_transactions_max = 80
tablestore_transaction_bytes_max = 134217728
searches_max = 16
message_searches_max = 8
search_memory_bytes_max = 67108864
search_scans_max = 8
"""
# So long an attack lasts at least; by `misuse.py` it lasts a minute.
ATTACK_S = 1
ALL = [(bound, attack) for bound, attacks in ATTACKS.items() for attack in attacks]
GAUGES = {
    "inbound_bytes_max": "tideline_inbound_bytes",
    "answers_bytes_max": "tideline_unread_bytes",
    "tablestore_transactions_max": "tideline_transactions_open",
    "tablestore_transaction_bytes_max": "tideline_transactions_bytes",
    "search_memory_bytes_max": "tideline_search_memory_bytes",
}


@pytest.fixture
def bed(tmp_path):
    running = Bed(tmp_path, settings=SETTINGS)
    yield running.start()
    running.kill()


def held(bed, bound):
    if bound in GAUGES:
        return bed.metric(GAUGES[bound])
    return bed.figures("tideline_held")[bound]


def test_every_resource_has_a_bound_a_share_and_an_attack(bed):
    shares, limits = bed.figures("tideline_share"), bed.figures("tideline_limit")
    assert set(shares) == set(ATTACKS) - {None}, "a resource of src/base/bounds.rs has no attack in misuse.py, or the other way"
    for bound, share in shares.items():
        assert 0 < share <= limits[bound]
        held(bed, bound)


def test_every_method_is_known_to_hold_something_or_nothing(bed):
    methods = {method["name"]: json.dumps(method["params"]) for method in bed.call(bed.admin, "rpc.discover")["methods"]}
    assert set(methods) == {*HOLDS, *HOLD_NOTHING}, "say in misuse.py what a new method holds"
    assert {name for name, params in methods.items() if '"wait_ms"' in params} <= set(HOLDS)
    assert set(HOLDS.values()) <= set(ATTACKS)


@pytest.mark.parametrize("bound, attack", ALL, ids=[attack.__name__ for _, attack in ALL])
def test_others_are_answered_and_memory_stays_within_its_bounds(bed, bound, attack):
    others = Others(bed)
    others.once()
    before, rest = bed.memory(), held(bed, bound) if bound else 0
    share = bed.figures("tideline_share").get(bound, 0)
    reaches = bound not in UNREFUSED
    with misused(bed, attack, connections=80):
        began, refusals = time.monotonic(), 0
        while time.monotonic() < began + (90 if reaches and not refusals else ATTACK_S):
            others.patiently()
            # What is there already is taken as it is: a write that was begun, a connection that was told to leave.
            assert not bound or held(bed, bound) <= 1.5 * share + 64 or bound == "connections_max"
            refusals = bed.figures("tideline_refusals_total").get(bound, 0)
    assert bed.memory("VmHWM") - before < MEMORY_MAX
    assert refusals or not reaches
    others.patiently()
    if bound not in ("tickets_max", "tablestore_transactions_max", "tablestore_transaction_bytes_max", "search_scans_max"):
        # Those live for a while.
        until(lambda: not bound or held(bed, bound) <= rest + 8)


def test_calls_that_do_nothing_fill_no_log(bed):
    attack = ATTACKS[None][1]
    with misused(bed, attack, connections=0):
        until(lambda: bed.metric("tideline_requests_total", '{method="session.close",result="ok"}') > 10_000)
    assert bed.whole_log().count("session.close") <= 2 * 60 + 2


def test_costly_reads_of_one_key_take_their_part_of_a_processor_and_no_more(bed):
    """6 % of one, after 2 s at once; another key's are made meanwhile."""
    rule = expression(80)
    mallory, ann = (bed.tables(bed.keys[name]) for name in ("mallory", "ann"))
    refused = []

    def read():
        deadline = time.monotonic() + 120
        try:
            while not refused and time.monotonic() < deadline:
                mallory.get_row(TABLE, key("large"), column_filter=rule)
        except OTSServiceError as error:
            refused.append(error)

    # Several at a time: on a machine that does much else one client waits more than its reads take.
    with ThreadPoolExecutor(4) as readers:
        for _ in range(4):
            readers.submit(read)
    assert refused and {error.code for error in refused} == {"OTSServerBusy"}
    assert bed.figures("tideline_refusals_total")["tablestore_costly_reads_max"] > 0
    # What costs little goes on.
    mallory.get_row(TABLE, key("small"), column_filter=expression(20))
    ann.get_row(TABLE, key("large"), column_filter=rule)

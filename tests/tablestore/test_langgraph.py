"""LangGraph's checkpoints in tables, by our package as it is installed: LangGraph's own suite of tests, also while the server is killed."""

import asyncio
import itertools
import os
import re
import signal
import subprocess
import sys
from typing import Annotated, TypedDict

import pytest
from tablestore import CapacityUnit, OTSClient, ReservedThroughput, TableMeta, TableOptions

from agents import PACKAGE, Kills
from sdk import STRING_KEY, refused, users_tables

TESTS = 81
MIB = 1 << 20


@pytest.fixture
def saver(installed, own_server):
    return saver_of(own_server.start())


def saver_of(server, **options):
    from langgraph_tideline import TidelineSaver

    made = TidelineSaver(OTSClient(server.origin, "development", "development", "tideline"), **options)
    made.setup()
    return made


def conformance(saver, *only):
    """How many of LangGraph's tests passed, and what is said of the others."""
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    @checkpointer_test(name="Tideline")
    async def made():
        yield saver

    results = asyncio.run(validate(made, capabilities=set(only) or None)).results.values()
    assert only or all(result.detected for result in results)
    return sum(result.tests_passed for result in results), [text for result in results for text in result.failures]


def test_langgraphs_own_suite(saver):
    assert conformance(saver) == (TESTS, [])


def test_langgraphs_own_suite_while_the_server_is_killed(saver, own_server):
    line = Kills(own_server, saver._tables._client, every=25)
    assert conformance(saver) == (TESTS, [])
    assert line.kills >= 20, line.kills


def test_a_saver_that_repeats_nothing_fails_then(installed, own_server):
    """The control of the kills."""
    saver = saver_of(own_server.start(), patience_s=0)
    Kills(own_server, saver._tables._client, every=100)
    passed, failures = conformance(saver)
    assert passed < TESTS and len(failures) == TESTS - passed


@pytest.mark.skipif(os.environ.get("TIDELINE_FAULTS") != "1", reason="needs a build with faults")
def test_a_server_that_answers_before_it_writes_is_noticed(installed, own_server):
    """The control of what is answered."""
    own_server.environment = {"TIDELINE_FAULT": "ack_before_log"}
    saver = saver_of(own_server.start())
    Kills(own_server, saver._tables._client, every=25)
    passed, failures = conformance(saver, "put")
    assert failures and passed < 15, passed


def test_a_checkpoint_that_is_answered_and_lost_is_noticed(saver):
    """The control of the suite: instead of some PutRow the first one goes out again, so its answer is a real one."""
    connection = saver._tables._client.connection
    send, put = connection.send_receive, []

    def send_receive(url, *rest):
        if url == "/PutRow":
            put.append(rest)
            if len(put) % 20 == 0:
                return send(url, *put[0])
        return send(url, *rest)

    connection.send_receive = send_receive
    passed, failures = conformance(saver)
    assert passed < TESTS and failures


def added(known, new):
    return (known or []) + new


def counting(saver, steps):
    """A graph that notes a number in each step until there are enough of them."""
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        numbers: Annotated[list, added]

    graph = StateGraph(State)
    graph.add_node("count", lambda state: {"numbers": [len(state["numbers"])]})
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", lambda state: END if len(state["numbers"]) >= steps else "count")
    return graph.compile(checkpointer=saver)


def test_a_graph_whose_server_is_killed_has_each_step_once(saver, own_server):
    line = Kills(own_server, saver._tables._client, every=9)
    graph, thread = counting(saver, 20), {"configurable": {"thread_id": "one"}, "recursion_limit": 100}
    assert graph.invoke({"numbers": [0]}, thread)["numbers"] == list(range(20))
    history = list(graph.get_state_history(thread))
    assert [len(state.values.get("numbers", [])) for state in history] == [*range(20, 0, -1), 0]
    parents = [state.parent_config and state.parent_config["configurable"]["checkpoint_id"] for state in history]
    assert parents == [state.config["configurable"]["checkpoint_id"] for state in history[1:]] + [None]
    assert line.kills >= 5, line.kills


def config(thread="one", namespace="", **more):
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, **more}}


def put(saver, thread="one", namespace="", values=None, **metadata):
    from langgraph.checkpoint.base import empty_checkpoint

    checkpoint = {**empty_checkpoint(), "channel_values": values or {}, "channel_versions": dict.fromkeys(values or {}, 1)}
    return saver.put(config(thread, namespace), checkpoint, metadata, {})


def rows(saver):
    return {table: len(saver._tables.keys(table, ())) for table in ("langgraph", "langgraph_values", "langgraph_runs")}


def test_what_is_large_is_there_whole_and_goes_whole(saver):
    text, other = "tide" * (3 * MIB // 4), "ebb!" * (MIB // 2)
    placed = put(saver, values={"text": text}, run_id="r")
    for _ in range(2):
        saver.put_writes(placed, [("text", other), ("small", 1)], "task", "path")
    found = saver.get_tuple(placed)
    assert found.checkpoint["channel_values"] == {"text": text}
    assert found.pending_writes == [("task", "text", other), ("task", "small", 1)]
    saver.copy_thread("one", "two")
    saver.delete_thread("one")
    assert saver.get_tuple(placed) is None and saver.get_tuple(config("two"))[1:3] == found[1:3]
    assert rows(saver) == {"langgraph": 1, "langgraph_values": 8, "langgraph_runs": 1}
    saver.delete_for_runs(["r"])
    assert set(rows(saver).values()) == {0}


def test_a_part_that_somebody_deletes_is_said(saver):
    placed = put(saver, values={"text": "t" * 2 * MIB})
    tables = saver._tables
    tables.delete(tables.values, tables.keys(tables.values, ())[:1])
    with pytest.raises(LookupError, match="of thread one lacks part of 'value/.*/00000000': it was deleted"):
        saver.get_tuple(placed)


def test_writes_of_a_task_are_one_row_and_the_first_count(saver):
    placed = put(saver)
    saver.put_writes(placed, [("b", 1), ("c", 2)], "later", "path 2")
    saver.put_writes(placed, [("a", 3)], "early", "path 1")
    saver.put_writes(placed, [("b", 9), ("c", 9), ("d", 4)], "later", "path 2")
    for reason in "first", "last":
        saver.put_writes(placed, [("__interrupt__", reason), ("__resume__", reason)], "early", "path 1")
    saver.put_writes(placed, [], "none")
    early = [("early", "__resume__", "last"), ("early", "__interrupt__", "last"), ("early", "a", 3)]
    assert saver.get_tuple(placed).pending_writes == early + [("later", "b", 1), ("later", "c", 2), ("later", "d", 4)]
    assert rows(saver)["langgraph_values"] == 2


def test_a_task_that_somebody_else_writes_meanwhile(saver, own_server):
    """Between what a saver reads and what it puts comes another one's call, first of a new task and then of one that is there."""
    placed, other = put(saver), saver_of(own_server)
    connection = saver._tables._client.connection
    send, meanwhile = connection.send_receive, [[("a", "first")], [("a", "no"), ("b", "no"), ("c", "second")]]

    def send_receive(url, *rest):
        if url == "/PutRow" and meanwhile:
            other.put_writes(placed, meanwhile.pop(0), "task")
        return send(url, *rest)

    connection.send_receive = send_receive
    saver.put_writes(placed, [("a", "late"), ("b", "late"), ("c", "late"), ("d", "mine")], "task")
    assert [(channel, value) for _, channel, value in saver.get_tuple(placed).pending_writes] == [
        ("a", "first"), ("b", "no"), ("c", "second"), ("d", "mine"),
    ] and not meanwhile


def test_many_tasks_of_a_checkpoint_at_once(saver):
    placed = put(saver)

    async def write():
        calls = [saver.aput_writes(placed, [("a", n), ("b", n)], f"task-{n % 20}", f"{n % 20:02}") for n in range(60)]
        await asyncio.gather(*calls)
        return await saver.aget_tuple(placed)

    found = asyncio.run(write())
    assert [task for task, _, _ in found.pending_writes] == [f"task-{n}" for n in range(20) for _ in "ab"]


def test_lists_over_namespaces_and_threads_have_the_newest_first(saver):
    placed = [put(saver, thread, namespace, step=step) for step, (thread, namespace) in enumerate(
        itertools.product(["a", "b", "c"], ["", "inner", "inner|deep"])
    )]
    ids = [one["configurable"]["checkpoint_id"] for one in placed]

    def listed(*args, **options):
        return [ids.index(found.checkpoint["id"]) for found in saver.list(*args, **options)]

    assert listed(None) == list(range(8, -1, -1))
    assert listed({"configurable": {"thread_id": "b"}}) == [5, 4, 3]
    assert listed({"configurable": {"thread_id": "b"}}, limit=1, before=placed[5]) == [4]
    assert listed(config("c", "inner")) == [7] and listed(config("c"), limit=0) == []
    assert listed(None, filter={"step": 6}) == [6] and listed(config("c", checkpoint_id=ids[0])) == []


def test_pruning_leaves_what_deltas_are_made_of(saver):
    from langgraph.channels import DeltaChannel
    from langgraph.graph import END, START, StateGraph

    def folded(known, batch):
        return (known or []) + [one for part in batch for one in part]

    class State(TypedDict):
        numbers: Annotated[list, DeltaChannel(folded, snapshot_frequency=4)]

    steps = StateGraph(State).add_node("count", lambda state: {"numbers": [len(state["numbers"])]}).add_edge(START, "count")
    graph = steps.add_edge("count", END).compile(checkpointer=saver)
    for _ in range(5):
        graph.invoke({"numbers": [7]}, config())
        before = graph.get_state(config()).values
        saver.prune(["one"])
        assert graph.get_state(config()).values == before
    # Fifteen were put.
    assert 1 < rows(saver)["langgraph"] < 9 and len(before["numbers"]) == 10, before


def test_the_tables_are_made_once_and_keep_rows_as_long_as_is_said(saver):
    client = saver._tables._client
    kept = {"langgraph": -1, "langgraph_values": -1}
    for ttl_s in None, 1000, None, 500:
        saver.setup(ttl_s=ttl_s)
        if ttl_s:
            kept = {"langgraph": ttl_s, "langgraph_values": ttl_s + 86_400}
        assert {name: client.describe_table(name).table_options.time_to_live for name in kept} == kept
    assert users_tables(client) == ["langgraph", "langgraph_runs", "langgraph_values"]


def test_what_is_wrong_is_refused(saver):
    from langgraph_tideline import TidelineSaver

    client = saver._tables._client
    client.create_table(TableMeta("others", STRING_KEY), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    with pytest.raises(ValueError, match=r"the table others has the key .* name another table"):
        TidelineSaver(client, table="others").setup()
    with pytest.raises(ValueError, match="1 or more, not 0"):
        saver.setup(ttl_s=0)
    with pytest.raises(ValueError, match="keep_latest or delete, not 'all'"):
        saver.prune(["one"], strategy="all")
    with pytest.raises(ValueError, match="needs the checkpoint_id"):
        saver.put_writes(config(), [("a", 1)], "task")
    with refused("OTSParameterInvalid"):
        put(saver, thread="t" * 1025)
    with refused("OTSObjectNotExist"):
        put(TidelineSaver(client, table="never_set_up"))
    assert rows(saver) == dict.fromkeys(rows(saver), 0)


def test_the_programs_of_the_page_run_as_printed(installed, own_server, tmp_path):
    page = (PACKAGE / "README.md").read_text()
    programs = re.findall(r"as `(\w+\.py)`.*?```python\n(.*?)```.*?```text\n(.*?)```", page, re.S)
    (first,) = re.findall(r"It prints `(.*)` and ends", page)
    (again,) = re.findall(r"Run again, the first line is `(.*)`, too", page)
    (trip, _, _), (memory, _, remembered) = programs
    runs = [(trip, f"{first}\n"), (trip, programs[0][2]), (memory, remembered), (memory, f"{again}\n{remembered.split(chr(10), 1)[1]}")]
    for name, program, _ in programs:
        (tmp_path / name).write_text(program.replace("127.0.0.1:7070", f"127.0.0.1:{own_server.port}"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *filter(None, sys.path)])}
    for name, wanted in runs:
        own_server.restart(signal.SIGKILL)
        ran = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert (ran.returncode, ran.stdout) == (0, wanted), ran.stderr

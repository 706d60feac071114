"""LlamaIndex's four stores for Tablestore, unmodified: all that they have, after a kill too, and the script of docs/TABLESTORE.md."""

import asyncio
import pathlib
import re
import subprocess
import sys

import pytest
from llama_index.core.data_structs import IndexDict, IndexList
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.schema import Document, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.storage.chat_store.tablestore import TablestoreChatStore
from llama_index.storage.docstore.tablestore import TablestoreDocumentStore
from llama_index.storage.index_store.tablestore import TablestoreIndexStore
from llama_index.storage.kvstore.tablestore import TablestoreKVStore
from tablestore import (
    BatchWriteRowRequest, CapacityUnit, Condition, OTSClient, OTSServiceError, PutRowItem, ReservedThroughput, Row,
    TableInBatchWriteRowItem, TableMeta, TableOptions,
)

from fixtures import own_server, server  # noqa: F401, pytest finds them here

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "TABLESTORE.md"
COLLECTIONS = ["data", "other"] + [
    f"llama_index_{name}" for name in ("doc_store_data", "doc_store_ref_doc_info", "doc_store_metadata", "index_store_data")
]


def named(server):
    return {"endpoint": server.origin, "access_key_id": "development", "access_key_secret": "development", "instance_name": "tideline"}


@pytest.fixture
def pairs(server):
    """Its tables are made before it asks for them: the stores sleep for five seconds after they make one."""
    client = OTSClient(**{name.replace("endpoint", "end_point"): value for name, value in named(server).items()})
    for name in COLLECTIONS:
        if name in client.list_table():
            client.delete_table(name)
        client.create_table(TableMeta(name, [("pk", "STRING")]), TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
    return TablestoreKVStore(**named(server))


@pytest.fixture
def chats(server):
    store = TablestoreChatStore(**named(server))
    for _ in range(2):
        store.create_table_if_not_exist()
    store.clear_store()
    return store


def said(*texts):
    return [ChatMessage(role="user", content=text) for text in texts]


def texts(messages):
    return [message.content for message in messages]


def test_messages_are_set_added_read_and_deleted(chats):
    assert chats.class_name() == "TablestoreChatStore" and chats.get_keys() == [] and chats.get_messages("ann") == []
    chats.set_messages("ann", said("a", "b", "c", "d"))
    chats.add_message("ben", ChatMessage(role="assistant", content="水位 3.4 m", additional_kwargs={"tide": [1, {"ebb": None}]}))
    assert texts(chats.get_messages("ann")) == ["a", "b", "c", "d"]
    (found,) = chats.get_messages("ben")
    assert (found.role, found.content, found.additional_kwargs) == ("assistant", "水位 3.4 m", {"tide": [1, {"ebb": None}]})
    assert sorted(chats.get_keys()) == ["ann", "ben"]
    assert chats.delete_message("ann", 1).content == "b" and chats.delete_last_message("ann").content == "d"
    assert chats.delete_message("ann", 7) is None
    assert texts(chats.get_messages("ann")) == ["a", "c"]
    chats.set_messages("ann", said("anew"))
    assert texts(chats.delete_messages("ann")) == ["anew"] and chats.get_messages("ann") == []
    chats.clear_store()
    assert chats.get_keys() == []


def test_messages_asynchronously_and_through_a_memory(chats):
    async def use():
        await chats.aset_messages("ann", said("a"))
        await chats.async_add_message("ann", said("b")[0])
        return await chats.aget_messages("ann")

    assert texts(asyncio.run(use())) == ["a", "b"]
    memory = ChatMemoryBuffer.from_defaults(token_limit=3000, chat_store=chats, chat_store_key="ann")
    memory.put(said("c")[0])
    assert texts(memory.get()) == texts(memory.get_all()) == ["a", "b", "c"]
    memory.reset()
    assert chats.get_messages("ann") == []


def test_keys_of_more_than_a_page(chats):
    wanted = [f"user-{n:04}" for n in range(5100)]
    for at in range(0, len(wanted), 200):
        items = [PutRowItem(Row([("session_id", name)], []), Condition("IGNORE")) for name in wanted[at : at + 200]]
        request = BatchWriteRowRequest()
        request.add(TableInBatchWriteRowItem(chats.table_name, items))
        assert chats._tablestore_client.batch_write_row(request).is_all_succeed()
    assert chats.get_keys() == wanted


def test_pairs_of_all_types(pairs):
    value = {"text": "水", "whole": -(2**63), "part": 0.1, "yes": True, "list": [1, "a", None], "inner": {"a": {"b": 2.5}}, "like": "[no json"}
    pairs.put("one", value)
    pairs.put("one", value, "other")
    assert pairs.get("one") == pairs.get("one", "other") == value and pairs.get("two") is None
    pairs.put("one", {"less": 1})
    assert pairs.get("one") == {"less": 1} and pairs.get("one", "other") == value
    pairs.put_all([(f"k{n}", {"n": n}) for n in range(3)], batch_size=1)
    assert pairs.get_all() == {"one": {"less": 1}} | {f"k{n}": {"n": n} for n in range(3)}
    assert pairs.delete("k1") and pairs.delete("k1") and sorted(pairs.get_all()) == ["k0", "k2", "one"]
    pairs.delete_all()
    assert pairs.get_all() == {} and pairs.get_all("other") == {"one": value}
    with pytest.raises(NotImplementedError):
        asyncio.run(pairs.aget("one"))
    with pytest.raises(OTSServiceError) as refused:
        pairs.put("k" * 1025, {"n": 1})
    assert refused.value.code == "OTSParameterInvalid"


def node(name, of, text="tide"):
    return TextNode(id_=name, text=text, metadata={"n": 1}, relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=of)})


def test_documents(pairs):
    store = TablestoreDocumentStore(pairs)
    document, nodes = Document(id_="book", text="all of it", metadata={"year": 1901}), [node("p1", "book"), node("p2", "book")]
    store.add_documents([document, *nodes])
    assert store.get_document("book") == document and store.get_document("p1") == nodes[0]
    assert store.docs == {"book": document, "p1": nodes[0], "p2": nodes[1]} and store.get_nodes(["p2"]) == [nodes[1]]
    assert store.document_exists("p1") and not store.document_exists("p3") and store.get_document("p3", raise_error=False) is None
    with pytest.raises(ValueError, match="p3 not found"):
        store.get_document("p3")
    with pytest.raises(ValueError, match="already exists"):
        store.add_documents([nodes[0]], allow_update=False)
    store.add_documents([node("p1", "book", "ebb")])
    assert store.get_document("p1").text == "ebb"
    assert store.ref_doc_exists("book") and sorted(store.get_ref_doc_info("book").node_ids) == ["p1", "p2"]
    assert list(store.get_all_ref_doc_info()) == ["book"]
    store.set_document_hash("book", "x1")
    store.set_document_hashes({"p1": "x2", "p2": "x3"})
    assert store.get_document_hash("book") == "x1" and store.get_document_hash("none") is None
    assert store.get_all_document_hashes() == {"x1": "book", "x2": "p1", "x3": "p2"}


def test_documents_are_deleted(pairs):
    store = TablestoreDocumentStore(pairs)
    store.add_documents([node("p1", "book"), node("p2", "book"), node("q1", "map"), Document(id_="loose", text="a")])
    store.delete_document("p1")
    assert store.get_ref_doc_info("book").node_ids == ["p2"] and not store.document_exists("p1")
    store.delete_ref_doc("book")
    assert sorted(store.docs) == ["loose", "q1"] and not store.ref_doc_exists("book")
    with pytest.raises(ValueError, match="not found"):
        store.delete_ref_doc("book")
    store.delete_ref_doc("book", raise_error=False)
    store.clear_all()
    assert store.docs == {} and store.get_all_document_hashes() == {} and not store.get_all_ref_doc_info()


def test_index_structs(pairs):
    store = TablestoreIndexStore(pairs)
    first, second = IndexList(index_id="first", summary="s", nodes=["p1", "p2"]), IndexDict(index_id="second", nodes_dict={"v": "p1"})
    store.add_index_struct(first)
    assert store.get_index_struct() == store.get_index_struct("first") == first and store.get_index_struct("none") is None
    store.add_index_struct(second)
    assert sorted(store.index_structs(), key=lambda one: one.index_id) == [first, second]
    store.delete_index_struct("first")
    assert store.index_structs() == [second]
    store.delete_all_index()
    assert store.index_structs() == []


def test_what_was_answered_is_there_after_a_kill(own_server):
    own_server.start()
    # As their users begin: no table is there yet.
    chats, documents, indexes = TablestoreChatStore(**named(own_server)), *(
        kind.from_config(**named(own_server)) for kind in (TablestoreDocumentStore, TablestoreIndexStore)
    )
    chats.create_table_if_not_exist()
    kept, struct = said(*map(str, range(20))), IndexList(index_id="one", nodes=["p1"])
    for message in kept:
        chats.add_message("ann", message)
    documents.add_documents([node("p1", "book")])
    indexes.add_index_struct(struct)
    own_server.kill()
    own_server.start()
    assert chats.get_messages("ann") == kept and indexes.get_index_struct() == struct
    assert documents.docs == {"p1": node("p1", "book")} and documents.get_ref_doc_info("book").node_ids == ["p1"]


def test_the_script_of_the_page_runs_as_printed(own_server, tmp_path):
    section = PAGE.read_text().split("\n## LangGraph and LlamaIndex\n", 1)[1].split("\n## ", 1)[0]
    ((name, script),) = re.findall(r"as `(\w+\.py)`.*?```python\n(.*?)```", section, re.S)
    (printed,) = re.findall(r"```text\n(.*?)```", section, re.S)
    wanted = re.search(r"pip install (.*)", section)[1].split()
    pinned = (pathlib.Path(__file__).parent / "requirements.txt").read_text().splitlines()
    assert set(wanted) <= set(pinned), wanted
    own_server.start()
    (tmp_path / name).write_text(script.replace("127.0.0.1:7070", f"127.0.0.1:{own_server.port}"))
    ran = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr

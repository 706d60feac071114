"""The SDK as others use it: the Node SDK, the asynchronous client of the Python SDK. `tests/docs/` runs the scripts of the page."""

import asyncio
import os
import pathlib
import re
import subprocess

import pytest
from tablestore import (
    INF_MAX, INF_MIN, AsyncOTSClient, BatchWriteRowRequest, CapacityUnit, PutRowItem, ReservedThroughput, Row,
    TableInBatchWriteRowItem, TableMeta, TableOptions,
)

from sdk import IGNORE, STRING_KEY, key

HERE = pathlib.Path(__file__).parent


@pytest.mark.skipif("TIDELINE_NODE" not in os.environ, reason="cargo test says where Node is")
def test_the_node_sdk(server):
    environment = {**os.environ, "TIDELINE_ENDPOINT": server.origin}
    suite = [os.environ["TIDELINE_NODE"], "--test", str(HERE / "node" / "sdk.test.js")]
    done = subprocess.run(suite, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^# pass [1-9]", done.stdout, re.M) or "ℹ pass" in done.stdout, done.stdout


def test_the_asynchronous_client(server):
    async def use():
        async with AsyncOTSClient(server.origin, "development", "development", "tideline") as client:
            meta = TableMeta("asynchronous", STRING_KEY)
            await client.create_table(meta, TableOptions(), ReservedThroughput(CapacityUnit(0, 0)))
            puts = [client.put_row("asynchronous", Row(key(f"r{n}"), [("c", n)]), IGNORE) for n in range(50)]
            answers = await asyncio.gather(*puts)
            assert all(consumed.write == 1 for consumed, _ in answers)
            request = BatchWriteRowRequest()
            items = [PutRowItem(Row(key(f"s{n}"), [("c", n)]), IGNORE) for n in range(50)]
            request.add(TableInBatchWriteRowItem("asynchronous", items))
            assert (await client.batch_write_row(request)).is_all_succeed()
            _, row, _ = await client.get_row("asynchronous", key("r7"))
            assert row.attribute_columns[0][:2] == ("c", 7)
            _, after, rows, _ = await client.get_range("asynchronous", "FORWARD", key(INF_MIN), key(INF_MAX))
            assert len(rows) == 100 and after is None
            await client.delete_table("asynchronous")

    asyncio.run(use())

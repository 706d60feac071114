"""Items of the store in rows of one table, and what a search index finds of them.

Owns: what is in a row, which rows have expired, and the index. Promises: each call comes to the same if it is repeated; a search
sees what was answered before it, whole or with an error. Must not: embed texts, or compare values.

The key is the namespace, its labels with dots between them, and the key. An item is one row, with its value as JSON, its vectors,
and the values that filters ask for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tablestore import (
    BatchGetRowRequest, BatchWriteRowRequest, BoolQuery, ColumnReturnType, ColumnsToGet, ComparatorType, Condition, DeleteRowItem,
    DisMaxQuery, ExistsQuery, FieldSchema, FieldSort, FieldType, GroupByComposite, GroupByField, KnnVectorQuery, OTSClient, OTSServiceError,
    PrefixQuery, PutRowItem, Query, RangeQuery, Row, ScoreSort, SearchIndexMeta, SearchQuery, SingleColumnCondition, Sort, SortOrder,
    TableInBatchGetRowItem, TableInBatchWriteRowItem, TableOptions, TermQuery, UpdateRowItem, VectorDataType, VectorMetricType,
    VectorOptions,
)

from .filters import SCHEMA
from .server import Columns, Key, Server, columns_of

NAMES = ["namespace", "key"]
#: Texts of one item that are found by what they mean. Each has a field of the index.
VECTORS_MAX = 8
#: What is read of an item.
SHOWN = ["value", "created", "updated", "ttl", "expires", "vectors"]
#: Rows that the server reads, returns and writes at a time, bytes that it takes, and groups that it returns.
READ, FOUND, WRITTEN, WRITTEN_BYTES, GROUPS = 100, 100, 200, 3 << 20, 2_000


def now_us() -> int:
    return time.time_ns() // 1_000


def is_alive(row: Columns, now: int) -> bool:
    return "expires" not in row or row["expires"] > now


class Items(Server):
    """The rows of the table `table` and its search index `table_search`; with `dims` their vectors have so many numbers."""

    def __init__(self, client: OTSClient, table: str, dims: int | None, patience_s: float) -> None:
        super().__init__(client, patience_s)
        self.table, self.index, self.dims = table, f"{table}_search", dims

    def make(self) -> None:
        """Makes the table and the index if they are not there."""
        self._make_table(self.table, NAMES, TableOptions())
        fields = [FieldSchema("namespace", FieldType.KEYWORD), FieldSchema("updated", FieldType.LONG), FieldSchema("expires", FieldType.LONG)]
        if self.dims is not None:
            options = VectorOptions(VectorDataType.VD_FLOAT_32, VectorMetricType.VM_COSINE, self.dims)
            fields += [FieldSchema(f"vector_{at}", FieldType.VECTOR, vector_options=options) for at in range(VECTORS_MAX)]
        try:
            self._call(self._client.create_search_index, self.table, self.index, SearchIndexMeta([*fields, *SCHEMA]))
        except OTSServiceError as error:
            if error.code != "OTSObjectAlreadyExist":
                raise
            found, _ = self._call(self._client.describe_search_index, self.table, self.index)
            has = next((field.vector_options.dimension for field in found.fields if field.field_name == "vector_0"), None)
            if self.dims not in (None, has):
                raise ValueError(f"the table {self.table} has vectors of {has or 'no'} numbers, not {self.dims}: name another table") from None

    def get(self, keys: Iterable[Key], columns: list[str] = SHOWN) -> dict[Key, Columns]:
        """Those that are there and have not expired."""
        left, found = list(dict.fromkeys(keys)), {}
        while left:
            page, left = left[:READ], left[READ:]
            rows, again = self._call(self._get, page, columns)
            found.update(rows)
            left = again + left
        now = now_us()
        return {key: row for key, row in found.items() if is_alive(row, now)}

    def _get(self, keys: list[Key], columns: list[str]) -> tuple[dict[Key, Columns], list[Key]]:
        request = BatchGetRowRequest()
        request.add(TableInBatchGetRowItem(self.table, [named(key) for key in keys], columns, max_version=1))
        rows, again = {}, []
        for key, row in zip(keys, self._client.batch_get_row(request).get_result_by_table(self.table), strict=True):
            if row.is_ok:
                rows.update({key: columns_of(row.row.attribute_columns)} if row.row else {})
            elif row.error_code == "OTSOutOfRowSizeLimit" and (rows or again):
                # The rows before it fill the answer.
                again.append(key)
            else:
                raise OTSServiceError(None, row.error_code, row.error_message)
        return rows, again

    def write(self, rows: Iterable[tuple[Key, Columns | None]]) -> None:
        """Puts each in place of what is there; `None` deletes."""

        def item(key: Key, row: Columns | None) -> Any:
            anyhow = Condition("IGNORE")
            return DeleteRowItem(Row(named(key)), anyhow) if row is None else PutRowItem(Row(named(key), list(row.items())), anyhow)

        self._write([(item(key, row), size_of(row or {})) for key, row in rows])

    def refresh(self, rows: Iterable[tuple[Key, Columns]]) -> None:
        """Those with a time to live have all of it before them again, unless they were written meanwhile."""
        now = now_us()
        self._write([
            (UpdateRowItem(Row(named(key), {"PUT": [("expires", now + row["ttl"])]}), as_seen(row)), 0)
            for key, row in rows if "ttl" in row
        ])  # fmt: skip

    def _write(self, items: list[tuple[Any, int]]) -> None:
        page: list[Any] = []
        bytes_now = 0
        for item, size in items:
            if page and (len(page) == WRITTEN or bytes_now + size > WRITTEN_BYTES):
                self._call(self._write_page, page)
                page, bytes_now = [], 0
            page.append(item)
            bytes_now += size
        if page:
            self._call(self._write_page, page)

    def _write_page(self, page: list[Any]) -> None:
        request = BatchWriteRowRequest()
        request.add(TableInBatchWriteRowItem(self.table, page))
        answer = self._client.batch_write_row(request)
        for failed in [*answer.get_failed_of_put(), *answer.get_failed_of_update(), *answer.get_failed_of_delete()]:
            if failed.error_code != "OTSConditionCheckFail":
                raise OTSServiceError(None, failed.error_code, failed.error_message)

    def search(
        self, prefix: tuple[str, ...], conditions: list[Query], vector: list[float] | None, at_least: int
    ) -> Iterator[tuple[Key, Columns, float | None]]:
        """All rows of the namespaces that begin so: the nearest to the vector first, or else what was put last."""
        scope = alive_within(prefix, now_us())
        found, order = scope, FieldSort("updated", SortOrder.DESC)
        if vector is not None:
            # With fewer than a page has, all rows are ranked. Those without a vector come last, as the scope alone scores nothing.
            near = [KnnVectorQuery(f"vector_{at}", 1, vector, scope) for at in range(VECTORS_MAX)]
            found, order = DisMaxQuery([*near, scope]), ScoreSort()
        query = BoolQuery(must_queries=[found], filter_queries=conditions)
        page = SearchQuery(query, Sort([order]), limit=min(max(at_least, 2), FOUND))
        shown = ColumnsToGet(SHOWN, ColumnReturnType.SPECIFIED)
        while True:
            answer = self._call(self._search, page, shown)
            for hit in answer.search_hits:
                key, columns = hit.row
                row = columns_of(columns)
                # Half of 1 + the cosine.
                yield tuple(value for _, value in key), row, 2 * hit.score - 1 if vector and "vectors" in row else None
            if not answer.next_token:
                return
            # A page by token has its query again, and no order of its own.
            page = SearchQuery(query, None, next_token=answer.next_token, limit=FOUND)

    def namespaces(self, prefix: tuple[str, ...]) -> Iterator[str]:
        """Those that begin so and have an item, in the order of their bytes."""
        scope, token = alive_within(prefix, now_us()), None
        while True:
            groups = GroupByComposite([GroupByField("namespace", name="namespace")], GROUPS, token, name="all")
            answer = self._call(self._search, SearchQuery(scope, limit=0, group_bys=[groups]), None)
            yield from (group.keys[0] for group in answer.group_by_results[0].items)
            if not (token := answer.group_by_results[0].next_token):
                return

    def sweep(self) -> int:
        """Deletes a page of what has expired, and says how many rows it found."""
        due = SearchQuery(RangeQuery("expires", None, now_us(), True, True), limit=FOUND)
        found = self._call(self._search, due, ColumnsToGet(["expires"], ColumnReturnType.SPECIFIED)).rows
        rows = [(DeleteRowItem(Row(key), as_seen(columns_of(columns))), 0) for key, columns in found]
        self._write(rows)
        return len(rows)

    def _search(self, asked: SearchQuery, columns: ColumnsToGet | None) -> Any:
        answer = self._client.search(self.table, self.index, asked, columns)
        if not answer.is_all_succeed:
            raise OTSServiceError(None, "OTSServerBusy", f"the search index {self.index} has not all rows yet")
        return answer


def named(key: Key) -> list[tuple[str, str]]:
    return list(zip(NAMES, key, strict=True))


def as_seen(row: Columns) -> Condition:
    """That the row expires when it did."""
    return Condition("EXPECT_EXIST", SingleColumnCondition("expires", row["expires"], ComparatorType.EQUAL, pass_if_missing=False))


def size_of(row: Columns) -> int:
    """About as many bytes as it takes."""
    return sum(4 * len(value) if isinstance(value, str) else len(value) for value in row.values() if isinstance(value, (str, bytearray)))


def alive_within(prefix: tuple[str, ...], now: int) -> Query:
    whole = ".".join(prefix)
    within = [BoolQuery(should_queries=[TermQuery("namespace", whole), PrefixQuery("namespace", whole + ".")])] if prefix else []
    return BoolQuery(filter_queries=within, must_not_queries=[RangeQuery("expires", None, now, True, True)])

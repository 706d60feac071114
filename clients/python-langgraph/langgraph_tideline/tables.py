"""Rows of two tables through Tablestore's official SDK: made, put, read in order, deleted.

Owns: which tables there are. Promises: each call comes to the same if it is repeated, so a call that returns took effect, also
if the server was killed before it answered. Must not: know what a row means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tablestore import (
    INF_MAX, INF_MIN, BatchWriteRowRequest, Condition, DeleteRowItem, Direction, OTSClient, OTSServiceError, Row, SecondaryIndexMeta,
    TableInBatchWriteRowItem, TableOptions,
)

from .server import Columns, Key, Server, columns_of

#: Rows that are asked for and deleted at a time; the server takes no more in a batch.
PAGE = 200
#: The second table keeps its rows longer by this: what expires first is the row that says what belongs to it.
LONGER_S = 86_400


class Tables(Server):
    """`checkpoints` and `values` are the names of the tables; the key of the second is that of the first and one column more."""

    def __init__(self, client: OTSClient, name: str, patience_s: float) -> None:
        super().__init__(client, patience_s)
        self.checkpoints, self.values, self.runs = name, f"{name}_values", f"{name}_runs"
        self._keys = {
            self.checkpoints: ["thread", "namespace", "checkpoint"],
            self.values: ["thread", "namespace", "checkpoint", "item"],
            self.runs: ["run", "thread", "namespace", "checkpoint"],
        }

    def make(self, ttl_s: int | None) -> None:
        """Makes the tables that are not there. With `ttl_s` those that are there keep their rows so long, too."""
        runs = [SecondaryIndexMeta(self.runs, ["run"], [])]
        self._make(self.checkpoints, ttl_s, ["run"], runs)
        self._make(self.values, ttl_s and ttl_s + LONGER_S)

    def _make(self, table: str, ttl_s: int | None, defined: Sequence[str] = (), indexes: Sequence[SecondaryIndexMeta] = ()) -> None:
        # Rows are put as a whole: a table with an index may let its rows expire only so.
        options = TableOptions(ttl_s or -1, 1, allow_update=False)
        if not self._make_table(table, self._keys[table], options, defined, indexes) and ttl_s:
            self._call(self._client.update_table, table, options)

    def put(self, table: str, key: Key, columns: Columns, condition: Condition | None = None) -> bool:
        """Puts a row in place of what is there. False: the condition does not hold, perhaps because this call's row is there."""
        row = Row(self._named(table, key), list(columns.items()))
        try:
            self._call(self._client.put_row, table, row, condition or Condition("IGNORE"))
        except OTSServiceError as error:
            if error.code != "OTSConditionCheckFail":
                raise
            return False
        return True

    def get(self, table: str, key: Key) -> Columns | None:
        _, row, _ = self._call(self._client.get_row, table, self._named(table, key), max_version=1)
        return None if row is None else columns_of(row.attribute_columns)

    def scan(
        self, table: str, prefix: Key, *, only: str | None = None, last: Key | None = None, page: int = PAGE
    ) -> Iterator[tuple[Key, Columns]]:
        """All rows whose keys begin so, in order, a page at a time. With `last` backwards from there (`()`: from the last of all).

        `only` names one column to be read; a column of the key means the key alone.
        """
        count = len(self._keys[table])
        low = self._named(table, (*prefix, *[INF_MIN] * (count - len(prefix))))
        backwards = last is not None
        high = self._named(table, (*(last or prefix), *[INF_MAX] * (count - len(last or prefix))))
        start, end = (high, low) if backwards else (low, high)
        direction = Direction.BACKWARD if backwards else Direction.FORWARD
        while start:
            _, start, rows, _ = self._call(
                self._client.get_range, table, direction, start, end, [only] if only else None, page, max_version=1
            )
            for row in rows:
                yield tuple(value for _, value in row.primary_key), columns_of(row.attribute_columns)

    def keys(self, table: str, prefix: Key) -> list[Key]:
        return [key for key, _ in self.scan(table, prefix, only=self._keys[table][0])]

    def delete(self, table: str, keys: Iterable[Key]) -> None:
        left = list(keys)
        while left:
            page, left = left[:PAGE], left[PAGE:]
            request = BatchWriteRowRequest()
            items = [DeleteRowItem(Row(self._named(table, key)), Condition("IGNORE")) for key in page]
            request.add(TableInBatchWriteRowItem(table, items))
            self._call(self._delete, request)

    def _delete(self, request: BatchWriteRowRequest) -> None:
        for failed in self._client.batch_write_row(request).get_failed_of_delete():
            raise OTSServiceError(None, failed.error_code, failed.error_message)

    def _named(self, table: str, values: Sequence[Any]) -> list[tuple[str, Any]]:
        return list(zip(self._keys[table], values, strict=True))

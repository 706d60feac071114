"""Calls of Tablestore's official SDK that are repeated while they fail for now, and tables that are made once.

Owns: which failures pass, and how long a call is repeated. Must not: know what a row means.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tablestore import (
    CapacityUnit, OTSClient, OTSClientError, OTSServiceError, ReservedThroughput, SecondaryIndexMeta, TableMeta, TableOptions,
)
from urllib3.exceptions import HTTPError

#: Refusals of a moment, beside every answer of 500 and above.
FOR_NOW = {
    "OTSRowOperationConflict", "OTSServerBusy", "OTSTimeout", "OTSServerUnavailable", "OTSInternalServerError", "OTSRequestTimeout",
    "OTSFlowControl", "OTSCapacityUnitExhausted", "OTSTableNotReady", "OTSPartitionUnavailable",
}  # fmt: skip

Key = tuple[str, ...]
Columns = dict[str, Any]


class Server:
    """What is common to the tables of the checkpointer and those of the store."""

    def __init__(self, client: OTSClient, patience_s: float) -> None:
        self._client = client
        self._patience_s = patience_s

    def _make_table(
        self, table: str, names: Sequence[str], options: TableOptions, defined: Sequence[str] = (), indexes: Sequence[SecondaryIndexMeta] = ()
    ) -> bool:
        """Makes a table whose key has these columns of texts. False: it is there already."""
        key = [(name, "STRING") for name in names]
        meta = TableMeta(table, key, [(name, "STRING") for name in defined])
        try:
            self._call(self._client.create_table, meta, options, ReservedThroughput(CapacityUnit(0, 0)), list(indexes))
        except OTSServiceError as error:
            if error.code != "OTSObjectAlreadyExist":
                raise
            found = [tuple(column[:2]) for column in self._call(self._client.describe_table, table).table_meta.schema_of_primary_key]
            if found != key:
                raise ValueError(f"the table {table} has the key {found}, not {key}: name another table") from None
            return False
        return True

    def _call(self, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
        until, pause = time.monotonic() + self._patience_s, 0.05
        while True:
            try:
                return method(*args, **named)
            except Exception as error:
                if not passes(error) or time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)


def passes(error: Exception) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(error, (OTSServiceError, OTSClientError)):
        return getattr(error, "code", None) in FOR_NOW or (error.http_status or 0) >= 500
    return isinstance(error, (HTTPError, OSError))


def columns_of(columns: Iterable[tuple[str, Any, int]]) -> Columns:
    """Without their versions."""
    return {name: value for name, value, _ in columns}

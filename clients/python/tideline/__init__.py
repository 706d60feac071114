"""Tideline's client for Python: a connection that comes back, with a store that is never wrong.

`Client` is where to begin; README.md has a first program.
"""

from .client import Client
from .errors import ConnectionLost, Refused, Stopped, StoreError, TidelineError
from .place import Event, Place, Step
from .session import VERSION as __version__
from .sqlite import SqliteStore
from .store import MemoryStore, Outgoing, Store
from .stream import Batch, Stream
from .subscription import Subscription
from .wire import Message, binary, data_of

__all__ = [
    "Batch", "Client", "ConnectionLost", "Event", "MemoryStore", "Message", "Outgoing", "Place", "Refused", "SqliteStore",
    "Step", "Stopped", "Store", "StoreError", "Stream", "Subscription", "TidelineError", "__version__", "binary", "data_of",
]

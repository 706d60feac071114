"""Tideline's client for Python: a connection that comes back, with a store that is never wrong.

`Client` is where to begin; README.md has a first program.
"""

from .answer import Answer
from .client import Client
from .errors import ConnectionLost, MessageClosed, Refused, Stopped, StoreError, TidelineError
from .parts import Parts
from .place import Event, Place, Step
from .session import VERSION as __version__
from .sqlite import SqliteStore
from .store import MemoryStore, Outgoing, Store
from .stream import Batch, Stream
from .subscription import Subscription
from .wire import Message, binary, data_of

__all__ = [
    "Answer", "Batch", "Client", "ConnectionLost", "Event", "MemoryStore", "Message", "MessageClosed", "Outgoing", "Parts",
    "Place", "Refused", "SqliteStore", "Step", "Stopped", "Store", "StoreError", "Stream", "Subscription", "TidelineError",
    "__version__", "binary", "data_of",
]

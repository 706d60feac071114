"""LangGraph's checkpoints in tables of Tideline. `TidelineSaver` is the checkpointer; README.md has a first program."""

from .saver import TidelineSaver

__version__ = "0.1.0"
__all__ = ["TidelineSaver"]

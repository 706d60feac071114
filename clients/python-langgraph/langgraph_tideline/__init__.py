"""LangGraph on tables of Tideline: `TidelineSaver` keeps its threads, `TidelineStore` its memory; README.md has a first program."""

from .saver import TidelineSaver
from .store import TidelineStore

__version__ = "0.1.0"
__all__ = ["TidelineSaver", "TidelineStore"]

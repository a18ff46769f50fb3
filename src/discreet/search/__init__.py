"""Ask and tell over declared columns, where only the values are people's."""

from discreet.search.search import Best, Search, Trial

__all__ = ["Best", "Search", "Trial"]

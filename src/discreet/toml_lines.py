"""On which line of a TOML file each of its values stands, which tomllib does not say.

`value_lines` walks through a text that tomllib has read already, so it need not judge grammar: it
only tells headers, keys, entries of lists and the ends of values apart.

| location                 | stands for                                             |
|--------------------------|--------------------------------------------------------|
| ("seed",)                | the key seed                                           |
| ("learners", 1)          | the second [[learners]], or the second entry of a list |
| ("problem", "path")      | the key path under [problem], or problem.path          |
| ("columns", 0, "lower")  | the key lower of the first table in the list columns   |
"""

from __future__ import annotations

import re
import tomllib

Location = tuple[str | int, ...]

_KEY = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|[A-Za-z0-9_-]+')
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")
# What means nothing between values: blanks, ends of lines, comments.
_GAP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_DOT = re.compile(r"[ \t]*\.[ \t]*")


def value_lines(text: str) -> dict[Location, int]:
    """The line, from 1 on, of every header, key and entry of a list in a TOML file.

    A table that several headers or dotted keys make stands where it is first named.
    """
    return _Walk(text).lines


class _Walk:
    """One pass through a text, from its start to its end.

    Attributes:
        lines: where everything stands that was passed so far.
    """

    def __init__(self, text: str) -> None:
        self.lines: dict[Location, int] = {}
        self._text, self._at = text, 0
        self._line, self._counted = 1, 0
        # How many tables each list under double brackets has.
        self._tables: dict[Location, int] = {}
        section: Location = ()
        while not self._ended():
            if self._next("["):
                section = self._header()
            else:
                self._pair(section)

    # Parts of the grammar.

    def _header(self) -> Location:
        """Pass a header, and return what it opens."""
        line = self._here()
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        self._gap()
        *outer, last = self._keys()
        self._gap()
        self._at += brackets
        section: Location = ()
        for part in outer:
            section = self._last_of((*section, part), line)
        section = (*section, last)
        self.lines.setdefault(section, line)
        if brackets == 2:
            self._tables[section] = self._tables.get(section, 0) + 1
        return self._last_of(section, line)

    def _last_of(self, location: Location, line: int) -> Location:
        """The table at a location; of a list of tables the last so far."""
        self.lines.setdefault(location, line)
        if location in self._tables:
            location = (*location, self._tables[location] - 1)
            self.lines.setdefault(location, line)
        return location

    def _pair(self, section: Location) -> None:
        """Pass a key with its value."""
        line = self._here()
        location = section
        for part in self._keys():
            location = (*location, part)
            self.lines.setdefault(location, line)
        self._gap()
        self._at += 1  # =
        self._value(location)

    def _value(self, location: Location) -> None:
        """Pass a value, with all that it holds."""
        self._gap()
        if self._next("["):
            self._list(location)
        elif self._next("{"):
            self._inline_table(location)
        else:
            match = _STRING.match(self._text, self._at) or _SCALAR.match(self._text, self._at)
            self._at = len(self._text) if match is None else match.end()

    def _list(self, location: Location) -> None:
        self._at += 1  # [
        entry = 0
        while not self._closed("]"):
            self.lines[(*location, entry)] = self._here()
            self._value((*location, entry))
            entry += 1

    def _inline_table(self, location: Location) -> None:
        self._at += 1  # {
        while not self._closed("}"):
            self._pair(location)

    def _closed(self, end: str) -> bool:
        """Whether the end of a list or table comes next, which is passed, as a comma is."""
        self._gap()
        if self._next(","):
            self._at += 1
            self._gap()
        if self._next(end):
            self._at += 1
            return True
        return self._at >= len(self._text)

    def _keys(self) -> list[str]:
        """Pass a key, and return its parts between dots."""
        parts = []
        while match := _KEY.match(self._text, self._at):
            raw, self._at = match[0], match.end()
            parts.append(next(iter(tomllib.loads(f"{raw} = 0"))) if raw[0] in "\"'" else raw)
            dot = _DOT.match(self._text, self._at)
            if dot is None:
                break
            self._at = dot.end()
        return parts

    # Where the walk is.

    def _ended(self) -> bool:
        self._gap()
        return self._at >= len(self._text)

    def _gap(self) -> None:
        match = _GAP.match(self._text, self._at)
        self._at = self._at if match is None else match.end()

    def _next(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _here(self) -> int:
        """The number of the line."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

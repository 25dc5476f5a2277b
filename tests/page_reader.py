"""An HTML page as tests look at it: its elements in order, each with its attributes, text and ancestors."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "img", "br", "hr", "input", "wbr"})


@dataclass(repr=False)
class Element:
    """One element; ``text`` is everything within it."""

    tag: str
    attributes: dict[str, str | None]
    ancestors: tuple["Element", ...]
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def find(self, tag):
        """The elements of this kind within it, in order."""
        found = []
        for child in self.children:
            found += [child] if child.tag == tag else []
            found += child.find(tag)
        return found

    def is_in(self, tag):
        """Whether an element of this kind is around it."""
        return any(ancestor.tag == tag for ancestor in self.ancestors)


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Element(tag="", attributes={}, ancestors=())
        self._open = [self.root]

    def handle_starttag(self, tag, attrs):
        element = Element(tag=tag, attributes=dict(attrs), ancestors=tuple(self._open))
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data):
        for element in self._open:
            element.text += data

    def close(self):
        super().close()
        assert self._open == [self.root], f"<{self._open[-1].tag}> is never closed"


def read_page(text):
    """The root of the page in ``text``; elements must be closed in order."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.root


def read_rows(table):
    """The cells of a table element, row by row, heads first."""
    return [tuple(cell.text for cell in row.children) for row in table.find("tr")]

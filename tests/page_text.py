"""What a page says and what is executable in it, by Python's own HTML parser."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "link", "br", "img", "input", "hr"}
_BLOCKS = {"p", "h1", "h2", "h3", "h4", "li", "tr", "div", "pre", "section", "article", "header", "footer", "summary"}


class PageText(HTMLParser):
    """`text` is what a reader without scripts sees; `scripts` are (type, content); `attributes` all of them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.pieces: list[str] = []
        self.scripts: list[tuple[str, str]] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: list[str] = []
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self.pieces).splitlines())
        return "\n".join(line for line in lines if line)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "script":
            self.scripts.append((dict(attrs).get("type") or "text/javascript", ""))
        if tag in _BLOCKS:
            self.pieces.append("\n")
        elif tag in ("td", "th", "dd"):
            self.pieces.append("  ")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            kind, content = self.scripts[-1]
            self.scripts[-1] = (kind, content + data)
        elif "style" not in self.open and "head" not in self.open and self.open[-1:] != ["title"]:
            self.pieces.append(data)

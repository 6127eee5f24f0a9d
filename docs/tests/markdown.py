"""What a page of Markdown has to be true about: its headings, links, commands and names of files."""

import re
import shlex
from dataclasses import dataclass
from urllib.parse import unquote

_FENCE = re.compile(r" *(```+|~~~+) *(\S*)")
_SPAN = re.compile(r"(`+)(.+?)\1(?!`)")
_LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^()\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|"
                   r"<(?:img|source)[^>]*?src(?:set)?=\"([^\"]+)\"")
_REFERENCE = re.compile(r" {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")


@dataclass(frozen=True)
class At:
    """Something on a page, by its line."""
    line: int
    text: str


class Page:
    """`spans` are what stands in backticks, `blocks` the shell's fenced blocks, `made` the files that the page has as
    examples (docs/tests/test_adding.py)."""

    def __init__(self, text):
        self.made = set(re.findall(r"^<!-- file (\S+) -->$", text, re.MULTILINE))
        self.headings, self.links, self.spans, self.blocks = [], [], [], []
        fence, block, paragraph = None, None, []
        for number, line in enumerate([*text.splitlines(), ""], 1):
            if fence:
                if line.strip().startswith(fence):
                    fence = None
                elif block is not None:
                    block.append(At(number, line))
                continue
            if found := _FENCE.match(line):
                fence, block = found[1], None
                if found[2] in ("sh", "bash", "shell", "console"):
                    block = []
                    self.blocks.append(block)
                line = ""
            if line.startswith("#"):
                self.headings.append(line.lstrip("#").strip())
            # A span may go over the end of a line.
            if line.strip():
                paragraph.append(At(number, line))
            else:
                self._paragraph(paragraph)
                paragraph = []

    def _paragraph(self, lines):
        text, starts = "", []
        for at in lines:
            starts.append((len(text), at.line))
            text += at.text + "\n"

        def line_of(position):
            return max(line for start, line in starts if start <= position)

        joined = text.replace("\n", " ")
        self.spans += [At(line_of(found.start()), " ".join(found[2].split())) for found in _SPAN.finditer(joined)]
        # Of the same length, so that positions stay. The text of a link may be code.
        bare = _SPAN.sub(lambda found: "x" * len(found[0]), joined)
        self.links += [At(line_of(found.start()), unquote(found[1] or found[2])) for found in _LINK.finditer(bare)]
        for start, line in starts:
            if found := _REFERENCE.match(text[start:]):
                self.links.append(At(line, unquote(found[1])))

    def anchors(self):
        """Those of GitHub: lower case, without punctuation, dashes for blanks, numbered where they repeat."""
        seen = {}
        for heading in self.headings:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
            slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            seen[slug] = seen.get(slug, -1) + 1
            yield slug if seen[slug] == 0 else f"{slug}-{seen[slug]}"

    def commands(self):
        """The commands of the shell's blocks, and of the spans that look like one; each as (line, words)."""
        for block in self.blocks:
            joined, first = "", None
            for at in block:
                first = first or at.line
                joined += at.text
                if joined.endswith("\\"):
                    joined = joined[:-1]
                    continue
                try:
                    found = split(joined)
                except ValueError:
                    # A quotation goes on in the next line.
                    joined += "\n"
                    continue
                yield from ((first, words) for words in found)
                joined, first = "", None
        for span in self.spans:
            try:
                yield from ((span.line, words) for words in split(span.text))
            except ValueError:
                pass  # no command: an apostrophe


def split(line):
    """The simple commands of a line of shell, without what is set, and who runs it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words, result = [], []
    for token in lexer:
        if re.fullmatch(r"[;|&()]+", token):
            result.append(words)
            words = []
        else:
            words.append(token)
    result.append(words)
    return [simple for words in result if (simple := _simple(words))]


def _simple(words):
    # Where output goes is no argument.
    kept, rest = [], iter(words)
    for word in rest:
        if re.fullmatch(r"[<>&]+", word):
            next(rest, None)
        else:
            kept.append(word)
    while kept and (kept[0] in ("$", "sudo", "exec", "if", "then", "while", "do", "time", ".") or
                    re.fullmatch(r"[A-Za-z_]\w*=.*", kept[0])):
        if kept[0] == ".":
            return []
        del kept[0]
    if kept and re.fullmatch(r"(\S*/)?python3?", kept[0]) and len(kept) > 1 and kept[1].endswith(".py"):
        del kept[0]
    return kept

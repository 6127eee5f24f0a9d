"""Pieces of HTML that pages are made of."""

import html

from mpqnet.page import inline_svg

text = html.escape

# Verdict: (style class, word).
VERDICTS = {True: ("yes", "yes"), False: ("no", "no"), None: ("none", "not judged")}


def figure(drawing, name, title, caption, out):
    """A drawing in the page, and, if there is a folder `out`, as the file `name`.png in it; closes the drawing."""
    words = f" {caption}" if caption else ""
    if out:
        drawing.savefig(out / f"{name}.png", format="png", dpi=110)
        words += f" Also in {name}.png."
    return f"<figure>{inline_svg(drawing)}<figcaption><b>{text(title)}.</b>{text(words)}</figcaption></figure>"


def table(head, rows, styles=None):
    """A table; the cells of `rows` are HTML with their `<td>`, those of `head` text. `styles` has a class for each row."""
    cells = "".join(f"<th>{text(cell)}</th>" for cell in head)
    begins = [f'<tr class="{style}">' for style in styles] if styles else ["<tr>"] * len(rows)
    return f"<table><tr>{cells}</tr>{''.join(f'{begin}{row}</tr>' for begin, row in zip(begins, rows))}</table>"


def cell(words):
    """A cell of a row, from text."""
    return f"<td>{text(str(words))}</td>"


def verdict(accepted, words=""):
    """A cell that says whether something is accepted; `words` are HTML after it."""
    style, word = VERDICTS[accepted]
    return f'<td class="{style}">{word}{words}</td>'

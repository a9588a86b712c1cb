"""Equations as MathML, which browsers draw by themselves: the site loads no script for them, from here or elsewhere."""

from __future__ import annotations

import html as markup
import re

from latex2mathml.converter import convert

#: What ``pymdownx.arithmatex`` with ``generic: true`` leaves of an equation.
_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **kwargs: object) -> str:
    """Called by mkdocs with the content of every page."""
    return _EQUATION.sub(_mathml, html)


def _mathml(found: re.Match[str]) -> str:
    """An equation, with its TeX beside it for those who copy it; a long one can be scrolled."""
    tex, in_line = markup.unescape(found[3]).strip(), found[2] == "("
    known = tex.replace("\\arg", "\\operatorname{arg}")  # the one operator that the converter does not know
    known = re.sub(r"\\log(?=\s+[A-Za-z\\])", r"\\log\\,", known)  # it leaves no space behind it
    if not in_line:
        known = re.sub(r"\\(min|max|sum|prod)(?=_)", r"\\\1\\limits", known)
    try:
        drawn = convert(known, display="inline" if in_line else "block")
    except Exception as error:  # the converter has a dozen kinds, with nothing in common
        raise ValueError(f"no MathML for the equation {tex!r} ({type(error).__name__})") from error
    if "\\" in drawn:
        raise ValueError(f"no MathML for a command in the equation {tex!r}: {drawn}")
    # The converter's content is one element, as the first child of 'semantics' must be.
    source = f'<annotation encoding="application/x-tex">{markup.escape(tex, quote=False)}</annotation>'
    start, end = drawn.index(">") + 1, drawn.rindex("</math>")
    drawn = f"{drawn[:start]}<semantics>{drawn[start:end]}{source}</semantics></math>"
    return drawn if in_line else f'<div class="equation" tabindex="0">{drawn}</div>'

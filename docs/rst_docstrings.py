"""Docstrings are written as PyG writes them (reStructuredText inside Google sections); the site is Markdown."""

from __future__ import annotations

import re
import textwrap

import griffe

_BLOCK = re.compile(r"^([ \t]*)\.\. (math|code-block)::[ \t]*(\w*)\n((?:[ \t]*\n|\1[ \t]+\S.*(?:\n|$))+)", re.MULTILINE)


def to_markdown(text: str) -> str:
    """Equations, code and roles of reStructuredText as Markdown."""
    text = _BLOCK.sub(_block, text)
    text = re.sub(r"`([^`<]+?)\s*<(https?://[^>]+)>`_+", r"[\1](\2)", text)
    text = re.sub(r":math:`([^`]+)`", r"\\(\1\\)", text)
    # A reference by its last name: '~tg_crepe.models.CrepePropagation' is shown as 'CrepePropagation'.
    return re.sub(r":(?:obj|class|meth|func|mod|attr):`~?(?:[\w.]*\.)?([^`]+)`", r"`\1`", text).replace("``", "`")


def _block(found: re.Match[str]) -> str:
    indent, kind, language, body = found.groups()
    body = textwrap.dedent(body).strip("\n")
    lines = ["\\[", body, "\\]"] if kind == "math" else [f"```{language or 'text'}", body, "```"]
    return textwrap.indent("\n" + "\n".join(lines), indent) + "\n\n"


class RstDocstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed into sections."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: object) -> None:
        """Called once for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)

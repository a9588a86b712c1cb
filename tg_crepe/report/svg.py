from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tg_crepe._optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The colour of text and lines in a drawing; in the page it is that of the page's own text, light or dark.
_INK = "#010203"


def inline_svg(name: str, draw: Callable[[Axes], Any], size: tuple[float, float] = (5.4, 3.4)) -> str:
    """A figure as an ``<svg>`` element that takes its colours of text and lines from the page around it.

    Args:
        name (str): The prefix of all ids in the drawing, which must differ on one page.
        draw (callable): Draws onto axes.
        size (tuple, optional): Inches. (default: :obj:`(5.4, 3.4)`)
    """
    matplotlib = require("matplotlib", extra="report")
    figure_class = require("matplotlib.figure", extra="report").Figure
    ink = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK)
    text = io.StringIO()
    with matplotlib.rc_context({**ink, "svg.fonttype": "none", "svg.hashsalt": name, "hatch.linewidth": 0.6}):
        figure = figure_class(figsize=size, layout="constrained")
        draw(figure.add_subplot())
        with warnings.catch_warnings():
            # The font that measures the text lacks some letters (Chinese, say); the reader's own font has them.
            warnings.filterwarnings("ignore", message="Glyph")
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return _for_the_page(text.getvalue(), name)


def _for_the_page(svg: str, name: str) -> str:
    """What stands inside a page: no header, no global style, ids of its own, the page's ink."""
    svg = svg[svg.index("<svg") :]
    for unwanted in (r"<metadata>.*?</metadata>", r"<style[^>]*>.*?</style>", r"<!--.*?-->"):
        svg = re.sub(unwanted, "", svg, flags=re.DOTALL)
    # Only inside tags: the text between them belongs to the user, who may write what looks like an id.
    svg = re.sub(r"<[^>]*>", lambda tag: _own_ids(tag[0], name), svg)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    return re.sub(r"\s*\n\s*", "\n", svg).replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1).strip()


def _own_ids(tag: str, name: str) -> str:
    """A tag with the figure's prefix on its ids, and black and the ink as the colour of the page's text."""
    tag = re.sub(r'\bid="', f'id="{name}-', tag)
    tag = re.sub(r'href="#', f'href="#{name}-', tag)
    tag = tag.replace("url(#", f"url(#{name}-")
    return tag.replace(_INK, "currentColor").replace("#000000", "currentColor")

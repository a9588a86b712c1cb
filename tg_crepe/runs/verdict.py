"""What is said of a result that should not be taken for true, on the screen and on the page alike."""

from __future__ import annotations

#: The share of wrong labels from which on they are called poor.
POOR_SHARE = 0.25

POOR = (
    "That is poor: do not use these labels as they are. More labels (label-next says which), or features that tell the "
    "classes apart (a pretrained model), help."
)

UNKNOWN_ERROR = (
    "Nobody can say how many of these labels are wrong: no true labels are known, and none of the given ones were held "
    "back. Certainty is how sure the method is, not a share right. Look at some of them, or label some at random and "
    "compare, before you use them."
)

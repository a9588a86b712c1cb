import ctypes

import pytest

from tg_crepe._memory import _LARGE, give_back


class Library:
    """A C library that counts how often it is asked to give memory back."""

    def __init__(self):
        self.asked = 0

    def malloc_trim(self, pad):
        assert pad == 0
        self.asked += 1


def test_freed_memory_is_given_back_after_large_stages_alone(monkeypatch):
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    for size, asked in ((0, 0), (_LARGE - 1, 0), (_LARGE, 1), (10 * _LARGE, 2)):
        give_back(size)
        assert library.asked == asked


@pytest.mark.parametrize("missing", [object(), OSError("no such library"), TypeError("a name is needed")])
def test_systems_without_the_call_are_left_alone(missing, monkeypatch):
    def load(name):
        if isinstance(missing, Exception):
            raise missing
        return missing

    monkeypatch.setattr(ctypes, "CDLL", load)
    give_back(_LARGE)

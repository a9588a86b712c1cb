"""Any table of labels: read as it was meant, or one clear line."""

import tempfile
import warnings
from pathlib import Path

from fuzz_strategies import fuzzed, tables

from tg_crepe._labels import clean
from tg_crepe.cli._inputs import read_labels


def claim(table):
    content, ids = table
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(place, "labels.csv")
        path.write_bytes(content)
        try:
            found = read_labels([path], ids)
        except (ValueError, OSError) as error:
            assert str(path) in str(error)
            assert len(str(error)) < 2000
            return
        assert path.read_bytes() == content
        assert [item.name for item in Path(place).iterdir()] == ["labels.csv"]
    assert len(found.y) == len(ids)
    assert found.y.min() >= -1
    assert found.y.max() < len(found.class_names)
    assert len(found.class_names) >= 2
    assert all(name == name.strip() and name for name in found.class_names)
    assert len({name.casefold() for name in found.class_names}) == len(found.class_names)
    words = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    assert all(name in clean(words.replace('""', '"')) for name in found.class_names)
    assert all(name == clean(name) for name in found.class_names)


test_tables_quickly, test_tables_at_length = fuzzed(150, table=tables())(claim)

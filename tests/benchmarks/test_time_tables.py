"""The tables of seconds by the number of rows and beside a busy process."""

from contest import tables, time_tables
from shared import machine


def write(folder, timed):
    rows = [
        {"part": part, "what": what, "seconds": wall, "processor": own, "note": "", "load": 1.0}
        for part, what, wall, own in timed
    ]
    machine.write_csv(rows, folder / "end_to_end.csv")


def test_medians_stand_below_their_number_of_rows_and_steps_are_added_up(tmp_path):
    assert time_tables.by_size(tmp_path) is None
    write(
        tmp_path,
        [
            *(("1,000 rows", "CREPE", wall, 0.05) for wall in (0.1, 0.2, 0.9)),
            ("call", "CREPE", 1.16, 1.88),
            ("features", "knn_graph and CREPE", 3.9, 7.0),
            ("million", "knn_graph, a million rows", 1104.0, 1108.0),
            ("million", "CREPE on it", 92.0, 69.0),
            ("a million nodes", "GraphLearning randomwalk", 40.0, 41.0),
            ("busy", "CREPE", 7.0, 7.0),
        ],
    )
    text = time_tables.by_size(tmp_path)
    assert "| **graph given, CREPE** | 0.20 (0.05) | – | 1.2 (1.9) | – |" in text
    assert "| **features to labels, CREPE** | – | – | 3.9 (7.0) | 1196 (1177) |" in text
    assert "| graph given, GraphLearning's randomwalk | – | – | – | 40.0 (41.0) |" in text


def test_a_busy_core_is_compared_with_the_same_call_alone(tmp_path):
    assert time_tables.busy(tmp_path) is None
    write(tmp_path, [("busy", "CREPE, quiet", 1.0, 1.0), ("busy", "CREPE, a busy core", 1.5, 1.0)])
    assert "| **CREPE** | 1.0 | 1.5 | 1.50 |" in time_tables.busy(tmp_path)


def test_the_table_of_times_says_what_other_sizes_take_where_they_were_measured(tmp_path):
    calls = [("call", "CREPE", 1.1, 1.8)]
    write(tmp_path, calls)
    assert "On a given graph" not in tables.times(tmp_path)
    for part, own, other in (("1,000 rows", 0.11, 0.012), ("a million nodes", 28.4, 48.3)):
        calls += [(part, "CREPE", own, own), (part, "GraphLearning randomwalk", other, other)]
    write(tmp_path, calls)
    said = "1,000 rows CREPE takes 0.11 seconds and randomwalk 0.01, on one of a million 28 and 48."
    assert said in tables.times(tmp_path)

"""The options of a table: what may be asked for, and when the results are written unasked."""

from __future__ import annotations

import pytest
from shared import machine
from shared.options import new_parser, parse_table


def parse(*arguments: str):
    return parse_table(new_parser("Says."), list(arguments), (0, 5), data=("a", "b", "c"), draws=(1, 5))


def test_everything_is_meant_and_written_where_nothing_is_said():
    options = parse()
    assert (options.data, options.draws, options.seeds) == (["a", "b", "c"], [1, 5], (0, 5))
    assert options.out == machine.RESULTS


def test_some_of_it_comes_in_the_order_of_the_table_and_is_only_printed(tmp_path):
    options = parse("--data", "c", "a", "--draws", "5")
    assert (options.data, options.draws, options.out) == (["a", "c"], [5], None)
    assert parse("--data", "b", "--out", str(tmp_path)).out == tmp_path
    assert parse("--seeds", "100", "102").out is None


def test_all_of_it_by_name_is_all_of_it():
    assert parse("--data", "c", "b", "a", "--seeds", "0", "5").out == machine.RESULTS


def test_a_choice_may_hang_on_another_option():
    parser = new_parser("Says.")
    parser.add_argument("--other", action="store_true")
    known = {False: ("a",), True: ("b",)}
    options = parse_table(parser, ["--other"], (0, 5), data=lambda options: known[options.other])
    assert (options.data, options.out) == (["b"], machine.RESULTS)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["--data", "d"], "--data must be of a, b, c, got d"),
        (["--draws", "2"], "--draws must be of 1, 5, got 2"),
        (["--seeds", "3", "3"], "--seeds must be FIRST < END"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
    ],
)
def test_what_there_is_not_is_refused(arguments, match, capsys):
    with pytest.raises(SystemExit):
        parse(*arguments)
    assert match in capsys.readouterr().err

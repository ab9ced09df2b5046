"""Costs for spreadsheets."""

import csv
import io
from dataclasses import replace

import pytest

from icepact.economics.costs_csv import costs_csv, tenant_costs_csv
from icepact.economics.report import costs_of
from tests.support.records import run_outcome


def test_a_line_for_each_method_with_titles() -> None:
    [entry] = costs_of([run_outcome("r", currency="EUR")])
    titles, cells = csv.reader(io.StringIO(costs_csv([entry])))
    found = dict(zip(titles, cells, strict=True))
    assert (found["table"], found["method"], found["runs"]) == ("db.events", "spark", "1")
    assert (found["actual_seconds"], found["input_bytes"], found["currency"]) == ("1.5", "600", "EUR")
    with_tenant = list(csv.reader(io.StringIO(tenant_costs_csv([("red", entry)]))))
    assert with_tenant == [["tenant", *titles], ["red", *cells]]


@pytest.mark.parametrize("name", ["=1+1", "@x", "+a.b", "-a.b", "\ta", "a,b", 'a"b', "a\nb"])
def test_names_are_text_wherever_they_are_read(name: str) -> None:
    """No spreadsheet takes one for a formula."""
    [entry] = costs_of([run_outcome("r")])
    [_, cells] = csv.reader(io.StringIO(costs_csv([replace(entry, table=name)]), newline=""))
    assert cells[0] == (f"'{name}" if name[0] in "=@+-\t" else name)

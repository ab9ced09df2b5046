"""`icepact tenants`, `keys`, `audit`, `costs --tenant`: over the record store, without Spark and without a service."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from icepact.entrypoints.cli.main import run
from icepact.entrypoints.serving import build_service
from icepact.model.tenant import Role
from icepact.schedule.tenants import Tenants

Shell = Callable[..., str]


@pytest.fixture
def icepact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Runs a command in an empty folder; returns what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")

    def command(*words: str, code: int = 0) -> str:
        assert run(list(words)) == code, capsys.readouterr()
        said = capsys.readouterr()
        return said.err if code else said.out

    return command


def document(text: str) -> Any:
    """What was printed with `--json`."""
    return json.loads(text)


def test_the_first_key_is_made_before_there_is_a_service(icepact: Shell) -> None:
    secret = icepact("keys", "create", "--tenant", "default", "--role", "admin").strip()
    tenants = Tenants(build_service().store)
    caller = tenants.authenticate(secret)
    assert caller is not None
    assert (caller.role, caller.looks_after_tenants) == (Role.ADMIN, True)
    assert tenants.anonymous() is None


def test_a_secret_is_printed_once(icepact: Shell) -> None:
    icepact("tenants", "create", "sales", "--tables", "sales.*")
    made = document(icepact("--json", "keys", "create", "--tenant", "sales", "--role", "operator", "--expires", "90d"))
    key, random = made["key"]["key_id"], made["secret"].rpartition("_")[2]
    rotated = document(icepact("keys", "rotate", key, "--overlap", "1h", "--json"))
    later = "".join(
        icepact(*words.split(), *more)
        for words in ("keys list", "tenants show sales", "tenants list", "audit", "costs --csv")
        for more in ([], [] if words == "costs --csv" else ["--json"])
    )
    assert key in later
    for secret in (random, rotated["secret"].rpartition("_")[2]):
        assert secret not in later
        assert all(secret.encode() not in path.read_bytes() for path in Path().rglob("*") if path.is_file())
    tenants = Tenants(build_service().store)
    assert tenants.authenticate(made["secret"]) is not None
    icepact("keys", "revoke", key)
    assert Tenants(build_service().store).authenticate(made["secret"]) is None
    [first, second] = document(icepact("keys", "list", "--tenant", "sales", "--json"))["keys"]
    assert (first["replaced_by"], second["key_id"]) == (rotated["key"]["key_id"], rotated["key"]["key_id"])
    assert first["revoked_at"] is not None


def test_what_is_given_is_changed_and_the_rest_stays(icepact: Shell) -> None:
    words = ["--in-catalog", "prod", "--jobs-at-once", "2", "--bytes-per-hour", "5GB", "--money-per-hour", "2.5"]
    icepact("tenants", "create", "sales", "--tables", "sales.*", "--tables", "shared.prices", *words)
    icepact("tenants", "set", "sales", "--jobs-at-once", "none", "--description", "ask Ada")
    changed = document(icepact("tenants", "show", "sales", "--json"))
    assert changed["tables"] == ["sales.*", "shared.prices"]
    assert changed["catalogs"] == ["prod"]
    assert changed["quota"] == {"jobs_at_once": None, "bytes_per_hour": 5 << 30, "money_per_hour": 2.5}
    assert changed["use"]["running"] == 0
    icepact("tenants", "set", "sales", "--no-tables", "--any-catalog")
    [empty] = document(icepact("tenants", "list", "--json"))["tenants"]
    assert (empty["tables"], empty["catalogs"], empty["description"]) == ([], [], "ask Ada")
    icepact("tenants", "remove", "sales")
    assert document(icepact("tenants", "list", "--json"))["tenants"] == []


def test_everything_is_written_down(icepact: Shell) -> None:
    icepact("tenants", "create", "sales")
    icepact("tenants", "create", "sales", code=2)
    icepact("tenants", "remove", "Sales", code=2)
    icepact("keys", "create", "--tenant", "sales")
    entries = document(icepact("audit", "--json"))["entries"]
    assert [(one["tenant"], one["action"], one["result"]) for one in reversed(entries)] == [
        ("sales", "tenants.create", "done"),
        ("sales", "tenants.create", "there is a tenant sales already: change it, or remove it first"),
        ("default", "tenants.remove", entries[1]["result"]),
        ("sales", "keys.create", "done"),
    ]
    older = document(icepact("audit", "--after", entries[1]["entry_id"], "--limit", "1", "--json"))["entries"]
    assert older == [entries[2]]
    assert len(document(icepact("audit", "--tenant", "default", "--json"))["entries"]) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("keys create --role root", "--role is viewer, operator or admin"),
        ("keys create --tenant nobody", "there is no tenant nobody"),
        ("keys create --expires soon", "is not a length of time"),
        ("keys create --expires 99999999999d", "100 years are the most"),
        ("keys revoke 123456789012", "there is no key 123456789012"),
        ("keys rotate 123456789012 --overlap 1h", "there is no key 123456789012"),
        ("tenants create a/b", "is no name of a tenant"),
        ("tenants create sales --tables events", "names no namespace"),
        ("tenants create sales --jobs-at-once many", "--jobs-at-once is a number above zero"),
        ("tenants create sales --jobs-at-once 0", "must be above zero"),
        ("tenants create sales --money-per-hour nan", "must be above zero"),
        ("tenants set default --tables a.* --no-tables", "leave one out"),
        ("audit --limit 0", "--limit is a number"),
        ("costs --tenant Sales", "is no name of a tenant"),
        ("costs --csv --days 0", "--days is a number above zero"),
    ],
)
def test_what_is_refused(icepact: Shell, words: str, complaint: str) -> None:
    assert complaint in icepact(*words.split(), code=2)


def test_costs_for_spreadsheets_have_their_titles(icepact: Shell) -> None:
    [titles] = csv.reader(io.StringIO(icepact("costs", "--csv")))
    assert titles[:3] == ["tenant", "table", "method"]
    assert document(icepact("costs", "--tenant", "default", "--json")) == {"costs": []}

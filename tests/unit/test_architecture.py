"""What holds for the whole code base: light imports, small files, errors that travel."""

import ast
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

import icepact
from icepact.entrypoints import library
from icepact.entrypoints.cli.main import exit_code
from icepact.model import errors
from icepact.model.errors import IcepactError, PermanentError, TemporaryError
from icepact.policy.options import Options

ROOT = Path(icepact.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
PUBLIC = (ROOT, ROOT / "client")
"""Packages from which users import."""
PACKAGES = [path for path in MODULES if path.name == "__init__.py" and path.parent not in PUBLIC]
MOST_LINES = 600
MOST_LINES_OF_A_FUNCTION = 80


def named(path: Path) -> str:
    """A module as a test id."""
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a module, methods and inner ones included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


# -- imports --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import icepact", ["pyspark", "pydantic", "pyarrow", "pyiceberg", "yaml", "typer"]),
        ("import icepact.model.errors", ["pyspark", "pydantic", "pyarrow", "pyiceberg", "yaml", "typer"]),
        ("import icepact.plan.planner, icepact.assess.health, icepact.commit.proof", ["pyspark", "py4j", "pyarrow"]),
        (
            "from icepact.entrypoints.cli.main import _guarded; _guarded(['--help']); _guarded(['--version'])",
            ["pyspark", "py4j", "pyarrow", "pyiceberg", "pydantic", "numpy", "rich", "yaml", "sqlalchemy"],
        ),
        ("from icepact import Compactor", ["pyspark", "py4j", "pyarrow", "pyiceberg"]),
    ],
)
def test_what_is_imported_when(statement: str, heavy: list[str]) -> None:
    """Executors import parts of icepact, and a command that is refused must not wait for Spark."""
    program = f"import sys; {statement}; print('loaded:', *(name for name in {heavy!r} if name in sys.modules))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1].split() == ["loaded:"]


def test_the_package_exports_the_compactor_and_its_answers() -> None:
    assert set(icepact.__all__) == set(icepact._HOMES)
    for name in icepact.__all__:
        found = getattr(icepact, name)
        assert (found.__name__, found.__module__) == (name, f"icepact.{icepact._HOMES[name]}")


def test_whatever_the_compactor_answers_can_be_imported_from_the_package() -> None:
    known = {name: getattr(icepact, name) for name in icepact.__all__} | vars(library)
    members = [member for name, member in vars(icepact.Compactor).items() if not name.startswith("_")]
    functions = [member.fget if isinstance(member, property) else member for member in members]
    answers = [f.__annotations__["return"] for f in functions if isinstance(f, FunctionType)]
    assert len(answers) > 20
    for answer in answers:
        if isinstance(answer, str) and answer != "SparkSession":
            eval(answer, known)


def test_a_name_that_is_not_exported_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'icepact' has no attribute 'Compacter'"):
        _ = icepact.Compacter


# -- errors ---------------------------------------------------------------------------------------

ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, IcepactError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_survive_the_way_to_an_executor_and_back(kind: type[IcepactError]) -> None:
    for error in (kind("the disk is full"), kind()):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert str(again) == str(error)


@pytest.mark.parametrize("kind", ERRORS)
def test_the_message_of_an_error_is_its_docstring_unless_given(kind: type[IcepactError]) -> None:
    assert kind.__doc__ is not None
    assert str(kind()) == kind.__doc__.splitlines()[0]
    assert str(kind("other")) == "other"


def test_the_tree_of_errors() -> None:
    """Bad input ends a command with code 2, everything else with 1; whether a retry can help is a type."""
    assert {kind.__name__ for kind in ERRORS if exit_code(kind()) == 2} == {
        *("BadInput", "TableNotFound", "Unsupported", "SetupMissing"),
        *("JobNotFound", "Conflict", "StoreUnusable", "TablePaused"),
        *("TenantNotFound", "KeyNotFound", "NotAllowed"),
        *("NotFound", "Unauthorized"),
    }
    assert {kind.__name__ for kind in ERRORS if issubclass(kind, TemporaryError)} == {
        "TemporaryError",
        "HeadMoved",
        "TableBusy",
        "QuotaUsed",
        "TooManyRequests",
        "ServiceUnreachable",
    }
    assert not any(issubclass(kind, TemporaryError) and issubclass(kind, PermanentError) for kind in ERRORS)
    tree = errors.__doc__ or ""
    assert [kind.__name__ for kind in ERRORS if kind.__name__ not in tree] == []


# -- how the code is laid out ---------------------------------------------------------------------


@pytest.mark.parametrize("path", PACKAGES, ids=named)
def test_a_package_says_what_lives_in_it_and_does_nothing(path: Path) -> None:
    module = ast.parse(path.read_text())
    assert ast.get_docstring(module)
    assert len(module.body) == 1


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_modules_are_explained_and_small(path: Path) -> None:
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= MOST_LINES
    too_long = [f.name for f in functions(path) if (f.end_lineno or 0) - f.lineno + 1 > MOST_LINES_OF_A_FUNCTION]
    assert too_long == []


BANNED = frozenset(
    {
        *("told", "settle", "settled", "place", "places", "looked"),
        *("census", "sheet", "sheets", "tally", "purse", "prospect", "outlook", "judgement", "lake"),
    }
)
"""Words that meant many things, or something only to those who had been told; `docs/glossary.md` has those of today."""
OF_OTHERS = frozenset({"addInPlace"})
"""Names that Spark gives."""


def names(path: Path) -> Iterator[str]:
    """What a module calls things: functions, classes, arguments, variables, attributes, and itself."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name) | ast.Attribute(attr=name):
                yield name


@pytest.mark.parametrize("path", MODULES, ids=named)
def test_names_are_words_of_the_glossary(path: Path) -> None:
    words = {name: {w.lower() for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)} for name in names(path)}
    assert [name for name in words if words[name] & BANNED and name not in OF_OTHERS] == []


def test_every_option_is_explained_in_a_sentence() -> None:
    told = {name: field.description or "" for name, field in Options.model_fields.items()}
    assert [name for name, text in told.items() if not (text.endswith(".") and len(text) > 10)] == []


def test_every_option_can_be_left_out() -> None:
    assert Options().model_dump(exclude_none=True) == {}

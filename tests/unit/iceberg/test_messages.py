"""What people read: numbers, partitions, and messages without secrets."""

import pytest

from icepact.iceberg.java.bridge import error_line
from icepact.model.files import PartitionSpec, SpecField
from icepact.model.formatting import plural
from icepact.model.masking import masked


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "No driver for jdbc:postgresql://h:5432/db?user=me&password=hush&ssl=true",
            "No driver for jdbc:postgresql://h:5432/db",
        ),
        ("Failed to connect: jdbc:mysql://me:hush@h/db", "Failed to connect: jdbc:mysql:..."),
        ("Failed to connect: jdbc:mysql://me:h/u?s@h@h/db?x=1 (X: y)", "Failed to connect: jdbc:mysql:... (X: y)"),
        ("'jdbc:oracle:thin:me/hush@h:1521:x' is bad", "'jdbc:oracle:...' is bad"),
        ("jdbc:sqlserver://h;user=me;password=hush", "jdbc:sqlserver://h"),
        ("jdbc:mysql://(host=h,user=me,password=hush)/db", "jdbc:mysql://"),
        ("jdbc:h2:mem:x;USER=me;PASSWORD=hush", "jdbc:h2:..."),
        ("cannot open jdbc:sqlite:/wh/catalog.db?cipher=x&key=hush", "cannot open jdbc:sqlite:/wh/catalog.db"),
        ("postgresql+psycopg2://me:hu/sh@h:5432/db", "postgresql+psycopg2://***@h:5432/db"),
        ("GET https://h/x?user=me&token=hush&y=2", "GET https://h/x?user=***&token=***&y=2"),
        ("password='hu sh' was given", "password=*** was given"),
        ('sent {"client_secret": "hush", "a": "b"}', 'sent {"client_secret": "***", "a": "b"}'),
        ("Authorization: Bearer hu.s-h", "Authorization: Bearer ***"),
        ("Authorization: Basic aHVzaA==", "Authorization: Basic ***"),
        ("GET https://x/f?sv=1&sig=hu%2Fsh&se=9", "GET https://x/f?sv=1&sig=***&se=9"),
        ("DefaultEndpointsProtocol=https;AccountKey=hush==;x=1", "DefaultEndpointsProtocol=https;AccountKey=***;x=1"),
        ("Permission denied: user=alice, access=WRITE", "Permission denied: user=alice, access=WRITE"),
        ("s3://lake/mail=a@b/x.parquet is missing", "s3://lake/mail=a@b/x.parquet is missing"),
        ('password authentication failed for user "icepact"', 'password authentication failed for user "icepact"'),
        ("cannot reach https://me:hush@example.org/x", "cannot reach https://***@example.org/x"),
        ("s3.secret-access-key=hush, region=eu", "s3.secret-access-key=***, region=eu"),
        ("oauth token=hush;", "oauth token=***;"),
        ("file /tmp/a=b is missing", "file /tmp/a=b is missing"),
    ],
)
def test_messages_carry_no_secrets(text: str, shown: str) -> None:
    assert masked(text) == shown
    assert error_line(RuntimeError(f"{text}\nand more")) == shown


def test_sparks_decoration_is_dropped() -> None:
    error = RuntimeError("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. SQLSTATE: 42703; line 1")
    assert error_line(error) == "A column `x` cannot be resolved."


def test_numbers_in_sentences() -> None:
    assert [plural(n, "file") for n in (0, 1, 2, 12_345)] == ["0 files", "1 file", "2 files", "12,345 files"]


@pytest.mark.parametrize(
    ("transform", "value", "shown"),
    [
        ("identity", "eu", "p=eu"),
        ("day", "2026-01-31", "p=2026-01-31"),
        ("month", 674, "p=2026-03"),
        ("month", -1, "p=1969-12"),
        ("year", 56, "p=2026"),
        ("hour", 491_000, "p=2026-01-05-08"),
        ("bucket[16]", 3, "p=3"),
        ("month", None, "p=null"),
        ("void", None, "(all)"),
    ],
)
def test_partitions_as_people_name_them(transform: str, value: object, shown: str) -> None:
    spec = PartitionSpec(spec_id=1, fields=(SpecField(name="p", transform=transform, source="c"),))
    assert spec.show((value,)) == shown

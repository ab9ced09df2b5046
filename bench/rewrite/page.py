"""`docs/benchmarks.md`: what was measured, how, the tables, how to measure again; and the figures in the README."""

from collections.abc import Sequence
from pathlib import Path

from bench.encoding import as_markdown as profile_as_markdown
from bench.result import as_markdown as others_as_markdown
from bench.result import kept_results
from bench.rewrite.report import as_markdown, machines, summary
from bench.rewrite.results import load
from bench.rewrite.workloads import CARRIED_SCANS_BAR, CP_BAR, CP_SCALE, SCANS_BAR, WORKLOADS

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
README = PAGE.parents[1] / "README.md"
_BEGIN, _END = "<!-- figures: written by `make bench` -->", "<!-- end of figures -->"

_TEXT = """\
# Benchmarks

How long icepact takes to rewrite a messy table, against Spark's own `rewrite_data_files` and against `cp` of
the same bytes. This page is written by `make bench` from the results it keeps; no figure in it is typed by hand.
Each names the commit that it was measured at, with a `+` if the sources had been changed since.

{results}

## What was measured

At scale 1 every table holds about 1 GB. The target is 512 MB for all. The bar is the speed-up over Spark's
action that icepact should reach.

{workloads}

Except for the 300 columns, tables have the 16 columns of TPC-H's `lineitem`: integers, decimals, dates,
strings of few values and a free-text comment. Files are zstd Parquet with one row group each, written by
Iceberg's own Parquet writer, which is also Flink's. Deleted positions are 2% of the rows of the files they
are on. Deleted keys are pairs of order key and line number, spread at random over the whole table, in 10
delete files. Below scale 1 there are proportionally fewer keys.

Two more bars: the five queries never take more than {scans:g} times as long after icepact as after Spark's
action, {carried:g} times where deleted rows are carried (h); and from scale {cp_scale:g} on, (a) takes at most {cp:g}
times as long as `cp`.

## How it was measured

- One Spark session on all cores, `local[*,4]`, serves both sides: the same JVM, the same heap, the same codec,
  the same target size. Both sides and the queries are run once on a tiny table of the same kind before
  anything is timed.
- The sides and `cp` run in turn, and the turn begins with another one in every repeat. Before each run Java's
  garbage is collected and written data is flushed to disk. Page caches are left as they are, for everybody.
- Every run starts from the same snapshot: after it, the table is rolled back and the run's files are deleted.
- Spark's time is the whole `CALL`; icepact's is the whole `Compactor.compact`: plan, rewrite, proof and commit.
  `cp` copies the table's data files, deletes not applied.
- Spark's action reads with vectorised readers, which is its default. Where it matters, its settings are tried
  on a quarter of the table first and the fastest are used: how many groups at a time, for many partitions;
  how many columns code is generated for, for 300 columns. It is not asked to remove dangling delete files,
  which would take it longer; icepact removes them always.
- After each run five queries are run twice: a count of few rows by key, two sums, a group by, minimum and
  maximum of a text, a hash of all columns. A ratio of scans is one of sums of the five medians. The time
  before is that of one pass over the messy table.
- The hash of all columns, with the number of rows, must equal that of the messy table, on format v3 also a hash
  of row ids and sequence numbers. A run that changes the rows has no time, and it is told in the last table.
- These are warm runs: of a `Compactor` that has made some, with workers that wait for work. What other starts take,
  with a new one and no history after a minute's pause, and what people wait for in a new process, is among the
  [other figures](#other-figures).
- A ratio is one of medians; in brackets are the lowest and the highest ratio within a repeat.
- Memory is sampled every 50 ms: resident size of the JVM, of the calling Python process, and of all Python
  workers together; the heap is the sum of the peaks of Java's memory pools, garbage included. The JVM is the
  same for both sides and gives little back, so that its resident size says less than the heap; Python workers
  that wait for work since icepact's last run are counted for both sides, too.

## Other figures

From `.venv/bin/python -m bench {names} starts lanes convert join soak service stream --runs 50`,
and `.venv/bin/python -m bench safety --scale 4`.
Starts: tables of 20 files and 5 MB; the pause is one after which Spark has ended idle Python workers, and its run of
workload (a) is by a new `Compactor` with an empty record store in the same session.
Soak: on one table of format version 2, Spark and a streaming writer append, Spark deletes, updates and merges,
PyIceberg appends and overwrites, a streaming writer upserts by equality deletes, and another one deletes by position.
Writers take turns, so that whatever they lose, they lose to the compaction: icepact's with `commit_when: quiet`,
Spark's with partial progress.
Service: a real `icepact serve` in a process of its own, asked over loopback. Jobs go through the client, in turn with
the same call in a warm process on the same catalog; each has a table of its own. Cached health is asked for in turn
with `/healthz`, over the same connections, with a key. The load is two `icepact serve` with a worker each on one record
store; before each compaction a writer appends a file, and the commits that jobs tell of are held against those in the
tables.
Stream: each run begins at any moment, on a table that no merge or up to two have deleted rows of. A merge deletes some
25 rows in each data file and appends 2,000. Its commit is what Spark's merge-on-read `MERGE` makes, one row delta that
is validated alike, by a thread with a catalog of its own. The rows are drawn, and deletes committed through
Iceberg's Java library, without a scan of the table: so the pace does not depend on how long a scan takes beside a
compaction.

{others}

## Where the time goes

Where bytes are copied, the disk and the fixed cost of a run decide. Where rows must be encoded anew, because deletes
touch every page (c2, d1, d2), the processor does: decoding and encoding lineitem's rows, by leaving parts out of the
work one at a time (`.venv/bin/python -m bench encoding`).

{profile}

Texts are compressed as Spark's action compresses them: zstd, at Iceberg's default level 3. A lower level would
cost storage for as long as the files live. What would help is not to compress again what did not change, which only
works for pages without a deleted row: with deletes spread evenly over pages of 20,000 rows there are none.

## Measure again

```console
make bench                                        # everything, about 1 GB for each workload
SCALE=4 make bench                                # 4 GB
.venv/bin/python -m bench rewrite --workloads a,g --scale 0.1 --results /tmp/mine.json
.venv/bin/python -m bench docs                    # only write this page anew
```

Results are kept as they come, one for each workload and scale: a run that is stopped loses only the repeat it
is in, and single workloads are added to the others.
"""


def write_pages(results: Path, names: Sequence[str], page: Path = PAGE, readme: Path = README) -> None:
    """Write the page, and the figures in the README, from what is kept; `names` are those of the other benchmarks."""
    measured, others = load(results), kept_results()
    listed = "\n".join(
        ["| | table | bar |", "|---|---|---|", *(f"| {w.name} | {w.title} | {w.bar:g} |" for w in WORKLOADS)]
    )
    text = _TEXT.format(
        results=as_markdown(measured),
        profile=profile_as_markdown(),
        others=others_as_markdown(others),
        names=" ".join(names),
        workloads=listed,
        scans=SCANS_BAR,
        carried=CARRIED_SCANS_BAR,
        cp=CP_BAR,
        cp_scale=CP_SCALE,
    )
    page.write_text(text)
    before, begin, rest = readme.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    headlines = others_as_markdown([figure for figure in others if figure.headline])
    parts = (begin, machines(measured), summary(measured), headlines, end)
    readme.write_text(before + "\n\n".join(parts) + after)

"""The commit that changes deletes and leaves data as it is: new ones come, and old ones go whose rows they delete, or
that apply to nothing.

Where deletes come, it is a row delta: others who rewrite the same data files look for deletes in those, and not in
replacements, and so find out that theirs no longer fits. Where deletes only go, no row changes for anybody: that is a
replacement, which readers of changes pass over.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from icepact.iceberg.commit.replace import COMMIT_ID, BoundToHead, deletes_to_remove, send, start_callbacks
from icepact.iceberg.java.bridge import Java, JavaError, error_line
from icepact.iceberg.table.scan import described_deletes
from icepact.iceberg.table.staging import has_plain_partition
from icepact.iceberg.table.table import HeadView, IcebergTable
from icepact.model.errors import HeadMoved
from icepact.model.files import DeleteFile, DeleteKind

_ROW_DELTA, _REWRITE = "org.apache.iceberg.RowDelta", "org.apache.iceberg.RewriteFiles"
_DELETE_FILE = "org.apache.iceberg.DeleteFile"


def new_operation(table: IcebergTable, *, adds: bool) -> Any:
    """Java's own commit, not yet made: nothing is sent before `change_deletes`."""
    return table.table.newRowDelta() if adds else table.table.newRewrite()


def java_deletes(table: IcebergTable, view: HeadView, documents: Sequence[Mapping[str, Any]]) -> Any:
    """Java's own description of new deletes of data files of the head, as a list for a commit.

    Where Iceberg's JSON cannot be trusted with a partition value, it is taken from the data file.
    """
    plain = [document for document in documents if has_plain_partition(document)]
    files = described_deletes(table.java, table.table, plain)
    if len(plain) == len(documents):
        return files
    odd = [document for document in documents if not has_plain_partition(document)]
    owners = view.everything.with_paths([document["referenced-data-file"] for document in odd])
    partitions = {str(file.location()): file.partition() for file in table.java.items(owners.data_files())}
    nowhere = [{**document, "partition": [None] * len(document["partition"])} for document in odd]
    for delete in table.java.items(described_deletes(table.java, table.table, nowhere)):
        builder = table.java.iceberg.FileMetadata.deleteFileBuilder(table.table.specs()[delete.specId()])
        partition = partitions[str(delete.referencedDataFile())]
        files.add(builder.copy(delete).withPartition(partition).build())
    return files


def change_deletes(
    table: IcebergTable,
    view: HeadView,
    operation: Any,
    *,
    branch: str,
    added: Any,
    written: Collection[str],
    removed: Sequence[DeleteFile],
    facts: dict[str, str],
    in_time: Callable[[], bool],
) -> int:
    """One atomic commit: new delete files in, old ones out. Returns the new snapshot's id.

    `operation` is that of `new_operation`, `added` are Java's own delete files, whose paths are `written`. It is bound
    to the head that was judged: since then data may have been appended, and nothing else. Raises what `replace_files`
    does.
    """
    java = table.java
    start_callbacks(java)
    bound = BoundToHead(table, branch, view, facts[COMMIT_ID], [], written, in_time)
    try:
        operation.validateFromSnapshot(view.snapshot_id)
        if written:
            _each(java, added, operation, _ROW_DELTA, "addDeletes")
        _each(java, _java_deletes(java, view, removed), operation, *_remover(adds=bool(written)))
        for key, value in facts.items():
            operation.set(key, value)
        operation.validateWith(bound).toBranch(branch)
    except JavaError as error:  # nothing was sent
        raise HeadMoved(error_line(error)) from error
    return send(table, operation, bound, branch=branch, head=view.snapshot_id, commit_id=facts[COMMIT_ID])


def _remover(*, adds: bool) -> tuple[str, str]:
    return (_ROW_DELTA, "removeDeletes") if adds else (_REWRITE, "deleteFile")


def _each(java: Java, files: Any, operation: Any, owner: str, name: str) -> None:
    """Hand every file to a method of the operation."""
    method = java.bind(java.method(owner, name, _DELETE_FILE), 0, operation)
    java.jvm.java.util.ArrayList(files).forEach(java.as_interface("java.util.function.Consumer", method))


def _java_deletes(java: Java, view: HeadView, removed: Sequence[DeleteFile]) -> Any:
    """Java's own delete files: vectors by the data file that they are of, because they share files."""
    whole = [delete.path for delete in removed if delete.kind is not DeleteKind.DV]
    of = [delete.referenced for delete in removed if delete.kind is DeleteKind.DV and delete.referenced is not None]
    return deletes_to_remove(java, view, whole, of)

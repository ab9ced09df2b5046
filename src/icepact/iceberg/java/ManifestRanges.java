package icepact;

import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFile.PartitionFieldSummary;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestWriter;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.inmemory.InMemoryOutputFile;
import org.apache.iceberg.types.Comparators;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** What the list of a snapshot's manifests says of them, one on each line, written to a file in one call. */
public final class ManifestRanges {
  private final Map specs = new HashMap();
  private final Map overheads = new HashMap();

  /**
   * Parted by tabs: path, spec, content, length, bytes without entries, live and dead files, sequence number, whether
   * row ids are assigned, the snapshot that added it, its time, the value of a fact of its summary, whether its
   * partitions cannot be written; then for each partition field the ranks of its bounds, and whether it has nulls.
   */
  public void write(Table table, List manifests, int version, String fact, String file) throws Exception {
    StringBuilder lines = new StringBuilder();
    for (Iterator each = manifests.iterator(); each.hasNext(); ) {
      collect(table, (ManifestFile) each.next());
    }
    for (Iterator each = specs.values().iterator(); each.hasNext(); ) {
      TreeMap[] values = (TreeMap[]) each.next();
      for (int i = 0; i < values.length; i++) {
        rank(values[i]);
      }
    }
    for (Iterator each = manifests.iterator(); each.hasNext(); ) {
      describe(table, (ManifestFile) each.next(), version, fact, lines);
    }
    FileOutputStream out = new FileOutputStream(file);
    try {
      out.write(lines.toString().getBytes(StandardCharsets.UTF_8));
    } finally {
      out.close();
    }
  }

  private static List fieldsOf(Table table, ManifestFile manifest) {
    PartitionSpec spec = (PartitionSpec) table.specs().get(Integer.valueOf(manifest.partitionSpecId()));
    return spec.partitionType().fields();
  }

  private static boolean unwritable(List fields) {
    for (int i = 0; i < fields.size(); i++) {
      if ("unknown".equals(((Types.NestedField) fields.get(i)).type().toString())) {
        return true;
      }
    }
    return false;
  }

  private static boolean described(ManifestFile manifest, List fields) {
    return !unwritable(fields) && (fields.isEmpty() || manifest.partitions() != null);
  }

  private void collect(Table table, ManifestFile manifest) {
    List fields = fieldsOf(table, manifest);
    if (!described(manifest, fields)) {
      return;
    }
    Integer id = Integer.valueOf(manifest.partitionSpecId());
    TreeMap[] values = (TreeMap[]) specs.get(id);
    if (values == null) {
      values = new TreeMap[fields.size()];
      for (int i = 0; i < values.length; i++) {
        Type type = ((Types.NestedField) fields.get(i)).type();
        values[i] = new TreeMap(Comparators.forType((Type.PrimitiveType) type));
      }
      specs.put(id, values);
    }
    for (int i = 0; i < values.length; i++) {
      PartitionFieldSummary summary = (PartitionFieldSummary) manifest.partitions().get(i);
      Type type = ((Types.NestedField) fields.get(i)).type();
      if (summary.lowerBound() != null && summary.upperBound() != null) {
        values[i].put(Conversions.fromByteBuffer(type, summary.lowerBound()), null);
        values[i].put(Conversions.fromByteBuffer(type, summary.upperBound()), null);
      }
    }
  }

  private static void rank(TreeMap values) {
    long next = 0L;
    for (Iterator each = values.entrySet().iterator(); each.hasNext(); ) {
      ((Map.Entry) each.next()).setValue(Long.valueOf(next++));
    }
  }

  private void describe(Table table, ManifestFile manifest, int version, String fact, StringBuilder lines)
      throws Exception {
    List fields = fieldsOf(table, manifest);
    boolean lost = unwritable(fields);
    boolean counted =
        manifest.addedFilesCount() != null
            && manifest.existingFilesCount() != null
            && manifest.deletedFilesCount() != null;
    Snapshot added = manifest.snapshotId() == null ? null : table.snapshot(manifest.snapshotId().longValue());
    Object value = added == null || added.summary() == null ? null : added.summary().get(fact);
    lines.append(manifest.path()).append('\t').append(manifest.partitionSpecId());
    lines.append('\t').append(manifest.content() == ManifestContent.DELETES ? '1' : '0');
    lines.append('\t').append(manifest.length()).append('\t').append(lost ? 0L : overhead(table, manifest, version));
    lines.append('\t');
    if (counted) {
      lines.append(manifest.addedFilesCount().intValue() + manifest.existingFilesCount().intValue());
    }
    lines.append('\t').append(counted ? manifest.deletedFilesCount().intValue() : 0);
    lines.append('\t').append(manifest.sequenceNumber());
    lines.append('\t').append(manifest.firstRowId() == null ? '0' : '1');
    lines.append('\t').append(manifest.snapshotId() == null ? "" : manifest.snapshotId().toString());
    lines.append('\t').append(added == null ? 0L : added.timestampMillis());
    lines.append('\t').append(value == null ? "" : value.toString());
    lines.append('\t').append(lost ? '1' : '0');
    lines.append('\t').append(described(manifest, fields) ? '1' : '0');
    if (described(manifest, fields)) {
      TreeMap[] values = (TreeMap[]) specs.get(Integer.valueOf(manifest.partitionSpecId()));
      for (int i = 0; i < values.length; i++) {
        PartitionFieldSummary summary = (PartitionFieldSummary) manifest.partitions().get(i);
        Type type = ((Types.NestedField) fields.get(i)).type();
        boolean known = summary.lowerBound() != null && summary.upperBound() != null;
        lines.append('\t').append(known ? rankOf(values[i], type, summary.lowerBound()) : 1L);
        lines.append('\t').append(known ? rankOf(values[i], type, summary.upperBound()) : 0L);
        boolean nan = summary.containsNaN() != null && summary.containsNaN().booleanValue();
        lines.append('\t').append(summary.containsNull() || nan ? '1' : '0');
      }
    }
    lines.append('\n');
  }

  private static long rankOf(TreeMap values, Type type, ByteBuffer bound) {
    return ((Long) values.get(Conversions.fromByteBuffer(type, bound))).longValue();
  }

  /** The length of a manifest of the same kind that has no entry. */
  private long overhead(Table table, ManifestFile manifest, int version) throws Exception {
    boolean deletes = manifest.content() == ManifestContent.DELETES;
    List key = new ArrayList();
    key.add(Integer.valueOf(manifest.partitionSpecId()));
    key.add(Boolean.valueOf(deletes));
    if (overheads.get(key) == null) {
      PartitionSpec spec = (PartitionSpec) table.specs().get(Integer.valueOf(manifest.partitionSpecId()));
      InMemoryOutputFile empty = new InMemoryOutputFile("empty.avro");
      ManifestWriter writer =
          deletes
              ? ManifestFiles.writeDeleteManifest(version, spec, empty, null)
              : ManifestFiles.write(version, spec, empty, null);
      writer.close();
      overheads.put(key, Long.valueOf(empty.toByteArray().length));
    }
    return ((Long) overheads.get(key)).longValue();
  }
}

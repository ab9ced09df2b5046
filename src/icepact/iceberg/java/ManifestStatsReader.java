package icepact;

import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.BucketUtil;
import org.apache.iceberg.util.ContentFileUtil;

/** The live files of one manifest as columns of numbers, and what no number tells of data files as lines of text.
 * Compiled at run time by Spark's own compiler. */
public final class ManifestStatsReader {
  private static final int COLUMNS = 10;
  private long[][] columns = new long[COLUMNS][1024];
  private int files = 0;
  private final StringBuilder partitions = new StringBuilder();
  private final ByteArrayOutputStream lines = new ByteArrayOutputStream();
  private int[] ends = new int[1024];

  /** `key` is the id of the column whose bounds are wanted, or 0. Names are read if there is a `prefix`: paths below
   * it are written without it. */
  public void read(ManifestFile manifest, FileIO io, Map specs, List wanted, int key, Type type, String prefix)
      throws Exception {
    boolean deletes = manifest.content() == ManifestContent.DELETES;
    ManifestReader reader =
        deletes
            ? (ManifestReader) ManifestFiles.readDeleteManifest(manifest, io, specs)
            : (ManifestReader) ManifestFiles.read(manifest, io, specs);
    Map indexes = new HashMap();
    PartitionSpec spec = (PartitionSpec) specs.get(Integer.valueOf(manifest.partitionSpecId()));
    List fields = spec.partitionType().fields();
    try {
      Iterator entries = reader.select(wanted).iterator();
      while (entries.hasNext()) {
        ContentFile file = (ContentFile) entries.next();
        if (prefix != null) {
          name((DataFile) file, prefix);
        }
        add(file, deletes, indexes, fields, key, type);
      }
    } finally {
      reader.close();
    }
  }

  private void add(ContentFile file, boolean deletes, Map indexes, List fields, int key, Type type) {
    if (files == columns[0].length) {
      for (int i = 0; i < COLUMNS; i++) {
        columns[i] = Arrays.copyOf(columns[i], 2 * files);
      }
    }
    StructLike partition = (StructLike) file.partition();
    List values = new ArrayList(partition.size());
    for (int i = 0; i < partition.size(); i++) {
      values.add(partition.get(i, Object.class));
    }
    Integer index = (Integer) indexes.get(values);
    if (index == null) {
      index = Integer.valueOf(indexes.size());
      indexes.put(values, index);
      describe(fields, values);
    }
    Long number = file.dataSequenceNumber();
    columns[0][files] = index.intValue();
    columns[1][files] = file.fileSizeInBytes();
    columns[2][files] = file.recordCount();
    columns[3][files] = number == null ? 0L : number.longValue();
    columns[4][files] = 1L;
    columns[9][files] = file.fileSizeInBytes();
    if (deletes) {
      DeleteFile delete = (DeleteFile) file;
      if (delete.contentSizeInBytes() != null) {
        columns[1][files] = delete.contentSizeInBytes().longValue();
      }
      columns[5][files] = hash(ContentFileUtil.referencedDataFile(delete)); // equal bounds tell it too
      columns[6][files] =
          file.content() == FileContent.EQUALITY_DELETES ? 2L : file.format() == FileFormat.PUFFIN ? 1L : 0L;
    } else {
      List offsets = file.splitOffsets();
      if (offsets != null && !offsets.isEmpty()) {
        columns[4][files] = offsets.size();
        columns[9][files] = file.fileSizeInBytes() - ((Long) offsets.get(offsets.size() - 1)).longValue();
      }
      columns[6][files] = file.format() == FileFormat.ORC ? 1L : file.format() == FileFormat.AVRO ? 2L : 0L;
      columns[5][files] = hash(file.location());
      if (key != 0) {
        columns[7][files] = bound(file.lowerBounds(), key, type, Long.MIN_VALUE);
        columns[8][files] = bound(file.upperBounds(), key, type, Long.MAX_VALUE);
      }
    }
    files++;
  }

  /** Two hashes of 32 bits side by side; 0 where there is no path. */
  private static long hash(CharSequence path) {
    if (path == null) {
      return 0L;
    }
    long found = (((long) path.toString().hashCode()) << 32) ^ (BucketUtil.hash(path) & 0xFFFFFFFFL);
    return found == 0L ? 1L : found;
  }

  /** A bound as a number of the same order; long values are cut off. */
  private static long bound(Map bounds, int key, Type type, long unknown) {
    ByteBuffer raw = bounds == null ? null : (ByteBuffer) bounds.get(Integer.valueOf(key));
    if (raw == null) {
      return unknown;
    }
    Object value;
    try {
      value = Conversions.fromByteBuffer(type, raw);
    } catch (RuntimeException error) {
      return unknown; // of another type once
    }
    if (value instanceof Integer || value instanceof Long) {
      return ((Number) value).longValue();
    }
    if (value instanceof Number) {
      long bits = Double.doubleToLongBits(((Number) value).doubleValue());
      return bits < 0 ? bits ^ Long.MAX_VALUE : bits;
    }
    if (value instanceof Boolean) {
      return ((Boolean) value).booleanValue() ? 1L : 0L;
    }
    byte[] bytes;
    if (value instanceof CharSequence) {
      bytes = value.toString().getBytes(StandardCharsets.UTF_8);
    } else if (value instanceof ByteBuffer) {
      ByteBuffer buffer = (ByteBuffer) value;
      bytes = new byte[Math.min(8, buffer.remaining())];
      for (int i = 0; i < bytes.length; i++) {
        bytes[i] = buffer.get(buffer.position() + i);
      }
    } else {
      return unknown;
    }
    long found = 0L;
    for (int i = 0; i < 8; i++) {
      found = (found << 8) | (i < bytes.length ? bytes[i] & 0xFFL : 0L);
    }
    return found ^ Long.MIN_VALUE;
  }

  /** A line for a data file. */
  private void name(DataFile file, String prefix) throws Exception {
    StringBuilder line = new StringBuilder(160);
    line.append(file.format().toString()).append('\0');
    if (file.firstRowId() != null) {
      line.append(file.firstRowId());
    }
    line.append('\0');
    List offsets = file.splitOffsets();
    for (int i = 0; offsets != null && i < offsets.size(); i++) {
      line.append(i == 0 ? "" : ",").append(offsets.get(i));
    }
    String path = file.location();
    boolean below = path.startsWith(prefix);
    line.append(below ? "\0+" : "\0=").append(below ? path.substring(prefix.length()) : path);
    lines.write(line.toString().getBytes(StandardCharsets.UTF_8));
    if (files == ends.length) {
      ends = Arrays.copyOf(ends, 2 * files);
    }
    ends[files] = lines.size();
  }

  /** Writes the names to a file: how many there are, where each line ends, and all lines. */
  public void writeNames(String path) throws Exception {
    ByteBuffer header = ByteBuffer.allocate(4 * files + 4);
    header.order(ByteOrder.LITTLE_ENDIAN);
    header.putInt(files);
    header.asIntBuffer().put(ends, 0, files);
    FileOutputStream out = new FileOutputStream(path);
    try {
      out.write(header.array());
      lines.writeTo(out);
    } finally {
      out.close();
    }
  }

  private void describe(List fields, List values) {
    partitions.append(partitions.length() == 0 ? "[[" : ",[");
    for (int i = 0; i < values.size(); i++) {
      Object value = values.get(i);
      if (i > 0) {
        partitions.append(',');
      }
      Type type = ((Types.NestedField) fields.get(i)).type();
      partitions.append(value == null ? "null" : SingleValueParser.toJson(type, value));
    }
    partitions.append(']');
  }

  /** Partitions as Iceberg's JSON, in the order of their numbers. */
  public String partitions() {
    return partitions.length() == 0 ? "[]" : partitions.append(']').toString();
  }

  /** Writes all columns to a file, one after the other, little-endian: the gateway would take five times as long. */
  public void write(String path) throws Exception {
    ByteBuffer buffer = ByteBuffer.allocate(8 * files);
    buffer.order(ByteOrder.LITTLE_ENDIAN);
    FileOutputStream out = new FileOutputStream(path);
    try {
      for (int i = 0; i < COLUMNS; i++) {
        buffer.clear();
        buffer.asLongBuffer().put(columns[i], 0, files);
        out.write(buffer.array(), 0, 8 * files);
      }
    } finally {
      out.close();
    }
  }
}

package icepact;

import java.io.BufferedWriter;
import java.io.FileOutputStream;
import java.io.OutputStreamWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.ContentFileUtil;

/** What the manifests tell of the age of data files: one line for each scan task. */
public final class FileAges {
  private final Map partitionNumbers = new HashMap();
  private final StringBuilder partitions = new StringBuilder();
  private final Map deleteNumbers = new HashMap();
  private final StringBuilder vectors = new StringBuilder();

  /** Fields of a line, parted by tabs: spec, partition, rows, bytes, nulls, lower and upper bound in hex, deletes, path. */
  public void write(List tasks, Map specs, int column, String file) throws Exception {
    BufferedWriter out = new BufferedWriter(new OutputStreamWriter(new FileOutputStream(file), StandardCharsets.UTF_8));
    try {
      for (Iterator each = tasks.iterator(); each.hasNext(); ) {
        FileScanTask task = (FileScanTask) each.next();
        DataFile data = (DataFile) task.file();
        Integer id = Integer.valueOf(column);
        Map nulls = data.nullValueCounts();
        Object count = nulls == null ? null : nulls.get(id);
        out.write(data.specId() + "\t" + partition(data, specs) + "\t" + data.recordCount());
        out.write("\t" + data.fileSizeInBytes() + "\t" + (count == null ? "" : count.toString()));
        out.write("\t" + hex(data.lowerBounds(), id) + "\t" + hex(data.upperBounds(), id) + "\t");
        String comma = "";
        for (Iterator deletes = task.deletes().iterator(); deletes.hasNext(); ) {
          out.write(comma + number((DeleteFile) deletes.next()));
          comma = ",";
        }
        out.write("\t" + data.location().toString().replace('\n', '?').replace('\t', '?') + "\n");
      }
    } finally {
      out.close();
    }
  }

  /** Partitions as Iceberg's JSON, in the order of their numbers. */
  public String partitions() {
    return partitions.length() == 0 ? "[]" : partitions + "]";
  }

  /** The numbers of the deletes that are deletion vectors, as JSON. */
  public String vectors() {
    return "[" + vectors + "]";
  }

  /** The data files of some tasks, by their positions in the list. */
  public List chosen(List tasks, List numbers) {
    List files = new ArrayList(numbers.size());
    for (Iterator each = numbers.iterator(); each.hasNext(); ) {
      files.add(((FileScanTask) tasks.get(((Number) each.next()).intValue())).file());
    }
    return files;
  }

  /** Some of the tasks, by their positions in the list. */
  public List some(List tasks, List numbers) {
    List some = new ArrayList(numbers.size());
    for (Iterator each = numbers.iterator(); each.hasNext(); ) {
      some.add(tasks.get(((Number) each.next()).intValue()));
    }
    return some;
  }

  private int number(DeleteFile delete) {
    String key = delete.location() + "#" + delete.contentOffset();
    Integer known = (Integer) deleteNumbers.get(key);
    if (known == null) {
      known = Integer.valueOf(deleteNumbers.size());
      deleteNumbers.put(key, known);
      if (ContentFileUtil.isDV(delete)) {
        vectors.append(vectors.length() == 0 ? "" : ",").append(known);
      }
    }
    return known.intValue();
  }

  private int partition(DataFile data, Map specs) {
    StructLike values = data.partition();
    List key = new ArrayList(values.size() + 1);
    key.add(Integer.valueOf(data.specId()));
    for (int i = 0; i < values.size(); i++) {
      key.add(values.get(i, Object.class));
    }
    Integer known = (Integer) partitionNumbers.get(key);
    if (known == null) {
      known = Integer.valueOf(partitionNumbers.size());
      partitionNumbers.put(key, known);
      List fields = ((PartitionSpec) specs.get(Integer.valueOf(data.specId()))).partitionType().fields();
      partitions.append(partitions.length() == 0 ? "[[" : ",[");
      for (int i = 0; i < values.size(); i++) {
        Type type = ((Types.NestedField) fields.get(i)).type();
        Object value = key.get(i + 1);
        partitions.append(i == 0 ? "" : ",").append(value == null ? "null" : SingleValueParser.toJson(type, value));
      }
      partitions.append(']');
    }
    return known.intValue();
  }

  private static String hex(Map bounds, Integer column) {
    ByteBuffer raw = bounds == null ? null : (ByteBuffer) bounds.get(column);
    if (raw == null) {
      return "";
    }
    StringBuilder text = new StringBuilder("x"); // tells an empty bound from none
    for (int i = raw.position(); i < raw.limit(); i++) {
      int next = raw.get(i) & 0xFF;
      text.append(Character.forDigit(next >> 4, 16)).append(Character.forDigit(next & 15, 16));
    }
    return text.toString();
  }
}

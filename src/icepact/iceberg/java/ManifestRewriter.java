package icepact;

import java.io.FileOutputStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.ManifestWriter;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.inmemory.InMemoryOutputFile;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.types.Comparators;

/**
 * Manifests of one kind, written anew in the order of their partitions, with every entry as it was.
 *
 * <p>They are read twice, several at a time: first the partitions alone, from which it follows where each entry goes;
 * then all of it, straight into the outputs. So memory does not grow with the statistics of the files.
 */
public final class ManifestRewriter implements Callable, Comparator {
  private static final int SAMPLED_MANIFESTS = 16;
  private static final int SAMPLED_ENTRIES = 2000;

  private Table table;
  private List manifests;
  private PartitionSpec spec;
  private boolean deletes;
  private int version;
  private long overhead;
  private Map options = new HashMap();
  private Method liveEntries;
  private Method fileOf;
  private Method snapshotOf;
  private Method numberOf;
  private Method fileNumberOf;

  private final Map known = new HashMap(); // number of a partition by its values
  private final List partitions = new ArrayList(); // by number
  private final List values = new ArrayList(); // by number
  private int[][] partitionOf; // by manifest and entry
  private Comparator order; // of partitions
  private int[] rank; // by number of the partition
  private Integer[] ranked;
  private double[] weight; // bytes of an entry, by manifest

  private int[][] outputOf; // by manifest and entry
  private ManifestWriter[] writers;
  private String[] paths;
  private long[] written;
  private String prefix;
  private volatile boolean failed = false;

  private ManifestRewriter whole; // of which this is one task
  private int at;
  private boolean writing;

  /** Reads the partitions; `manifests` are of one spec and content, oldest first. */
  public void read(Table table, List manifests, int version, long overhead, int threads) throws Exception {
    this.table = table;
    this.manifests = manifests;
    this.version = version;
    this.overhead = overhead;
    ManifestFile first = (ManifestFile) manifests.get(0);
    deletes = first.content() == ManifestContent.DELETES;
    spec = (PartitionSpec) table.specs().get(Integer.valueOf(first.partitionSpecId()));
    Object codec = table.properties().get(TableProperties.MANIFEST_COMPRESSION);
    Object level = table.properties().get(TableProperties.MANIFEST_COMPRESSION_LEVEL);
    options.put(TableProperties.AVRO_COMPRESSION, codec == null ? TableProperties.MANIFEST_COMPRESSION_DEFAULT : codec);
    if (level != null) {
      options.put(TableProperties.AVRO_COMPRESSION_LEVEL, level);
    }
    liveEntries = accessible(ManifestReader.class, "liveEntries");
    Class entry = Class.forName("org.apache.iceberg.ManifestEntry", true, Table.class.getClassLoader());
    fileOf = accessible(entry, "file");
    snapshotOf = accessible(entry, "snapshotId");
    numberOf = accessible(entry, "dataSequenceNumber");
    fileNumberOf = accessible(entry, "fileSequenceNumber");
    partitionOf = new int[manifests.size()][];
    inParallel(false, threads);
    rankPartitions();
    weigh();
  }

  private static Method accessible(Class owner, String name) throws Exception {
    Method method = owner.getDeclaredMethod(name, new Class[0]);
    method.setAccessible(true);
    return method;
  }

  private void inParallel(boolean writing, int threads) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(Math.min(threads, manifests.size()));
    try {
      List tasks = new ArrayList();
      for (int i = 0; i < manifests.size(); i++) {
        ManifestRewriter task = new ManifestRewriter();
        task.whole = this;
        task.at = i;
        task.writing = writing;
        tasks.add(task);
      }
      Exception error = null;
      for (Iterator each = pool.invokeAll(tasks).iterator(); each.hasNext(); ) {
        try {
          ((Future) each.next()).get();
        } catch (ExecutionException found) {
          if (error == null) {
            error = found.getCause() instanceof Exception ? (Exception) found.getCause() : found;
          }
        }
      }
      if (error != null) {
        throw error;
      }
    } finally {
      pool.shutdown();
    }
  }

  /** One manifest, in a thread of its own. */
  public Object call() throws Exception {
    if (!whole.failed) {
      try {
        if (writing) {
          whole.copy(at);
        } else {
          whole.scan(at);
        }
      } catch (Exception error) {
        whole.failed = true;
        throw error;
      }
    }
    return null;
  }

  private ManifestReader open(int at) {
    ManifestFile manifest = (ManifestFile) manifests.get(at);
    return deletes
        ? (ManifestReader) ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())
        : (ManifestReader) ManifestFiles.read(manifest, table.io(), table.specs());
  }

  private Iterator entriesOf(ManifestReader reader) throws Exception {
    return ((CloseableIterable) liveEntries.invoke(reader, new Object[0])).iterator();
  }

  private void scan(int at) throws Exception {
    ManifestFile manifest = (ManifestFile) manifests.get(at);
    int[] found = new int[manifest.addedFilesCount().intValue() + manifest.existingFilesCount().intValue()];
    int count = 0;
    Map mine = new HashMap();
    ManifestReader reader = open(at);
    try {
      Iterator entries = entriesOf(reader.select(Collections.singletonList("partition")));
      while (entries.hasNext()) {
        StructLike partition = ((ContentFile) fileOf.invoke(entries.next(), new Object[0])).partition();
        List key = valuesOf(partition);
        Integer number = (Integer) mine.get(key);
        if (number == null) {
          number = numberOf(key, partition);
          mine.put(key, number);
        }
        if (count == found.length) {
          found = Arrays.copyOf(found, 2 * count + 1);
        }
        found[count++] = number.intValue();
      }
    } finally {
      reader.close();
    }
    partitionOf[at] = Arrays.copyOf(found, count);
  }

  private static List valuesOf(StructLike partition) {
    int size = partition == null ? 0 : partition.size();
    List found = new ArrayList(size);
    for (int i = 0; i < size; i++) {
      found.add(partition.get(i, Object.class));
    }
    return found;
  }

  private synchronized Integer numberOf(List key, StructLike partition) {
    Integer number = (Integer) known.get(key);
    if (number == null) {
      number = Integer.valueOf(partitions.size());
      known.put(key, number);
      values.add(key);
      PartitionData empty = new PartitionData(spec.partitionType());
      partitions.add(partition == null ? empty : empty.copyFor(partition));
    }
    return number;
  }

  private void rankPartitions() {
    order = Comparators.forType(spec.partitionType());
    ranked = new Integer[partitions.size()];
    rank = new int[ranked.length];
    for (int i = 0; i < ranked.length; i++) {
      ranked[i] = Integer.valueOf(i);
    }
    Arrays.sort(ranked, this);
    for (int i = 0; i < ranked.length; i++) {
      rank[ranked[i].intValue()] = i;
    }
  }

  /** The order of partitions by their numbers. */
  public int compare(Object one, Object other) {
    return order.compare(
        partitions.get(((Integer) one).intValue()), partitions.get(((Integer) other).intValue()));
  }

  /**
   * What an entry will take up, from the lengths of the manifests; small ones compress badly, so that it is tried in
   * memory how much less some entries of several manifests take together.
   */
  private void weigh() throws Exception {
    weight = new double[manifests.size()];
    for (int i = 0; i < weight.length; i++) {
      ManifestFile manifest = (ManifestFile) manifests.get(i);
      int entries = partitionOf[i].length + manifest.deletedFilesCount().intValue();
      weight[i] = Math.max(0L, manifest.length() - overhead) / (double) Math.max(1, entries);
    }
    InMemoryOutputFile sample = new InMemoryOutputFile("sample.avro");
    ManifestWriter writer = writer(sample);
    double expected = 0.0;
    int step = Math.max(1, manifests.size() / SAMPLED_MANIFESTS);
    int most = SAMPLED_ENTRIES / Math.min(manifests.size(), SAMPLED_MANIFESTS);
    for (int i = 0; i < manifests.size(); i += step) {
      ManifestReader reader = open(i);
      try {
        Iterator entries = entriesOf(reader);
        for (int taken = 0; taken < most && entries.hasNext(); taken++) {
          append(writer, entries.next());
          expected += weight[i];
        }
      } finally {
        reader.close();
      }
    }
    writer.close();
    if (expected > 0.0) {
      double ratio = (sample.toByteArray().length - overhead) / expected;
      for (int i = 0; i < weight.length; i++) {
        weight[i] *= ratio;
      }
    }
  }

  private ManifestWriter writer(OutputFile file) {
    return deletes
        ? (ManifestWriter) ManifestFiles.writeDeleteManifest(version, spec, file, null, options)
        : (ManifestWriter) ManifestFiles.write(version, spec, file, null, options);
  }

  private void append(ManifestWriter writer, Object entry) throws Exception {
    Object[] nothing = new Object[0];
    ContentFile file = (ContentFile) fileOf.invoke(entry, nothing);
    long snapshot = ((Long) snapshotOf.invoke(entry, nothing)).longValue();
    long number = ((Long) numberOf.invoke(entry, nothing)).longValue();
    writer.existing(file, snapshot, number, (Long) fileNumberOf.invoke(entry, nothing));
  }

  /** Writes to a file, for each partition in order: entries, bytes, and the first field that differs from before. */
  public void weights(String path) throws Exception {
    long[] entries = new long[ranked.length];
    double[] bytes = new double[ranked.length];
    for (int i = 0; i < partitionOf.length; i++) {
      for (int j = 0; j < partitionOf[i].length; j++) {
        entries[rank[partitionOf[i][j]]]++;
        bytes[rank[partitionOf[i][j]]] += weight[i];
      }
    }
    ByteBuffer buffer = ByteBuffer.allocate(24 * ranked.length);
    buffer.order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < ranked.length; i++) {
      buffer.putLong(entries[i]).putLong((long) bytes[i]).putLong(i == 0 ? 0L : level(i));
    }
    FileOutputStream out = new FileOutputStream(path);
    try {
      out.write(buffer.array());
    } finally {
      out.close();
    }
  }

  private long level(int at) {
    List before = (List) values.get(ranked[at - 1].intValue());
    List here = (List) values.get(ranked[at].intValue());
    int field = 0;
    while (field < here.size() - 1 && same(before.get(field), here.get(field))) {
      field++;
    }
    return field;
  }

  private static boolean same(Object one, Object other) {
    return one == null ? other == null : one.equals(other);
  }

  /**
   * Writes the outputs. `cuts` are the entries, counted in the order of partitions, at which a further one begins;
   * entries of one partition keep the order of the manifests.
   */
  public List write(List cuts, String prefix, int threads) throws Exception {
    this.prefix = prefix;
    long[] begins = new long[cuts.size()];
    for (int i = 0; i < begins.length; i++) {
      begins[i] = ((Number) cuts.get(i)).longValue();
    }
    assign(begins);
    paths = new String[begins.length + 1];
    written = new long[paths.length];
    writers = new ManifestWriter[paths.length];
    List files = new ArrayList();
    boolean done = false;
    try {
      inParallel(true, threads);
      for (int i = 0; i < writers.length; i++) {
        if (writers[i] != null) {
          writers[i].close();
          files.add(writers[i].toManifestFile());
        }
      }
      done = true;
    } finally {
      for (int i = 0; !done && i < writers.length; i++) {
        closeQuietly(writers[i]);
      }
    }
    return files;
  }

  private void assign(long[] begins) {
    long[] next = new long[ranked.length];
    for (int i = 0; i < partitionOf.length; i++) {
      for (int j = 0; j < partitionOf[i].length; j++) {
        next[rank[partitionOf[i][j]]]++;
      }
    }
    long sum = 0L;
    for (int i = 0; i < next.length; i++) {
      long count = next[i];
      next[i] = sum;
      sum += count;
    }
    outputOf = new int[partitionOf.length][];
    for (int i = 0; i < partitionOf.length; i++) {
      outputOf[i] = new int[partitionOf[i].length];
      for (int j = 0; j < partitionOf[i].length; j++) {
        int found = Arrays.binarySearch(begins, next[rank[partitionOf[i][j]]]++);
        outputOf[i][j] = found >= 0 ? found + 1 : -found - 1;
      }
    }
  }

  private void copy(int at) throws Exception {
    int[] outputs = outputOf[at];
    int count = 0;
    ManifestReader reader = open(at);
    try {
      Iterator entries = entriesOf(reader);
      while (entries.hasNext()) {
        if (failed) {
          return;
        }
        Object entry = entries.next();
        if (count == outputs.length) {
          throw new IllegalStateException("A manifest has other entries than before: " + path(at));
        }
        put(outputs[count++], entry);
      }
    } finally {
      reader.close();
    }
    if (count != outputs.length) {
      throw new IllegalStateException("A manifest has other entries than before: " + path(at));
    }
  }

  private String path(int at) {
    return ((ManifestFile) manifests.get(at)).path();
  }

  private void put(int output, Object entry) throws Exception {
    synchronized (lockOf(output)) {
      append(writers[output], entry);
      written[output]++;
    }
  }

  private synchronized Object lockOf(int output) {
    if (writers[output] == null) {
      paths[output] = prefix + output + ".avro";
      writers[output] = writer(table.io().newOutputFile(paths[output]));
    }
    return writers[output];
  }

  private static void closeQuietly(ManifestWriter writer) {
    try {
      if (writer != null) {
        writer.close();
      }
    } catch (Exception error) {
      // it is deleted anyway
    }
  }

  /** Outputs of which anything may be on storage. */
  public List paths() {
    List found = new ArrayList();
    for (int i = 0; paths != null && i < paths.length; i++) {
      if (paths[i] != null) {
        found.add(paths[i]);
      }
    }
    return found;
  }

  /** Live entries that were read. */
  public long entries() {
    long sum = 0L;
    for (int i = 0; i < partitionOf.length; i++) {
      sum += partitionOf[i].length;
    }
    return sum;
  }
}

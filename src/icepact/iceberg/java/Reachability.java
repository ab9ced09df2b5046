package icepact;

import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Predicate;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.GenericManifestFile;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.InternalData;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestListFile;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.PartitionData;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SerializableTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.io.ByteBufferInputStream;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.SeekableInputStream;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.ManifestFileUtil;
import org.apache.iceberg.util.PartitionSet;
import org.apache.iceberg.util.ThreadPools;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.PairFlatMapFunction;
import org.apache.spark.broadcast.Broadcast;
import scala.Tuple2;

/** Which files of a table its snapshots reach: those that only some snapshots do, and all of them as numbers.
 * Tasks for threads are instances, too. */
public final class Reachability implements Callable, Predicate {
  private static final int LISTS = 1;
  private static final int REMOVED = 2;
  private static final int LIVE = 3;
  private static final int LIVE_IS_KEPT = 4;
  private static final int LIVE_IS_ADDED = 5;
  private static final int READERS = 16;
  private Reachability owner;
  private int work;
  private Object subject;

  private FileIO io;
  private Map specs;
  private Method entries;
  private Method liveEntries;
  private Method isLive;
  private Method file;
  private Set expired = new HashSet();
  private final Map lean = new ConcurrentHashMap();
  private final Map candidates = new ConcurrentHashMap();
  private PartitionSet removedIn;
  private final Set removedSpecs = new HashSet();
  private final Map gone = new LinkedHashMap();
  private final Set read = new HashSet();
  private final Set seen = new HashSet();
  private long[] numbers = new long[1024];
  private int count = 0;
  private boolean odd = false;
  private String[] roots = new String[0];
  private String[] behindRoots = new String[0];
  private volatile String astray = null;
  private Map realFolders = null;
  private String spilled = null;
  private final Set keptOfSpilled = new HashSet();

  /** The manifests that only these snapshots have, and the files that might be theirs alone; then those that others
   * reach are taken out again. If more than `most` entries of manifests are to be read for either, tasks of Spark do it,
   * and what they find is in a file at `spill`, so that this process holds none of it. */
  public void divide(Table table, List ids, JavaSparkContext spark, long most, String spill) throws Exception {
    TableMetadata metadata = open(table);
    for (int i = 0; i < ids.size(); i++) {
      expired.add(Long.valueOf(((Number) ids.get(i)).longValue())); // JSON makes small ones of another class
    }
    List snapshots = metadata.snapshots();
    run(LISTS, snapshots);
    Map kept = new LinkedHashMap();
    Set reached = new HashSet();
    for (int i = 0; i < snapshots.size(); i++) {
      Snapshot snapshot = (Snapshot) snapshots.get(i);
      seen.add(Long.valueOf(snapshot.snapshotId()));
      if (!expired.contains(Long.valueOf(snapshot.snapshotId()))) {
        put(kept, snapshot);
        walk(metadata, snapshot, reached);
      }
    }
    List removing = new ArrayList();
    List lost = new ArrayList();
    Set deleting = new HashSet();
    for (int i = 0; i < snapshots.size(); i++) {
      Snapshot snapshot = (Snapshot) snapshots.get(i);
      Long id = Long.valueOf(snapshot.snapshotId());
      boolean goes = expired.contains(id);
      if (goes) {
        put(gone, snapshot);
      }
      if (!reached.contains(id)) {
        lost.add(snapshot); // what it had may be nowhere else
      } else if (goes || (snapshot.parentId() != null && expired.contains(snapshot.parentId()))) {
        List manifests = manifestsOf(snapshot);
        for (int k = 0; k < manifests.size(); k++) {
          ManifestFile manifest = (ManifestFile) manifests.get(k);
          if (id.equals(manifest.snapshotId()) && manifest.hasDeletedFiles()) {
            removing.add(manifest);
            deleting.add(id);
          }
        }
      }
    }
    gone.keySet().removeAll(kept.keySet());
    Map whole = new LinkedHashMap();
    for (int i = 0; i < lost.size(); i++) {
      put(whole, (Snapshot) lost.get(i));
    }
    whole.keySet().retainAll(gone.keySet());
    lean.clear(); // what is needed of them is in `gone`, `removing` and `whole`
    removedIn = PartitionSet.create(specs);
    read.addAll(kept.keySet());
    List theirs = new ArrayList(whole.values());
    List others = new ArrayList(kept.values());
    boolean many = entriesOf(removing) + entriesOf(theirs) > most;
    if (!many) {
      run(REMOVED, removing);
      run(LIVE, theirs);
      others = doubtful(metadata, kept, expired, deleting, !theirs.isEmpty());
      many = entriesOf(others) > most;
    }
    if (many) {
      candidates.clear();
      subtract(spark, SerializableTable.copyOf(table), removing, theirs, others, spill);
      spilled = spill;
    } else {
      run(LIVE_IS_KEPT, others);
    }
  }

  private static long entriesOf(List manifests) {
    long sum = 0L;
    for (int i = 0; i < manifests.size(); i++) {
      ManifestFile manifest = (ManifestFile) manifests.get(i);
      Integer[] counts = {manifest.addedFilesCount(), manifest.existingFilesCount(), manifest.deletedFilesCount()};
      for (int k = 0; k < counts.length; k++) {
        sum += counts[k] == null ? manifest.length() / 300L : counts[k].longValue(); // very old ones do not say
      }
    }
    return sum;
  }

  // -- by tasks of Spark --------------------------------------------------------------------------

  private static void subtract(
      JavaSparkContext spark, Table table, List removing, List theirs, List others, String spill) throws Exception {
    long entries = entriesOf(removing) + entriesOf(theirs) + entriesOf(others);
    int parts = (int) Math.max(spark.defaultParallelism(), Math.min(10_000L, entries / 200_000L));
    Broadcast shared = spark.broadcast(table);
    OutputStream out = new BufferedOutputStream(new FileOutputStream(spill), 1 << 16);
    try {
      JavaPairRDD found = paths(spark, shared, removing, REMOVED).union(paths(spark, shared, theirs, LIVE));
      JavaPairRDD left = found.subtractByKey(paths(spark, shared, others, LIVE_IS_KEPT), parts);
      for (Iterator each = left.values().distinct(parts).toLocalIterator(); each.hasNext(); ) {
        out.write(((String) each.next()).getBytes(StandardCharsets.UTF_8));
        out.write(0);
      }
    } finally {
      out.close();
      shared.destroy();
    }
  }

  private static JavaPairRDD paths(JavaSparkContext spark, Broadcast table, List manifests, int work) {
    return spark.parallelize(manifests, Math.max(1, manifests.size())).flatMapToPair(new PathsOfManifest(table, work));
  }

  /** What a task does with a manifest. */
  public static final class PathsOfManifest implements PairFlatMapFunction {
    private final Broadcast table;
    private final int work;

    public PathsOfManifest(Broadcast table, int work) {
      this.table = table;
      this.work = work;
    }

    public Iterator call(Object manifest) throws Exception {
      return new PathsRead((Table) table.value(), (ManifestFile) manifest, work);
    }
  }

  /** Keys of the files in a manifest, each with the line that it is written down as. */
  public static final class PathsRead implements Iterator {
    private final boolean deletes;
    private final boolean removed;
    private final boolean described;
    private final ManifestReader reader;
    private final Iterator entries;
    private final Method isLive;
    private final Method file;
    private Tuple2 next;

    public PathsRead(Table table, ManifestFile manifest, int work) throws Exception {
      deletes = manifest.content() == ManifestContent.DELETES;
      removed = work == REMOVED;
      described = work != LIVE_IS_KEPT;
      isLive = ofEntry("isLive");
      file = ofEntry("file");
      reader = readerOf(manifest, table.io(), table.specs());
      List columns = new ArrayList(Arrays.asList(new Object[] {"file_path"}));
      if (described) {
        columns.add("file_size_in_bytes");
      }
      reader.select(columns);
      entries = ((CloseableIterable) ofReader(removed ? "entries" : "liveEntries").invoke(reader, new Object[0])).iterator();
      advance();
    }

    private void advance() {
      next = null;
      try {
        while (next == null && entries.hasNext()) {
          Object entry = entries.next();
          if (!removed || !((Boolean) isLive.invoke(entry, new Object[0])).booleanValue()) {
            ContentFile content = (ContentFile) file.invoke(entry, new Object[0]);
            next = new Tuple2(key(content.location()), described ? line(content, deletes) : "");
          }
        }
        if (next == null) {
          reader.close();
        }
      } catch (RuntimeException error) {
        throw error;
      } catch (Exception error) {
        throw new RuntimeException(error);
      }
    }

    public boolean hasNext() {
      return next != null;
    }

    public Object next() {
      Tuple2 found = next;
      advance();
      return found;
    }
  }

  private static String line(ContentFile content, boolean deletes) {
    return (deletes ? "P\t" : "D\t") + content.fileSizeInBytes() + "\t" + content.location();
  }

  /** Manifest lists are read with one request each: nobody knows how long they are, and Iceberg asks for that first. */
  private static final class ListsAtOnce implements FileIO {
    private final FileIO io;

    ListsAtOnce(FileIO io) {
      this.io = io;
    }

    public InputFile newInputFile(String path) {
      return new FileAtOnce(io.newInputFile(path));
    }

    public InputFile newInputFile(ManifestListFile list) {
      return new FileAtOnce(io.newInputFile(list));
    }

    public OutputFile newOutputFile(String path) {
      throw new UnsupportedOperationException("lists are only read");
    }

    public void deleteFile(String path) {
      throw new UnsupportedOperationException("lists are only read");
    }
  }

  /** A file that is read as a whole when it is asked for anything. */
  private static final class FileAtOnce implements InputFile {
    private final InputFile file;
    private byte[] content = null;

    FileAtOnce(InputFile file) {
      this.file = file;
    }

    private byte[] content() {
      if (content == null) {
        try {
          SeekableInputStream stream = file.newStream();
          try {
            content = stream.readAllBytes();
          } finally {
            stream.close();
          }
        } catch (IOException error) {
          throw new UncheckedIOException(error);
        }
      }
      return content;
    }

    public long getLength() {
      return content().length;
    }

    public SeekableInputStream newStream() {
      return ByteBufferInputStream.wrap(new ByteBuffer[] {ByteBuffer.wrap(content())});
    }

    public String location() {
      return file.location();
    }

    public boolean exists() {
      return file.exists();
    }
  }

  private static ManifestReader readerOf(ManifestFile manifest, FileIO io, Map specs) {
    return manifest.content() == ManifestContent.DELETES
        ? (ManifestReader) ManifestFiles.readDeleteManifest(manifest, io, specs)
        : (ManifestReader) ManifestFiles.read(manifest, io, specs);
  }

  private static Method ofReader(String name) throws Exception {
    Method found = ManifestReader.class.getDeclaredMethod(name, new Class[0]);
    found.setAccessible(true);
    return found;
  }

  private static Method ofEntry(String name) throws Exception {
    Class entry = Class.forName("org.apache.iceberg.ManifestEntry", true, Table.class.getClassLoader());
    Method found = entry.getDeclaredMethod(name, new Class[0]);
    found.setAccessible(true);
    return found;
  }

  // -- by threads of this process -----------------------------------------------------------------

  /** Manifests of snapshots that stay in which a candidate may be live. A file that one snapshot removed is in none that
   * was there before it, in that snapshot and those after it: only what came later can have it again. That is not so of
   * delete files, of which several may share a path; nor of a file that was added twice, which Iceberg removes only from
   * the manifest in which it was found: manifests with a partition of removed files are read, too. */
  private List doubtful(TableMetadata metadata, Map kept, Set expired, Set deleting, boolean any) {
    List found = new ArrayList();
    if (candidates.isEmpty()) {
      return found;
    }
    Snapshot newest = null;
    long oldest = Long.MAX_VALUE;
    for (Iterator each = deleting.iterator(); each.hasNext(); ) {
      Snapshot snapshot = metadata.snapshot(((Long) each.next()).longValue());
      oldest = Math.min(oldest, snapshot.sequenceNumber());
      if (newest == null || snapshot.sequenceNumber() > newest.sequenceNumber()) {
        newest = snapshot;
      }
    }
    boolean shortcut = !any && newest != null && oldest > 0L;
    if (shortcut) {
      Set before = new HashSet();
      walk(metadata, newest, before);
      shortcut = before.containsAll(deleting);
    }
    Set certain = new HashSet();
    if (shortcut) {
      Map after = new HashMap();
      after.put(Long.valueOf(newest.snapshotId()), Boolean.TRUE);
      Set others = new HashSet();
      List snapshots = metadata.snapshots();
      for (int i = 0; i < snapshots.size(); i++) {
        Snapshot snapshot = (Snapshot) snapshots.get(i);
        if (!expired.contains(Long.valueOf(snapshot.snapshotId())) && !comesAfter(metadata, snapshot, after)) {
          List manifests = snapshot.allManifests(io);
          for (int k = 0; k < manifests.size(); k++) {
            others.add(((ManifestFile) manifests.get(k)).path());
          }
        }
      }
      certain.addAll(kept.keySet());
      certain.removeAll(others);
    }
    for (Iterator each = kept.values().iterator(); each.hasNext(); ) {
      ManifestFile manifest = (ManifestFile) each.next();
      boolean deletes = manifest.content() == ManifestContent.DELETES;
      if (deletes
          || manifest.sequenceNumber() > oldest
          || !certain.contains(manifest.path())
          || !removedSpecs.contains(Integer.valueOf(manifest.partitionSpecId()))
          || ManifestFileUtil.canContainAny(manifest, removedIn, specs)) {
        found.add(manifest);
      }
    }
    return found;
  }

  private synchronized void removedIn(int spec, PartitionData partition) {
    removedSpecs.add(Integer.valueOf(spec));
    if (!removedIn.contains(spec, partition)) {
      removedIn.add(spec, partition.copy());
    }
  }

  private static boolean comesAfter(TableMetadata metadata, Snapshot snapshot, Map known) {
    List way = new ArrayList();
    Snapshot at = snapshot;
    Boolean answer = null;
    while (answer == null) {
      answer = at == null ? Boolean.FALSE : (Boolean) known.get(Long.valueOf(at.snapshotId()));
      if (answer == null) {
        way.add(Long.valueOf(at.snapshotId()));
        at = at.parentId() == null ? null : metadata.snapshot(at.parentId().longValue());
      }
    }
    for (int i = 0; i < way.size(); i++) {
      known.put(way.get(i), answer);
    }
    return answer.booleanValue();
  }

  /** Takes out what snapshots reach that have come since. If that fails, it can be done again. */
  public void lookAgain(Table table) throws Exception {
    TableMetadata metadata = open(table);
    List fresh = unseen(metadata);
    Map manifests = new LinkedHashMap();
    for (int i = 0; i < fresh.size(); i++) {
      put(manifests, (Snapshot) fresh.get(i));
    }
    gone.keySet().removeAll(manifests.keySet());
    manifests.keySet().removeAll(read);
    run(spilled == null ? LIVE_IS_KEPT : LIVE_IS_ADDED, new ArrayList(manifests.values()));
    sort();
    for (int i = 0; i < metadata.snapshots().size(); i++) {
      keep(((Snapshot) metadata.snapshots().get(i)).manifestListLocation());
    }
    markSeen(fresh, manifests);
  }

  /** Snapshots that were not looked at yet, their manifest lists read. */
  private List unseen(TableMetadata metadata) throws Exception {
    List fresh = new ArrayList();
    for (int i = 0; i < metadata.snapshots().size(); i++) {
      Snapshot snapshot = (Snapshot) metadata.snapshots().get(i);
      if (!seen.contains(Long.valueOf(snapshot.snapshotId()))) {
        fresh.add(snapshot);
      }
    }
    run(LISTS, fresh);
    return fresh;
  }

  private void markSeen(List snapshots, Map manifests) {
    for (int i = 0; i < snapshots.size(); i++) {
      seen.add(Long.valueOf(((Snapshot) snapshots.get(i)).snapshotId()));
    }
    read.addAll(manifests.keySet());
  }

  /** Candidates that somebody wrote down: lines of `kind, tab, size, tab, path`, each ended by a zero. */
  public void take(String path) throws Exception {
    String[] lines = new String(Files.readAllBytes(Paths.get(path, new String[0])), StandardCharsets.UTF_8).split("\0");
    for (int i = 0; i < lines.length; i++) {
      if (!lines[i].isEmpty()) {
        candidates.put(key(lines[i].substring(lines[i].indexOf('\t', 2) + 1)), lines[i]);
      }
    }
  }

  /** Takes out what is in the way of any manifest of the table by now. */
  public void takeOutManifests() {
    for (Iterator each = read.iterator(); each.hasNext(); ) {
      candidates.remove(key((String) each.next()));
    }
  }

  /** Takes a file out, if it is a candidate. */
  public void keep(String path) {
    candidates.remove(key(path));
    if (spilled != null) {
      keptOfSpilled.add(key(path));
    }
  }

  /** Writes the candidates that are left, then the manifests that only the expired snapshots have. */
  public void write(String path) throws Exception {
    OutputStream out = new BufferedOutputStream(new FileOutputStream(path), 1 << 16);
    try {
      for (Iterator each = candidates.values().iterator(); each.hasNext(); ) {
        out.write(((String) each.next()).getBytes(StandardCharsets.UTF_8));
        out.write(0);
      }
      if (spilled != null) {
        writeSpilled(out);
      }
      for (Iterator each = gone.values().iterator(); each.hasNext(); ) {
        ManifestFile manifest = (ManifestFile) each.next();
        out.write(("M\t" + manifest.length() + "\t" + manifest.path()).getBytes(StandardCharsets.UTF_8));
        out.write(0);
      }
    } finally {
      out.close();
    }
  }

  private void writeSpilled(OutputStream out) throws Exception {
    Scanner lines = new Scanner(Paths.get(spilled, new String[0]), StandardCharsets.UTF_8.name());
    try {
      lines.useDelimiter("\0");
      while (lines.hasNext()) {
        String line = lines.next();
        String path = line.substring(line.indexOf('\t', 2) + 1);
        if (!has(path) && !keptOfSpilled.contains(key(path))) {
          out.write(line.getBytes(StandardCharsets.UTF_8));
          out.write(0);
        }
      }
      if (lines.ioException() != null) {
        throw lines.ioException();
      }
    } finally {
      lines.close();
    }
  }

  private TableMetadata open(Table table) throws Exception {
    io = table.io();
    specs = table.specs();
    if (entries == null) {
      entries = ofReader("entries");
      liveEntries = ofReader("liveEntries");
      isLive = ofEntry("isLive");
      file = ofEntry("file");
    }
    return ((HasTableOperations) table).operations().current();
  }

  /** Of a snapshot that goes, without what they say of their partitions; see `leanManifests`. */
  private List manifestsOf(Snapshot snapshot) {
    List found = (List) lean.get(Long.valueOf(snapshot.snapshotId()));
    return found == null ? snapshot.allManifests(io) : found;
  }

  private void put(Map manifests, Snapshot snapshot) {
    List all = manifestsOf(snapshot);
    for (int i = 0; i < all.size(); i++) {
      manifests.put(((ManifestFile) all.get(i)).path(), all.get(i));
    }
  }

  private static void walk(TableMetadata metadata, Snapshot from, Set reached) {
    Snapshot at = from;
    while (at != null && reached.add(Long.valueOf(at.snapshotId()))) {
      at = at.parentId() == null ? null : metadata.snapshot(at.parentId().longValue());
    }
  }

  private void run(int what, List subjects) throws Exception {
    List tasks = new ArrayList(subjects.size());
    for (int i = 0; i < subjects.size(); i++) {
      Reachability task = new Reachability();
      task.owner = this;
      task.work = what;
      task.subject = subjects.get(i);
      tasks.add(task);
    }
    // Iceberg's own pool has a thread for each core, and most of the time they would wait for a store
    ExecutorService threads =
        Executors.newFixedThreadPool(Math.max(1, Math.min(tasks.size(), Math.max(READERS, ThreadPools.WORKER_THREAD_POOL_SIZE))));
    try {
      List futures = threads.invokeAll(tasks);
      for (int i = 0; i < futures.size(); i++) {
        try {
          ((Future) futures.get(i)).get();
        } catch (ExecutionException error) {
          if (error.getCause() instanceof Exception) {
            throw (Exception) error.getCause();
          }
          throw error;
        }
      }
    } finally {
      threads.shutdownNow();
    }
  }

  /** One manifest list, or one manifest. */
  public Object call() throws Exception {
    if (work == LISTS) {
      Snapshot snapshot = (Snapshot) subject;
      Long id = Long.valueOf(snapshot.snapshotId());
      if (owner.expired.contains(id) && snapshot.manifestListLocation() != null && snapshot.keyId() == null) {
        owner.lean.put(id, leanManifests(owner.io.newInputFile(snapshot.manifestListLocation())));
      } else {
        snapshot.allManifests(new ListsAtOnce(owner.io));
      }
    } else {
      owner.readManifest((ManifestFile) subject, work);
    }
    return null;
  }

  /** The manifests in a list as Iceberg reads them, but for what they say of their partitions: that is most of a list,
   * and only asked of manifests that stay. */
  private static List leanManifests(InputFile list) throws Exception {
    Schema whole = (Schema) ManifestFile.class.getMethod("schema", new Class[0]).invoke(null, new Object[0]);
    List fields = new ArrayList(whole.columns());
    for (Iterator each = fields.iterator(); each.hasNext(); ) {
      if (((Types.NestedField) each.next()).fieldId() == ManifestFile.PARTITION_SUMMARIES.fieldId()) {
        each.remove();
      }
    }
    CloseableIterable manifests =
        InternalData.read(FileFormat.AVRO, new FileAtOnce(list))
            .setRootType(GenericManifestFile.class)
            .project(new Schema(fields))
            .build();
    List found = new ArrayList();
    try {
      for (Iterator each = manifests.iterator(); each.hasNext(); ) {
        found.add(each.next());
      }
    } finally {
      manifests.close();
    }
    return found;
  }

  private void readManifest(ManifestFile manifest, int what) throws Exception {
    boolean deletes = manifest.content() == ManifestContent.DELETES;
    ManifestReader reader = readerOf(manifest, io, specs);
    boolean described = what == REMOVED || what == LIVE;
    List columns = new ArrayList();
    columns.add("file_path");
    if (described) {
      columns.add("file_size_in_bytes");
    }
    if (what == REMOVED && !deletes) {
      columns.add("partition");
    }
    long[] found = new long[what == LIVE_IS_ADDED ? 1024 : 0];
    int size = 0;
    try {
      reader.select(columns);
      CloseableIterable all =
          (CloseableIterable) (what == REMOVED ? entries : liveEntries).invoke(reader, new Object[0]);
      for (Iterator each = all.iterator(); each.hasNext(); ) {
        Object entry = each.next();
        if (what == REMOVED && ((Boolean) isLive.invoke(entry, new Object[0])).booleanValue()) {
          continue;
        }
        ContentFile content = (ContentFile) file.invoke(entry, new Object[0]);
        String path = content.location();
        if (described) {
          candidates.put(key(path), line(content, deletes));
          if (what == REMOVED && !deletes) {
            removedIn(content.specId(), (PartitionData) content.partition());
          }
        } else if (what == LIVE_IS_KEPT) {
          candidates.remove(key(path));
        } else {
          if (size == found.length) {
            found = Arrays.copyOf(found, 2 * size);
          }
          String spelled = asListed(path);
          found[size++] = number(spelled);
          note(path, spelled);
        }
      }
    } finally {
      reader.close();
    }
    if (what == LIVE_IS_ADDED) {
      add(found, size);
    }
  }

  // -- everything that is reachable, as numbers ---------------------------------------------------

  /** Adds what all snapshots of a table reach, their manifests and lists included; what was read before is not read
   * again. If that fails, it can be done again. */
  public void addAll(Table table) throws Exception {
    TableMetadata metadata = open(table);
    List fresh = unseen(metadata);
    Map manifests = new LinkedHashMap();
    for (int i = 0; i < fresh.size(); i++) {
      put(manifests, (Snapshot) fresh.get(i));
      addPath(((Snapshot) fresh.get(i)).manifestListLocation());
    }
    manifests.keySet().removeAll(read);
    for (Iterator each = manifests.keySet().iterator(); each.hasNext(); ) {
      addPath((String) each.next());
    }
    run(LIVE_IS_ADDED, new ArrayList(manifests.values()));
    markSeen(fresh, manifests);
    sort();
  }

  /** Adds one file; `sort` must follow. */
  public void addPath(String path) {
    if (path != null) {
      String spelled = asListed(path);
      add(new long[] {number(spelled)}, 1);
      note(path, spelled);
    }
  }

  /** After files were added one by one. */
  public void sort() {
    Arrays.sort(numbers, 0, count);
  }

  private synchronized void add(long[] more, int size) {
    if (count + size > numbers.length) {
      numbers = Arrays.copyOf(numbers, Math.max(2 * numbers.length, count + size));
    }
    System.arraycopy(more, 0, numbers, count, size);
    count += size;
  }

  /** Folders that will be listed. A file that seems to be in one of them, but on another store, cannot be compared. */
  public void watch(List folders) {
    roots = new String[folders.size()];
    behindRoots = new String[folders.size()];
    for (int i = 0; i < roots.length; i++) {
      String root = key((String) folders.get(i));
      roots[i] = root + "/";
      behindRoots[i] = behindStore(root) + "/";
    }
  }

  /** Files are on this machine: a folder may have several names there, and listings go by the real one. */
  public void followLinks() {
    realFolders = new ConcurrentHashMap();
  }

  /** A file as a listing of its real folder names it. */
  private String asListed(String path) {
    String spelled = key(path);
    int end = spelled.lastIndexOf('/');
    if (realFolders == null || !spelled.startsWith("/") || end <= 0) {
      return spelled;
    }
    String folder = spelled.substring(0, end);
    String real = (String) realFolders.get(folder);
    if (real == null) {
      try {
        real = Paths.get(folder, new String[0]).toRealPath(new LinkOption[0]).toString();
      } catch (IOException error) { // there is none
        real = Paths.get(folder, new String[0]).normalize().toString();
      } catch (InvalidPathException error) { // in this locale; that is refused for all of the table
        real = folder;
      }
      realFolders.put(folder, real);
    }
    return real + spelled.substring(end);
  }

  private void note(String path, String spelled) {
    odd |= isOdd(path);
    for (int i = 0; i < roots.length; i++) {
      if (!spelled.startsWith(roots[i]) && behindStore(spelled).startsWith(behindRoots[i])) {
        astray = path;
      }
    }
  }

  private static String behindStore(String path) {
    int end = path.indexOf("://");
    if (end < 0) {
      int colon = path.indexOf(":/");
      return colon < 0 ? path : path.substring(colon + 1);
    }
    int slash = path.indexOf('/', end + 3);
    return slash < 0 ? "/" : path.substring(slash);
  }

  /** A file that seems to be in one of the watched folders, but on another store; null if there is none. */
  public String astray() {
    return astray;
  }

  /** Whether a file is needed, for a listing. */
  public boolean test(Object path) {
    return has((String) path);
  }

  /** Whether a file is among those that were added. Another one may have its number, once in billions of times: then it
   * counts as reachable, too. */
  public boolean has(String path) {
    return Arrays.binarySearch(numbers, 0, count, number(key(path))) >= 0;
  }

  /** Of some files, which were added: a letter for each, `1` or `0`. */
  public String among(List paths) {
    StringBuilder found = new StringBuilder(paths.size());
    for (int i = 0; i < paths.size(); i++) {
      found.append(has((String) paths.get(i)) ? '1' : '0');
    }
    return found.toString();
  }

  /** Whether a path has letters that file systems may spell in several ways. */
  public boolean hasOdd() {
    return odd;
  }

  private static boolean isOdd(String path) {
    for (int i = 0; i < path.length(); i++) {
      if (path.charAt(i) > 126) {
        return true;
      }
    }
    return false;
  }

  private static long number(String path) {
    byte[] bytes = path.getBytes(StandardCharsets.UTF_8);
    long hash = 0xcbf29ce484222325L;
    for (int i = 0; i < bytes.length; i++) {
      hash = (hash ^ (bytes[i] & 0xffL)) * 0x100000001b3L;
    }
    hash ^= hash >>> 32;
    hash *= 0xd6e8feb86659fd93L;
    return hash ^ (hash >>> 32);
  }

  /** One spelling for all of one file: without what names the file system's client, as the store sees it. */
  public static String key(String path) {
    if (path == null) {
      return "";
    }
    int end = path.indexOf(':');
    String scheme = end > 0 && path.indexOf('/') == end + 1 ? path.substring(0, end).toLowerCase() : "";
    if (scheme.equals("s3a") || scheme.equals("s3n")) {
      return "s3" + path.substring(end);
    }
    if (scheme.equals("abfss") || scheme.equals("wasbs")) {
      return scheme.substring(0, scheme.length() - 1) + path.substring(end);
    }
    if (scheme.isEmpty() || scheme.equals("file")) {
      String rest = scheme.isEmpty() ? path : path.substring(end + 1);
      if (rest.startsWith("//") && !scheme.isEmpty()) {
        int slash = rest.indexOf('/', 2);
        String host = slash < 0 ? rest.substring(2) : rest.substring(2, slash);
        if (host.isEmpty() || host.equals("localhost")) {
          rest = slash < 0 ? "/" : rest.substring(slash);
        }
      }
      return slashes(rest);
    }
    return scheme.isEmpty() ? path : scheme + path.substring(end);
  }

  /** Without empty parts: local file systems know none. */
  private static String slashes(String path) {
    StringBuilder found = new StringBuilder(path.length());
    for (int i = 0; i < path.length(); i++) {
      if (path.charAt(i) != '/' || i == 0 || path.charAt(i - 1) != '/') {
        found.append(path.charAt(i));
      }
    }
    return found.toString();
  }
}

package icepact;

import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.Predicate;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.FileInfo;
import org.apache.iceberg.io.SupportsPrefixOperations;

/** Lists what is below a folder, and writes down what is old and nobody needs. It lists while somebody else still works
 * out what is needed: until that is known, it remembers so many files, and then it waits. Compiled at run time by Spark's
 * own compiler. */
public final class FileListing implements Callable {
  private final LinkOption[] noFollow = new LinkOption[] {LinkOption.NOFOLLOW_LINKS};
  private final CountDownLatch known = new CountDownLatch(1);
  private final FutureTask task = new FutureTask(this);
  private volatile Predicate needed = null;
  private final ArrayDeque waiting = new ArrayDeque();
  private int mostWaiting;
  private FileIO io;
  private boolean local;
  private List without;
  private List marks;
  private long before;
  private String root;
  private String file;
  private OutputStream out;
  private long listed = 0L;
  private long young = 0L;
  private long marked = 0L;
  private String unreadable = null;
  private boolean odd = false;

  /** `excluded` are folders that are left alone, ended by a slash, and `words` parts of paths that protect a file. Paths
   * are written as the store names them: size, time and path, each ended by a zero. At most `remembered` files wait. */
  public void begin(
      FileIO files,
      String folder,
      boolean isLocal,
      long cutoff,
      List excluded,
      List words,
      int remembered,
      String path) {
    mostWaiting = remembered;
    io = files;
    root = folder;
    local = isLocal;
    before = cutoff;
    without = excluded;
    marks = words;
    file = path;
    Thread thread = new Thread(task, "icepact-listing");
    thread.setDaemon(true);
    thread.start();
  }

  /** Says what is needed, and waits for the end. */
  public void end(Predicate isNeeded) throws Exception {
    needed = isNeeded;
    known.countDown();
    try {
      task.get();
    } catch (ExecutionException error) {
      if (error.getCause() instanceof Exception) {
        throw (Exception) error.getCause();
      }
      throw error;
    }
  }

  /** Ends it without an answer. */
  public void stop() {
    task.cancel(true);
  }

  public Object call() throws Exception {
    out = new BufferedOutputStream(new FileOutputStream(file), 1 << 16);
    try {
      if (local) {
        walk(root);
      } else if (io instanceof SupportsPrefixOperations) {
        for (Iterator each = ((SupportsPrefixOperations) io).listPrefix(root + "/").iterator(); each.hasNext(); ) {
          FileInfo info = (FileInfo) each.next();
          see(info.location(), info.size(), info.createdAtMillis());
        }
      } else {
        throw new UnsupportedOperationException("cannot be listed: " + io.getClass().getName());
      }
      judgeWaiting();
    } finally {
      out.close();
    }
    return null;
  }

  /** A local folder; links are not followed. Hadoop would start a process for each file. */
  private void walk(String folder) throws Exception {
    ArrayDeque folders = new ArrayDeque();
    if (Files.isDirectory(Paths.get(folder, new String[0]), new LinkOption[0])) {
      folders.add(Paths.get(folder, new String[0]));
    }
    while (!folders.isEmpty()) {
      DirectoryStream inside;
      try {
        inside = Files.newDirectoryStream((Path) folders.removeLast());
      } catch (NoSuchFileException error) { // gone since its parent was listed
        continue;
      }
      try {
        for (Iterator each = inside.iterator(); each.hasNext(); ) {
          meet((Path) each.next(), folders);
        }
      } finally {
        inside.close();
      }
    }
  }

  private void meet(Path path, ArrayDeque folders) throws Exception {
    BasicFileAttributes facts;
    try {
      facts = Files.readAttributes(path, BasicFileAttributes.class, noFollow);
    } catch (NoSuchFileException error) { // writers remove files of their own at any time
      return;
    }
    if (facts.isDirectory()) {
      folders.add(path);
    } else if (facts.isRegularFile()) {
      see(path.toString(), facts.size(), facts.lastModifiedTime().toMillis());
    }
  }

  private void see(String path, long size, long written) throws Exception {
    if (isHidden(path)) {
      return;
    }
    listed++;
    for (int i = 0; i < path.length(); i++) {
      char letter = path.charAt(i);
      if (letter == '\uFFFD' || (!root.startsWith("/") && (letter == '?' || letter == '#'))) {
        unreadable = path; // of an address of S3, Iceberg drops what follows one of these: another file would be meant
      }
      odd |= path.charAt(i) > 126;
    }
    if (needed == null && waiting.size() < mostWaiting) {
      waiting.add(new Object[] {path, Long.valueOf(size), Long.valueOf(written)});
      return;
    }
    judgeWaiting();
    judge(path, size, written);
  }

  /** Those that were seen before anybody knew what is needed. */
  private void judgeWaiting() throws Exception {
    known.await();
    while (!waiting.isEmpty()) {
      Object[] seen = (Object[]) waiting.remove();
      judge((String) seen[0], ((Long) seen[1]).longValue(), ((Long) seen[2]).longValue());
    }
  }

  private void judge(String path, long size, long written) throws Exception {
    if (needed.test(path)) {
      return;
    }
    if (written >= before) {
      young++;
      return;
    }
    for (int i = 0; i < marks.size(); i++) {
      if (path.indexOf((String) marks.get(i)) >= 0) {
        marked++;
        return;
      }
    }
    for (int i = 0; i < without.size(); i++) {
      if ((path + "/").startsWith((String) without.get(i))) {
        return;
      }
    }
    out.write((size + "\t" + written + "\t" + path).getBytes(StandardCharsets.UTF_8));
    out.write(0);
  }

  /** Whether a part of a path below the root is hidden, as those of other systems in the same folder are; folders of
   * partitions never are. */
  private boolean isHidden(String path) {
    int at = root.length() + 1;
    while (at > 0 && at < path.length()) {
      int end = path.indexOf('/', at);
      char first = path.charAt(at);
      int equals = path.indexOf('=', at);
      boolean partition = equals >= 0 && end >= 0 && equals < end;
      if ((first == '_' || first == '.') && !partition) {
        return true;
      }
      at = end < 0 ? -1 : end + 1;
    }
    return false;
  }

  /** Files that were listed, the hidden ones aside. */
  public long listed() {
    return listed;
  }

  /** Files that nobody needs and that are too young. */
  public long young() {
    return young;
  }

  /** Files that nobody needs and that a word protects. */
  public long marked() {
    return marked;
  }

  /** A path with letters that this Java cannot read; null if there is none. */
  public String unreadable() {
    return unreadable;
  }

  /** Whether a path has letters that file systems may spell in several ways. */
  public boolean hasOdd() {
    return odd;
  }
}

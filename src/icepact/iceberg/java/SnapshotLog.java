package icepact;

import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.Snapshot;

/** All snapshots of a table, and the paths of manifests, written to a file in one call. */
public final class SnapshotLog {

  /** The paths of manifests, one on each line. */
  public void paths(List manifests, String file) throws Exception {
    StringBuilder lines = new StringBuilder();
    for (Iterator each = manifests.iterator(); each.hasNext(); ) {
      lines.append(((ManifestFile) each.next()).path()).append('\n');
    }
    write(lines, file);
  }

  /**
   * Snapshots, one on each line: id, parent, sequence number and time, parted by tabs. Where the summary has the first
   * fact as "true", the other facts follow.
   */
  public void snapshots(List snapshots, List facts, String file) throws Exception {
    StringBuilder lines = new StringBuilder();
    for (Iterator each = snapshots.iterator(); each.hasNext(); ) {
      Snapshot snapshot = (Snapshot) each.next();
      Long parent = snapshot.parentId();
      Map summary = snapshot.summary();
      lines.append(snapshot.snapshotId()).append('\t').append(parent == null ? "" : parent.toString());
      lines.append('\t').append(snapshot.sequenceNumber()).append('\t').append(snapshot.timestampMillis());
      if (summary != null && "true".equals(summary.get(facts.get(0)))) {
        for (int i = 1; i < facts.size(); i++) {
          Object fact = summary.get(facts.get(i));
          lines.append('\t').append(fact == null ? "" : fact.toString());
        }
      }
      lines.append('\n');
    }
    write(lines, file);
  }

  private static void write(StringBuilder lines, String file) throws Exception {
    FileOutputStream out = new FileOutputStream(file);
    try {
      out.write(lines.toString().getBytes(StandardCharsets.UTF_8));
    } finally {
      out.close();
    }
  }
}

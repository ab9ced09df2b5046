package lying;

import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/** A catalog whose first answers to commits are not what it did. */
public class LyingOperations implements TableOperations {
  private final TableOperations real;
  private final String lie;
  private int lies;

  public LyingOperations(TableOperations real, String lie, int lies) {
    this.real = real;
    this.lie = lie;
    this.lies = lies;
  }

  public void commit(TableMetadata base, TableMetadata metadata) {
    if (lies <= 0) {
      real.commit(base, metadata);
      return;
    }
    lies--;
    if (lie.startsWith("landed")) {
      real.commit(base, metadata);
    }
    if (lie.contains("renamed")) { // somebody else gives names to columns at once
      TableMetadata now = real.refresh();
      Map properties = new HashMap(now.properties());
      properties.put("schema.name-mapping.default", "[]");
      real.commit(now, now.replaceProperties(properties));
    }
    if (lie.endsWith("unknown")) {
      throw new CommitStateUnknownException(new RuntimeException("the connection broke"));
    }
    if (lie.endsWith("failed")) {
      throw new CommitFailedException("somebody was faster", new Object[0]);
    }
    if (lie.endsWith("forbidden")) {
      throw new ForbiddenException("no", new Object[0]);
    }
    throw new IllegalStateException("out of memory");
  }

  public TableMetadata current() {
    return real.current();
  }

  public TableMetadata refresh() {
    return real.refresh();
  }

  public FileIO io() {
    return real.io();
  }

  public EncryptionManager encryption() {
    return real.encryption();
  }

  public String metadataFileLocation(String name) {
    return real.metadataFileLocation(name);
  }

  public LocationProvider locationProvider() {
    return real.locationProvider();
  }

  public TableOperations temp(TableMetadata uncommitted) {
    return real.temp(uncommitted);
  }

  public long newSnapshotId() {
    return real.newSnapshotId();
  }

  public boolean requireStrictCleanup() {
    return real.requireStrictCleanup();
  }
}

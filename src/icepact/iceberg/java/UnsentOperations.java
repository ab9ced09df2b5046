package icepact;

import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/** Operations of a table as it is now, whose commits are sent to nobody. */
public final class UnsentOperations implements TableOperations {
  private TableOperations real;
  private TableMetadata metadata;

  /** To be called once, before all else. */
  public UnsentOperations of(TableOperations operations) {
    real = operations;
    metadata = operations.current();
    return this;
  }

  public TableMetadata current() {
    return metadata;
  }

  public TableMetadata refresh() {
    return metadata;
  }

  public void commit(TableMetadata base, TableMetadata updated) {}

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
}

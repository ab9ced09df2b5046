package icepact;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local files, with permissions set and read by Java. Hadoop itself starts `chmod` for each file that it
 * writes, and `ls` for each whose permissions are asked for, unless its native library is there. */
public final class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  public static final class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
      if (permission.getStickyBit()) { // which Java does not know
        super.setPermission(path, permission);
        return;
      }
      String letters = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
          + permission.getOtherAction().SYMBOL;
      try {
        Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(letters));
      } catch (UnsupportedOperationException odd) { // a file system without them
        super.setPermission(path, permission);
      }
    }

    public FileStatus getFileStatus(Path path) throws IOException {
      FileStatus known = super.getFileStatus(path);
      java.nio.file.Path file = pathToFile(path).toPath();
      try {
        Set all = Files.getPosixFilePermissions(file, new LinkOption[0]);
        return new Known(known, PosixFilePermissions.toString(all), file);
      } catch (NoSuchFileException gone) { // since its length was asked for
        throw new FileNotFoundException(path + " does not exist");
      } catch (UnsupportedOperationException odd) {
        return known;
      }
    }
  }

  /** A status that asks whose a file is only when somebody wants to know. */
  public static final class Known extends FileStatus {
    private final java.nio.file.Path file;

    public Known(FileStatus known, String letters, java.nio.file.Path file) throws IOException {
      super(known.getLen(), known.isDirectory(), known.getReplication(), known.getBlockSize(),
          known.getModificationTime(), known.getAccessTime(),
          FsPermission.valueOf((known.isDirectory() ? "d" : "-") + letters), "", "", known.getPath());
      this.file = file;
    }

    public String getOwner() {
      try {
        return attributes().owner().getName();
      } catch (IOException gone) {
        return "";
      }
    }

    public String getGroup() {
      try {
        return attributes().group().getName();
      } catch (IOException gone) {
        return "";
      }
    }

    private PosixFileAttributes attributes() throws IOException {
      return (PosixFileAttributes) Files.readAttributes(file, PosixFileAttributes.class, new LinkOption[0]);
    }
  }
}

package frugal;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local files, with permissions set and read by Java rather than by a process for each file. */
public final class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  public static final class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
      String letters = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
          + permission.getOtherAction().SYMBOL;
      Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(letters));
    }

    public FileStatus getFileStatus(Path path) throws IOException {
      FileStatus told = super.getFileStatus(path);
      String letters = letters(path);
      return new FileStatus(told.getLen(), told.isDirectory(), told.getReplication(), told.getBlockSize(),
          told.getModificationTime(), told.getAccessTime(), FsPermission.valueOf((told.isDirectory() ? "d" : "-") + letters),
          "", "", told.getPath());
    }

    private String letters(Path path) throws IOException {
      try {
        return PosixFilePermissions.toString(Files.getPosixFilePermissions(pathToFile(path).toPath()));
      } catch (NoSuchFileException gone) { // since its length was asked for
        throw new FileNotFoundException(path + " does not exist");
      }
    }
  }
}

package icepact;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.iceberg.aws.s3.S3FileIO;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.Delete;
import software.amazon.awssdk.services.s3.model.DeleteObjectsRequest;
import software.amazon.awssdk.services.s3.model.DeleteObjectsResponse;
import software.amazon.awssdk.services.s3.model.ObjectIdentifier;

/** Deletes many objects with several requests under way. All S3FileIOs of a JVM share one pool, as large as whoever
 * deleted first wanted it to be; this has threads of its own. Instances that are tasks for threads hold one request.
 * Compiled at run time by Spark's own compiler. */
public final class S3Deletion implements Callable {
  private S3Client client;
  private String bucket;
  private final List keys = new ArrayList();

  /** Whether it is certain that all of these are gone. */
  public boolean delete(S3FileIO io, List paths, int most, int atOnce) throws Exception {
    List requests = requests(io, paths, most);
    ExecutorService pool = Executors.newFixedThreadPool(Math.max(1, Math.min(atOnce, requests.size())));
    try {
      List under = new ArrayList();
      for (int i = 0; i < requests.size(); i++) {
        under.add(pool.submit((Callable) requests.get(i)));
      }
      boolean gone = true;
      for (int i = 0; i < under.size(); i++) {
        gone &= ((Boolean) ((Future) under.get(i)).get()).booleanValue();
      }
      return gone;
    } finally {
      pool.shutdownNow();
    }
  }

  private static List requests(S3FileIO io, List paths, int most) {
    List made = new ArrayList();
    Map byClient = new IdentityHashMap();
    for (int i = 0; i < paths.size(); i++) {
      String path = (String) paths.get(i);
      int start = path.indexOf("://") + 3;
      int slash = path.indexOf('/', start);
      if (start < 3 || slash < 0) {
        throw new IllegalArgumentException("not the address of an object: " + path);
      }
      S3Client client = io.client(path);
      Map byBucket = (Map) byClient.get(client);
      if (byBucket == null) {
        byBucket = new LinkedHashMap();
        byClient.put(client, byBucket);
      }
      String bucket = path.substring(start, slash);
      S3Deletion open = (S3Deletion) byBucket.get(bucket);
      if (open == null || open.keys.size() >= most) {
        open = new S3Deletion();
        open.client = client;
        open.bucket = bucket;
        byBucket.put(bucket, open);
        made.add(open);
      }
      open.keys.add(path.substring(slash + 1));
    }
    return made;
  }

  /** Makes one request; whether it is certain that its objects are gone. */
  public Object call() {
    List objects = new ArrayList();
    for (Iterator each = keys.iterator(); each.hasNext(); ) {
      objects.add((ObjectIdentifier) ObjectIdentifier.builder().key((String) each.next()).build());
    }
    try {
      Delete delete = (Delete) Delete.builder().objects(objects).quiet(Boolean.TRUE).build();
      DeleteObjectsRequest request =
          (DeleteObjectsRequest) DeleteObjectsRequest.builder().bucket(bucket).delete(delete).build();
      DeleteObjectsResponse answer = client.deleteObjects(request);
      return Boolean.valueOf(!answer.hasErrors() || answer.errors().isEmpty());
    } catch (RuntimeException error) { // whoever asks looks which are still there, and tries again
      return Boolean.FALSE;
    }
  }
}

package icepact;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.util.ThreadPools;

/** Scan tasks of some partitions, as Iceberg's own scan plans them, from the manifests that have any. */
public final class PartitionScan implements Predicate {
  private final Map wanted = new HashMap();
  private Method file;

  /** One data file of each partition that is wanted. */
  public List plan(Table table, List dataManifests, List deleteManifests, List examples) throws Exception {
    for (Iterator each = examples.iterator(); each.hasNext(); ) {
      ContentFile example = (ContentFile) each.next();
      Integer spec = Integer.valueOf(example.specId());
      if (wanted.get(spec) == null) {
        wanted.put(spec, new HashSet());
      }
      ((Set) wanted.get(spec)).add(values((StructLike) example.partition()));
    }
    ClassLoader loader = Table.class.getClassLoader();
    Class group = Class.forName("org.apache.iceberg.ManifestGroup", true, loader);
    file = Class.forName("org.apache.iceberg.ManifestEntry", true, loader).getDeclaredMethod("file", new Class[0]);
    file.setAccessible(true);
    Method columns =
        Class.forName("org.apache.iceberg.BaseScan", true, loader)
            .getDeclaredMethod("scanColumns", new Class[] {ManifestContent.class});
    columns.setAccessible(true);
    Constructor make = group.getDeclaredConstructor(new Class[] {FileIO.class, Iterable.class, Iterable.class});
    make.setAccessible(true);
    Object scan = make.newInstance(new Object[] {table.io(), dataManifests, deleteManifests});
    call(group, scan, "schemasById", Map.class, table.schemas()); // deletes may ask for columns that were dropped
    call(group, scan, "specsById", Map.class, table.specs());
    call(group, scan, "select", List.class, columns.invoke(null, new Object[] {ManifestContent.DATA}));
    call(group, scan, "filterManifestEntries", Predicate.class, this);
    call(group, scan, "ignoreDeleted", null, null);
    call(group, scan, "ignoreResiduals", null, null);
    call(group, scan, "planWith", java.util.concurrent.ExecutorService.class, ThreadPools.getWorkerPool());
    CloseableIterable tasks = (CloseableIterable) call(group, scan, "planFiles", null, null);
    List found = new ArrayList();
    try {
      for (Iterator each = tasks.iterator(); each.hasNext(); ) {
        found.add(each.next());
      }
    } finally {
      tasks.close();
    }
    return found;
  }

  /** Whether an entry of a manifest is of a partition that is wanted. */
  public boolean test(Object entry) {
    try {
      ContentFile live = (ContentFile) file.invoke(entry, new Object[0]);
      Set inside = (Set) wanted.get(Integer.valueOf(live.specId()));
      return inside != null && inside.contains(values((StructLike) live.partition()));
    } catch (Exception error) {
      throw new RuntimeException(error);
    }
  }

  private static List values(StructLike partition) {
    List found = new ArrayList(partition.size());
    for (int i = 0; i < partition.size(); i++) {
      found.add(partition.get(i, Object.class));
    }
    return found;
  }

  private static Object call(Class owner, Object target, String name, Class type, Object argument) throws Exception {
    Method method = owner.getDeclaredMethod(name, type == null ? new Class[0] : new Class[] {type});
    method.setAccessible(true);
    return method.invoke(target, type == null ? new Object[0] : new Object[] {argument});
  }
}

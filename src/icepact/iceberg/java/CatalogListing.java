package icepact;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/** Lists the tables of one of Spark's catalogs, all of them in one call. Spark's own statements list one namespace, and
 * are parsed, planned and carried out as queries. Compiled at run time by Spark's own compiler. */
public final class CatalogListing {

  /** The levels of the name of every table, nested namespaces included. */
  public List tables(Object catalog) throws Exception {
    SupportsNamespaces spaces = (SupportsNamespaces) catalog;
    List tables = new ArrayList();
    HashSet seen = new HashSet();
    ArrayDeque queue = new ArrayDeque();
    enqueue(spaces.listNamespaces(), seen, queue);
    while (!queue.isEmpty()) {
      String[] namespace = (String[]) queue.removeLast();
      enqueue(spaces.listNamespaces(namespace), seen, queue);
      Identifier[] inside = ((TableCatalog) catalog).listTables(namespace);
      for (int i = 0; i < inside.length; i++) {
        List levels = new ArrayList(Arrays.asList(namespace));
        levels.add(inside[i].name());
        tables.add(levels);
      }
    }
    return tables;
  }

  private static void enqueue(String[][] namespaces, HashSet seen, ArrayDeque queue) {
    for (int i = 0; i < namespaces.length; i++) {
      if (seen.add(Arrays.asList(namespaces[i]))) {
        queue.add(namespaces[i]);
      }
    }
  }
}

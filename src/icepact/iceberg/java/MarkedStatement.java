package icepact;

import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.iceberg.spark.CommitMetadata;
import org.apache.spark.sql.SparkSession;

/** A statement of Spark's SQL whose commits carry facts in their summaries. */
public final class MarkedStatement implements Callable {
  private SparkSession session;
  private String sql;

  /** Runs a statement to its end; commits that it makes are of this thread, and find the facts there. */
  public void run(SparkSession on, String statement, Map facts) throws Exception {
    session = on;
    sql = statement;
    CommitMetadata.withCommitProperties(facts, this, Exception.class);
  }

  public Object call() throws Exception {
    session.sql(sql);
    return null;
  }
}

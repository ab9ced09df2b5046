package lossy;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.SQLNonTransientConnectionException;
import java.sql.SQLTimeoutException;
import java.sql.SQLTransientConnectionException;
import java.util.Properties;
import java.util.function.Function;

/** A JDBC driver for addresses "jdbc:lossy:...": that of "jdbc:...", which says that something failed when it is told to. */
public final class Lossy implements Driver {
  private static final String PREFIX = "jdbc:lossy:";

  /**
   * Asked with "before" or "after" and the statement, whenever one is carried out; answers with an SQLSTATE, or with
   * nothing if all is well.
   */
  public static volatile Function rule = null;

  static {
    try {
      DriverManager.registerDriver(new Lossy());
    } catch (SQLException e) {
      throw new RuntimeException(e);
    }
  }

  public static void ruled(Function by) {
    rule = by;
  }

  public Connection connect(String url, Properties info) throws SQLException {
    if (!acceptsURL(url)) {
      return null;
    }
    Object real = DriverManager.getConnection("jdbc:" + url.substring(PREFIX.length()), info);
    return (Connection) wrapped(real, Connection.class, null);
  }

  static Object wrapped(Object real, Class as, String sql) {
    return Proxy.newProxyInstance(Lossy.class.getClassLoader(), new Class[] {as}, new Through(real, sql));
  }

  static void failed(String when, String sql) throws SQLException {
    Function by = rule;
    Object state = by == null ? null : by.apply(when + " " + sql);
    if (state == null) {
      return;
    }
    String told = "lost on purpose " + when + " it was carried out";
    String code = state.toString();
    if (code.equals("timeout")) {
      throw new SQLTimeoutException(told);
    }
    if (code.equals("transient")) {
      throw new SQLTransientConnectionException(told);
    }
    if (code.startsWith("08")) {
      throw new SQLNonTransientConnectionException(told, code);
    }
    throw new SQLException(told, code);
  }

  public boolean acceptsURL(String url) {
    return url.startsWith(PREFIX);
  }

  public DriverPropertyInfo[] getPropertyInfo(String url, Properties info) {
    return new DriverPropertyInfo[0];
  }

  public int getMajorVersion() {
    return 1;
  }

  public int getMinorVersion() {
    return 0;
  }

  public boolean jdbcCompliant() {
    return false;
  }

  public java.util.logging.Logger getParentLogger() throws SQLFeatureNotSupportedException {
    throw new SQLFeatureNotSupportedException();
  }

  private static final class Through implements InvocationHandler {
    private final Object real;
    private final String sql;

    Through(Object real, String sql) {
      this.real = real;
      this.sql = sql;
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
      boolean carriesOut = sql != null && method.getName().startsWith("execute");
      if (carriesOut) {
        failed("before", sql);
      }
      Object answer;
      try {
        answer = method.invoke(real, arguments);
      } catch (InvocationTargetException e) {
        throw e.getTargetException();
      }
      if (carriesOut) {
        failed("after", sql);
      }
      if (method.getName().equals("prepareStatement")) {
        return wrapped(answer, PreparedStatement.class, (String) arguments[0]);
      }
      return answer;
    }
  }
}

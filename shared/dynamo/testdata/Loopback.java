import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** DynamoDB Local on 127.0.0.1 alone (by itself it listens on every address), until standard input ends. */
public class Loopback {
  public static void main(String[] args) throws Exception {
    System.setProperty("org.eclipse.jetty.LEVEL", "WARN");
    var local = ServerRunner.createServerFromCommandLineArgs(args);
    var field = local.getClass().getDeclaredField("server");
    field.setAccessible(true);
    for (Connector c : ((Server) field.get(local)).getConnectors()) {
      ((ServerConnector) c).setHost("127.0.0.1");
    }
    local.start();
    System.out.println("listening");
    while (System.in.read() >= 0) {}
    Runtime.getRuntime().halt(0);
  }
}

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.LongAdder;

/** HttpServing PORT: an HTTP server with four threads and some garbage for each request. */
public class HttpServing {
    public static void main(String[] args) throws Exception {
        ConcurrentHashMap<String, LongAdder> counts = new ConcurrentHashMap<>();
        ExecutorService pool = Executors.newFixedThreadPool(4);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0])), 64);
        server.createContext("/", exchange -> {
            String path = exchange.getRequestURI().getPath();
            counts.computeIfAbsent(path, key -> new LongAdder()).increment();
            StringBuilder text = new StringBuilder();
            for (int i = 0; i < 200; i++) text.append(i).append(' ').append(path).append('\n');
            byte[] body = text.toString().getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.setExecutor(pool);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            server.stop(0);
            pool.shutdown();
            System.out.println("served " + counts.values().stream().mapToLong(LongAdder::sum).sum());
        }));
        server.start();
    }
}

// Ten requests at a time from a client to a server with four threads, each in a node of its own.
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.*;
import java.util.*;
import java.util.concurrent.*;

public class Pages {
    static void serve() throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(80), 0);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            byte[] page = ("page " + exchange.getRequestURI()).getBytes();
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            serve();
            return;
        }
        Thread.sleep(3000);
        HttpClient client = HttpClient.newHttpClient();
        List<CompletableFuture<String>> pages = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            var request = HttpRequest.newBuilder(URI.create("http://server/" + i)).build();
            var handler = HttpResponse.BodyHandlers.ofString();
            pages.add(client.sendAsync(request, handler).thenApply(HttpResponse::body));
        }
        for (var page : pages)
            System.out.println(page.get());
        System.exit(0);
    }
}

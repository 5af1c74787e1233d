// Asks a server in another node, by both of the language's clients.
import java.net.*;
import java.util.Collections;

public class client {
    public static void main(String[] arguments) throws Exception {
        Thread.sleep(3000);
        long began = System.nanoTime();
        URLConnection connection = new URL("http://server/one").openConnection();
        connection.setReadTimeout(2000);
        System.out.println(new String(connection.getInputStream().readAllBytes()));
        var request = java.net.http.HttpRequest.newBuilder(URI.create("http://server/two")).build();
        var handler = java.net.http.HttpResponse.BodyHandlers.ofString();
        System.out.println(java.net.http.HttpClient.newHttpClient().send(request, handler).body());
        System.out.println("took " + (System.nanoTime() - began) / 1_000_000 + " ms");
        for (NetworkInterface one : Collections.list(NetworkInterface.getNetworkInterfaces()))
            System.out.println(one.getName() + " " + one.isUp() + " " + Collections.list(one.getInetAddresses()).size());
    }
}

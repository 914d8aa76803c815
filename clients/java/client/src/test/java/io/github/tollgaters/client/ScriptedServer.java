package io.github.tollgaters.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** A server on raw sockets, which answers each request as a test says. */
final class ScriptedServer implements AutoCloseable {
    static final String ADMITTED = answer("{\"allowed\":true,\"source\":\"store\"}");

    /** Plays one request, which was read whole; an exception closes its connection. */
    interface Play {
        void run(Socket socket, int request) throws Exception;
    }

    final AtomicInteger connections = new AtomicInteger();
    final AtomicInteger requests = new AtomicInteger();
    /** The connections that the client has not closed. */
    final AtomicInteger open = new AtomicInteger();
    private final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
    private final ServerSocket listener;
    private final Play play;

    ScriptedServer(Play play) throws IOException {
        this.play = play;
        listener = new ServerSocket(0, 200, InetAddress.getLoopbackAddress());
        inThread(this::accept);
    }

    /** A server that sends the same bytes to each request. */
    static ScriptedServer sending(String answer) throws IOException {
        return new ScriptedServer((socket, request) -> send(socket, answer));
    }

    static void send(Socket socket, String text) throws IOException {
        OutputStream out = socket.getOutputStream();
        out.write(text.getBytes(StandardCharsets.UTF_8));
        out.flush();
    }

    static String answer(String body) {
        return "HTTP/1.1 200 OK\r\nContent-Length: " + body.getBytes(StandardCharsets.UTF_8).length + "\r\n\r\n" + body;
    }

    private interface Work {
        void run() throws Exception;
    }

    private static void inThread(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception ended) {
                // With its socket.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() throws IOException {
        for (;;) {
            Socket socket = listener.accept();
            connections.incrementAndGet();
            open.incrementAndGet();
            sockets.add(socket);
            inThread(() -> serve(socket));
        }
    }

    private void serve(Socket socket) throws Exception {
        try (socket) {
            while (readRequest(socket.getInputStream())) {
                play.run(socket, requests.getAndIncrement());
            }
        } finally {
            open.decrementAndGet();
        }
    }

    private static boolean readRequest(InputStream in) throws IOException {
        StringBuilder head = new StringBuilder();
        while (head.indexOf("\r\n\r\n") < 0) {
            int next = in.read();
            if (next < 0) {
                return false;
            }
            head.append((char) next);
        }
        String length = head.toString().replaceAll("(?s).*Content-Length: (\\d+).*", "$1");
        return in.readNBytes(Integer.parseInt(length)).length == Integer.parseInt(length);
    }

    String url() {
        return "http://127.0.0.1:" + listener.getLocalPort();
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (Socket socket : sockets) {
            socket.close();
        }
    }
}

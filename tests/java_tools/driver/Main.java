import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Stock Kafka clients behind a line-oriented JSON loop: one command per line on standard input, one answer
 * per line on standard output, in the order in which they finish.
 *
 * <p>A command is {@code {"id", "session", "op", "args"}}. The session "" knows {@code open} and {@code
 * close}; every opened session is one client with a separate thread, so two consumers of a group can
 * rebalance while both poll. The program ends when its input does.
 */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Map<String, Session> sessions = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
    private final PrintStream answers;

    private Main(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Main driver = new Main(answers);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            driver.accept(JSON.readTree(line));
        }
        // Clients that still wait for a broker must not keep the program alive.
        Runtime.getRuntime().halt(0);
    }

    private void accept(JsonNode command) {
        String session = command.get("session").asText();
        String op = command.get("op").asText();
        if (op.equals("wakeup")) {
            answer(command, () -> sessions.get(session).wakeup());
            return;
        }
        String thread = op.equals("open") || op.equals("close") ? command.get("args").get("name").asText() : session;
        threads.computeIfAbsent(thread, name -> Executors.newSingleThreadExecutor(work -> new Thread(work, name)))
            .execute(() -> answer(command, () -> run(session, op, command.get("args"))));
    }

    private Object run(String session, String op, JsonNode args) throws Exception {
        if (!session.isEmpty()) {
            return sessions.get(session).run(op, args);
        }
        String name = args.get("name").asText();
        if (op.equals("open")) {
            Map<String, Object> config = Values.map(args.get("config"), JsonNode::asText);
            sessions.put(name, Session.open(args.get("kind").asText(), config));
        } else {
            Session closing = sessions.remove(name);
            ExecutorService thread = threads.remove(name);
            try {
                closing.close();
            } finally {
                thread.shutdown();
            }
        }
        return null;
    }

    private void answer(JsonNode command, Work work) {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("id", command.get("id"));
        try {
            answer.set("ok", JSON.valueToTree(work.run()));
        } catch (Throwable failure) {
            answer.set("error", JSON.valueToTree(Values.error(failure)));
        }
        synchronized (answers) {
            answers.println(answer);
        }
    }

    private interface Work {
        Object run() throws Exception;
    }
}

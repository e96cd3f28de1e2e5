import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;

/** One open client. All but {@code wakeup} is called from the session's own thread. */
interface Session {
    Object run(String op, JsonNode args) throws Exception;

    void close();

    default Object wakeup() {
        throw new UnsupportedOperationException("only a consumer can be woken up");
    }

    static Session open(String kind, Map<String, Object> config) {
        switch (kind) {
            case "admin":
                return new AdminSession(config);
            case "producer":
                return new ProducerSession(config);
            case "consumer":
                return new ConsumerSession(config);
            default:
                throw new IllegalArgumentException("no client of kind " + kind);
        }
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;

/** Kafka's values as JSON and back. Partitions are written "orders-0"; keys and values are base64. */
final class Values {
    private Values() {}

    static TopicPartition partition(String text) {
        int dash = text.lastIndexOf('-');
        return new TopicPartition(text.substring(0, dash), Integer.parseInt(text.substring(dash + 1)));
    }

    static byte[] bytes(JsonNode node) {
        return absent(node) ? null : Base64.getDecoder().decode(node.asText());
    }

    static String base64(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    static boolean absent(JsonNode node) {
        return node == null || node.isNull();
    }

    static boolean flag(JsonNode args, String name) {
        return !absent(args.get(name)) && args.get(name).asBoolean();
    }

    static String text(JsonNode args, String name) {
        return absent(args.get(name)) ? null : args.get(name).asText();
    }

    static <T> List<T> list(JsonNode array, Function<JsonNode, T> item) {
        List<T> items = new ArrayList<>();
        if (!absent(array)) {
            array.forEach(node -> items.add(item.apply(node)));
        }
        return items;
    }

    static List<String> strings(JsonNode array) {
        return list(array, JsonNode::asText);
    }

    static List<TopicPartition> partitions(JsonNode array) {
        return list(array, node -> partition(node.asText()));
    }

    static <T> Map<String, T> map(JsonNode object, Function<JsonNode, ? extends T> value) {
        Map<String, T> entries = new HashMap<>();
        if (!absent(object)) {
            object.fields().forEachRemaining(entry -> entries.put(entry.getKey(), value.apply(entry.getValue())));
        }
        return entries;
    }

    static <T> Map<TopicPartition, T> byPartition(JsonNode object, Function<JsonNode, ? extends T> value) {
        Map<TopicPartition, T> entries = new HashMap<>();
        object.fields()
            .forEachRemaining(entry -> entries.put(partition(entry.getKey()), value.apply(entry.getValue())));
        return entries;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode object) {
        return byPartition(object, node -> new OffsetAndMetadata(node.asLong()));
    }

    /** The outcome of each entity: {@code {"orders": {"ok": ...}, "bills": {"error": {...}}}}. */
    static <K, V> Map<String, Object> perKey(Map<K, KafkaFuture<V>> futures, Function<V, ?> shape)
        throws InterruptedException {
        return outcomes(futures, (key, future) -> shape.apply(future.get()));
    }

    static <K, F> Map<String, Object> outcomes(Map<K, F> entries, Outcome<K, F> outcome) throws InterruptedException {
        Map<String, Object> outcomes = new LinkedHashMap<>();
        for (Map.Entry<K, F> entry : entries.entrySet()) {
            Map<String, Object> result = new HashMap<>();
            try {
                result.put("ok", outcome.of(entry.getKey(), entry.getValue()));
            } catch (InterruptedException interrupted) {
                throw interrupted;
            } catch (Exception failure) {
                result.put("error", error(failure));
            }
            outcomes.put(String.valueOf(entry.getKey()), result);
        }
        return outcomes;
    }

    static Map<String, Object> error(Throwable failure) {
        Throwable cause = failure;
        while ((cause instanceof ExecutionException || cause instanceof CompletionException)
            && cause.getCause() != null) {
            cause = cause.getCause();
        }
        Map<String, Object> error = new HashMap<>();
        error.put("class", cause.getClass().getName());
        error.put("message", cause.getMessage());
        return error;
    }

    static Map<String, Object> node(Node node) {
        return entries("id", node.id(), "host", node.host(), "port", node.port(), "rack", node.rack());
    }

    static List<Integer> ids(List<Node> nodes) {
        List<Integer> ids = new ArrayList<>();
        nodes.forEach(node -> ids.add(node.id()));
        return ids;
    }

    /** A map from alternating names and values, in that order; values may be null. */
    static Map<String, Object> entries(Object... namesAndValues) {
        Map<String, Object> entries = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            entries.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return entries;
    }

    interface Outcome<K, F> {
        Object of(K key, F value) throws Exception;
    }
}

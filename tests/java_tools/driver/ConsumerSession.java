import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer of byte arrays, of either group protocol. */
final class ConsumerSession implements Session {
    private static final Duration POLL = Duration.ofMillis(50);

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final List<ConsumerRecord<byte[], byte[]>> waiting = new ArrayList<>();
    private final List<Map<String, Object>> rebalances = new ArrayList<>();

    ConsumerSession(Map<String, Object> config) {
        consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public Object run(String op, JsonNode args) {
        List<TopicPartition> partitions = Values.partitions(args.get("partitions"));
        switch (op) {
            case "subscribe":
                subscribe(args);
                return null;
            case "assign":
                consumer.assign(partitions);
                return null;
            case "unsubscribe":
                consumer.unsubscribe();
                return null;
            case "poll":
                return poll(args.get("count").asInt(), args.get("timeoutMs").asLong());
            case "awaitAssignment":
                return awaitAssignment(args.get("count").asInt(), args.get("timeoutMs").asLong());
            case "assignment":
                return names(consumer.assignment());
            case "rebalances":
                return rebalances;
            case "seek":
                Values.<Long>byPartition(args.get("offsets"), JsonNode::asLong).forEach(consumer::seek);
                return null;
            case "seekToBeginning":
                consumer.seekToBeginning(partitions);
                return null;
            case "seekToEnd":
                consumer.seekToEnd(partitions);
                return null;
            case "position":
                return consumer.position(partitions.get(0));
            case "pause":
                consumer.pause(partitions);
                return null;
            case "resume":
                consumer.resume(partitions);
                return null;
            case "commit":
                commit(args);
                return null;
            case "committed":
                return byName(consumer.committed(new HashSet<>(partitions)), ConsumerSession::committed);
            case "beginningOffsets":
                return byName(consumer.beginningOffsets(partitions), offset -> offset);
            case "endOffsets":
                return byName(consumer.endOffsets(partitions), offset -> offset);
            case "offsetsForTimes":
                return byName(
                    consumer.offsetsForTimes(Values.<Long>byPartition(args.get("times"), JsonNode::asLong)),
                    ConsumerSession::offsetAndTimestamp);
            case "partitionsFor":
                return consumer.partitionsFor(args.get("topic").asText()).size();
            case "listTopics":
                return new TreeSet<>(consumer.listTopics().keySet());
            case "groupMetadata":
                return groupMetadata();
            default:
                throw new IllegalArgumentException("a consumer has no " + op);
        }
    }

    @Override
    public Object wakeup() {
        consumer.wakeup();
        return null;
    }

    @Override
    public void close() {
        consumer.close();
    }

    private void subscribe(JsonNode args) {
        ConsumerRebalanceListener listener = new Listener();
        String pattern = Values.text(args, "pattern");
        if (pattern != null) {
            consumer.subscribe(Pattern.compile(pattern), listener);
        } else {
            consumer.subscribe(Values.strings(args.get("topics")), listener);
        }
    }

    /** Polls until it has {@code count} records or the time is up; returns all it has. */
    private Object poll(int count, long timeoutMs) {
        long deadline = System.currentTimeMillis() + timeoutMs;
        do {
            consumer.poll(POLL).forEach(waiting::add);
        } while (waiting.size() < count && System.currentTimeMillis() < deadline);
        List<Object> records = new ArrayList<>();
        waiting.forEach(record -> records.add(record(record)));
        waiting.clear();
        return records;
    }

    /** Polls until exactly {@code count} partitions are assigned; records that arrive are kept for the next poll. */
    private Object awaitAssignment(int count, long timeoutMs) {
        long deadline = System.currentTimeMillis() + timeoutMs;
        do {
            consumer.poll(POLL).forEach(waiting::add);
        } while (consumer.assignment().size() != count && System.currentTimeMillis() < deadline);
        return names(consumer.assignment());
    }

    private void commit(JsonNode args) {
        if (Values.absent(args.get("offsets"))) {
            consumer.commitSync();
        } else {
            consumer.commitSync(Values.offsets(args.get("offsets")));
        }
    }

    private Map<String, Object> groupMetadata() {
        ConsumerGroupMetadata group = consumer.groupMetadata();
        return Values.entries(
            "groupId", group.groupId(), "generationId", group.generationId(),
            "memberId", group.memberId(), "groupInstanceId", group.groupInstanceId().orElse(null));
    }

    private static Map<String, Object> record(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            headers.add(java.util.Arrays.asList(header.key(), Values.base64(header.value())));
        }
        return Values.entries(
            "topic", record.topic(), "partition", record.partition(), "offset", record.offset(),
            "timestamp", record.timestamp(), "timestampType", record.timestampType().name,
            "leaderEpoch", record.leaderEpoch().orElse(null), "key", Values.base64(record.key()),
            "value", Values.base64(record.value()), "headers", headers);
    }

    private static Object committed(OffsetAndMetadata offset) {
        return offset == null ? null : offset.offset();
    }

    private static Object offsetAndTimestamp(OffsetAndTimestamp found) {
        return found == null ? null : Values.entries("offset", found.offset(), "timestamp", found.timestamp());
    }

    private static <V> Map<String, Object> byName(Map<TopicPartition, V> entries, Function<V, Object> shape) {
        Map<String, Object> named = new TreeMap<>();
        entries.forEach((partition, value) -> named.put(partition.toString(), shape.apply(value)));
        return named;
    }

    private static Collection<String> names(Collection<TopicPartition> partitions) {
        Collection<String> names = new TreeSet<>();
        partitions.forEach(partition -> names.add(partition.toString()));
        return names;
    }

    private final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalances.add(Values.entries("event", "assigned", "partitions", names(partitions)));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            rebalances.add(Values.entries("event", "revoked", "partitions", names(partitions)));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            rebalances.add(Values.entries("event", "lost", "partitions", names(partitions)));
        }
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A producer of byte arrays, with transactions. */
final class ProducerSession implements Session {
    private final KafkaProducer<byte[], byte[]> producer;

    ProducerSession(Map<String, Object> config) {
        producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Override
    public Object run(String op, JsonNode args) throws Exception {
        switch (op) {
            case "send":
                return send(args);
            case "flush":
                producer.flush();
                return null;
            case "partitionsFor":
                return producer.partitionsFor(args.get("topic").asText()).size();
            case "initTransactions":
                producer.initTransactions();
                return null;
            case "beginTransaction":
                producer.beginTransaction();
                return null;
            case "commitTransaction":
                producer.commitTransaction();
                return null;
            case "abortTransaction":
                producer.abortTransaction();
                return null;
            case "sendOffsets":
                producer.sendOffsetsToTransaction(Values.offsets(args.get("offsets")), group(args.get("group")));
                return null;
            default:
                throw new IllegalArgumentException("a producer has no " + op);
        }
    }

    @Override
    public void close() {
        producer.close(java.time.Duration.ofSeconds(5));
    }

    /** Sends all records before it waits for the first answer, so that they may share a batch. */
    private Object send(JsonNode args) throws InterruptedException {
        Map<Integer, Future<RecordMetadata>> sent = new LinkedHashMap<>();
        for (JsonNode record : args.get("records")) {
            sent.put(sent.size(), producer.send(record(record)));
        }
        producer.flush();
        Map<String, Object> outcomes = Values.outcomes(sent, (index, future) -> {
            RecordMetadata metadata = future.get();
            return Values.entries(
                "topic", metadata.topic(), "partition", metadata.partition(),
                "offset", metadata.offset(), "timestamp", metadata.timestamp());
        });
        return new ArrayList<>(outcomes.values());
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode node) {
        JsonNode partition = node.get("partition");
        JsonNode timestamp = node.get("timestamp");
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
            node.get("topic").asText(),
            Values.absent(partition) ? null : partition.asInt(),
            Values.absent(timestamp) ? null : timestamp.asLong(),
            Values.bytes(node.get("key")),
            Values.bytes(node.get("value")));
        List<JsonNode> headers = Values.list(node.get("headers"), header -> header);
        headers.forEach(header -> record.headers().add(header.get(0).asText(), Values.bytes(header.get(1))));
        return record;
    }

    private static ConsumerGroupMetadata group(JsonNode group) {
        return new ConsumerGroupMetadata(
            group.get("groupId").asText(),
            group.get("generationId").asInt(),
            group.get("memberId").asText(),
            java.util.Optional.ofNullable(Values.text(group, "groupInstanceId")));
    }
}

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Groups with members, and a transaction that is open. */
@SuppressWarnings("deprecation") // the names that clients of 3.9 and of 4.x share
final class LiveTour {
    private final Tour tour;
    private final String bootstrapServers;
    private final String topic;
    private final TopicPartition first;

    LiveTour(Tour tour, String bootstrapServers) {
        this.tour = tour;
        this.bootstrapServers = bootstrapServers;
        topic = tour.name("live");
        first = new TopicPartition(topic, 0);
    }

    void run() throws Exception {
        tour.create(new NewTopic(topic, Map.of(0, List.of(1), 1, List.of(2))));
        for (String protocol : List.of("classic", "consumer")) {
            group(protocol);
        }
        transaction();
    }

    private void group(String protocol) throws Exception {
        String group = tour.name("live-" + protocol);
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrapServers);
        config.put("group.id", group);
        config.put("group.instance.id", "first");
        config.put("client.id", "reader");
        config.put("group.protocol", protocol);
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (consumer.assignment().size() < 2) {
                consumer.poll(Duration.ofMillis(100));
            }
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(0, "note")));
            live(protocol, group);
        }
    }

    private void live(String protocol, String group) {
        tour.call("live " + protocol, () -> tour.admin.describeConsumerGroups(List.of(group)).describedGroups());
        tour.callIfThere("describeClassicGroups", List.of(group));
        tour.call("live " + protocol + ": listed", () -> {
            Map<String, Object> mine = new HashMap<>();
            tour.admin.listConsumerGroups().all().get().forEach(listing -> {
                if (listing.groupId().equals(group)) {
                    mine.put("listing", listing);
                }
            });
            return mine;
        });
        tour.call("live " + protocol + ": offsets", () ->
            tour.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
        tour.call("live " + protocol + ": delete", () -> tour.admin.deleteConsumerGroups(List.of(group)).deletedGroups());
        tour.call("live " + protocol + ": commit", () -> tour.admin.alterConsumerGroupOffsets(
            group, Map.of(first, new OffsetAndMetadata(1))).all());
        tour.call("live " + protocol + ": delete offsets", () ->
            tour.admin.deleteConsumerGroupOffsets(group, Set.of(first)).partitionResult(first));
        tour.call("live " + protocol + ": remove an unknown member", () -> tour.admin.removeMembersFromConsumerGroup(
            group, new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("second")))).all());
        tour.call("live " + protocol + ": remove the member", () -> tour.admin.removeMembersFromConsumerGroup(
            group, new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("first")))).all());
        if (protocol.equals("classic")) { // a member of the other kind may be back already
            tour.call("live " + protocol + ": empty", () -> {
                var described = tour.admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                return Map.of("members", described.members().size(), "state", described.state());
            });
        }
    }

    private void transaction() throws Exception {
        String id = tour.name("live-transaction");
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrapServers);
        config.put("transactional.id", id);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "key", "value")).get();
            open(id);
        }
    }

    private void open(String id) {
        tour.call("open transaction", () -> {
            var described = tour.admin.describeTransactions(List.of(id)).all().get().get(id);
            return Map.of("state", described.state(), "partitions", described.topicPartitions(),
                "timeout", described.transactionTimeoutMs(), "epoch", described.producerEpoch(),
                "begun", described.transactionStartTimeMs().isPresent());
        });
        tour.call("open transaction: listed", () -> {
            Map<String, Object> mine = new HashMap<>();
            tour.admin.listTransactions().all().get().forEach(listing -> {
                if (listing.transactionalId().equals(id)) {
                    mine.put("state", listing.state());
                }
            });
            return mine;
        });
        tour.call("open transaction: producers", () -> {
            var states = tour.admin.describeProducers(List.of(first)).all().get().get(first).activeProducers();
            Map<String, Object> told = new HashMap<>();
            states.forEach(state -> {
                told.put("epoch", state.producerEpoch());
                told.put("sequence", state.lastSequence());
                told.put("coordinator's epoch", state.coordinatorEpoch());
                told.put("first offset", state.currentTransactionStartOffset());
            });
            return told;
        });
        tour.call("open transaction: aborted as another", () -> {
            var state = tour.admin.describeProducers(List.of(first)).all().get().get(first).activeProducers().get(0);
            return tour.admin.abortTransaction(
                new AbortTransactionSpec(first, state.producerId(), (short) (state.producerEpoch() - 1), 0)).all();
        });
        tour.callIfThere("forceTerminateTransaction", id);
        tour.call("open transaction: fenced", () -> tour.admin.fenceProducers(List.of(id)).fencedProducers().keySet());
        tour.call("open transaction: over", () ->
            tour.admin.describeTransactions(List.of(id)).all().get().get(id).topicPartitions());
    }
}

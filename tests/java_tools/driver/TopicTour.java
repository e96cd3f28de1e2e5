import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.AlterPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;

/** Topics, partitions, replicas, offsets and log directories. */
final class TopicTour {
    private final Tour tour;
    private final String topic;
    private final TopicPartition first;
    private final TopicPartition beyond;
    private final TopicPartition missing;

    TopicTour(Tour tour) {
        this.tour = tour;
        topic = tour.name("topic");
        first = new TopicPartition(topic, 0);
        beyond = new TopicPartition(topic, 9);
        missing = new TopicPartition(tour.name("missing"), 0);
    }

    void run() throws Exception {
        create();
        describe();
        grow();
        offsets();
        replicas();
        delete();
    }

    private void create() throws Exception {
        Map<Integer, List<Integer>> placed = Map.of(0, List.of(1, 2, 3), 1, List.of(2, 3, 1));
        create("placed", new NewTopic(topic, placed).configs(Map.of("retention.ms", "123456")), false);
        tour.await(topic);
        create("again", new NewTopic(topic, 1, (short) 1), false);
        create("by default", new NewTopic(tour.name("tried"), Optional.empty(), Optional.empty()), true);
        create("no partitions", new NewTopic(tour.name("tried"), 0, (short) 1), true);
        create("no replicas", new NewTopic(tour.name("tried"), 1, (short) 0), true);
        create("too many replicas", new NewTopic(tour.name("tried"), 1, (short) 4), true);
        create("too many partitions", new NewTopic(tour.name("tried"), 10_001, (short) 1), true);
        create("a gap", new NewTopic(tour.name("tried"), Map.of(0, List.of(1), 2, List.of(1))), true);
        create("a replica twice", new NewTopic(tour.name("tried"), Map.of(0, List.of(1, 1))), true);
        create("an unknown broker", new NewTopic(tour.name("tried"), Map.of(0, List.of(9))), true);
        create("no broker", new NewTopic(tour.name("tried"), Map.of(0, List.of())), true);
        create("uneven", new NewTopic(tour.name("tried"), Map.of(0, List.of(1), 1, List.of(1, 2))), true);
        for (String bad : List.of("", ".", "..", "a b", "a".repeat(250))) {
            create("named '" + bad + "'", new NewTopic(bad, 1, (short) 1), true);
        }
        Map<String, String> values = new HashMap<>();
        values.put("cleanup.policy", "burn");
        values.put("retention.ms", "soon");
        values.put("made.up", "1");
        values.put("min.insync.replicas", "0");
        values.put("compression.type", "rar");
        values.put("message.timestamp.type", "later");
        values.put("remote.storage.enable", "true");
        values.put("preallocate", "maybe");
        values.put("min.cleanable.dirty.ratio", "1.5");
        values.forEach((key, value) -> create(
            key + "=" + value, new NewTopic(tour.name("tried"), 1, (short) 1).configs(Map.of(key, value)), true));
    }

    private void create(String what, NewTopic wanted, boolean onlyTry) {
        tour.call("create: " + what, () -> {
            var created = tour.admin.createTopics(List.of(wanted), new CreateTopicsOptions().validateOnly(onlyTry));
            Map<String, Object> told = new HashMap<>();
            told.put("values", created.values());
            for (String name : created.values().keySet()) {
                told.put("config", created.config(name));
                told.put("partitions", created.numPartitions(name));
                told.put("replicas", created.replicationFactor(name));
                told.put("id", created.topicId(name));
            }
            return told;
        });
    }

    private void describe() {
        tour.call("describe: known", () -> tour.admin.describeTopics(
            TopicCollection.ofTopicNames(List.of(topic)),
            new DescribeTopicsOptions().includeAuthorizedOperations(true)));
        tour.call("describe: unknown", () -> tour.admin.describeTopics(
            TopicCollection.ofTopicNames(List.of(tour.name("missing"), "a b", ""))));
        tour.call("describe: unknown id", () -> tour.admin.describeTopics(
            TopicCollection.ofTopicIds(List.of(Uuid.ZERO_UUID, new Uuid(1, 2)))));
        tour.call("list: internal too", () -> {
            Map<String, Object> mine = new HashMap<>();
            tour.admin.listTopics(new ListTopicsOptions().listInternal(true)).namesToListings().get()
                .forEach((name, listing) -> {
                    if (name.startsWith(tour.prefix) || name.startsWith("__")) {
                        mine.put(name, listing);
                    }
                });
            return mine;
        });
    }

    private void grow() {
        grow("to 1", NewPartitions.increaseTo(1));
        grow("to 2", NewPartitions.increaseTo(2));
        grow("to 0", NewPartitions.increaseTo(0));
        grow("to 3", NewPartitions.increaseTo(3));
        grow("with too few brokers", NewPartitions.increaseTo(3, List.of(List.of(1))));
        grow("with too many places", NewPartitions.increaseTo(3, List.of(List.of(1, 2, 3), List.of(1, 2, 3))));
        grow("with an unknown broker", NewPartitions.increaseTo(3, List.of(List.of(1, 2, 9))));
        tour.call("grow: missing", () -> tour.admin.createPartitions(
            Map.of(tour.name("missing"), NewPartitions.increaseTo(3))));
    }

    private void grow(String what, NewPartitions partitions) {
        tour.call("grow: " + what, () -> tour.admin.createPartitions(
            Map.of(topic, partitions), new CreatePartitionsOptions().validateOnly(true)));
    }

    private void offsets() {
        Map<String, OffsetSpec> specs = new HashMap<>();
        specs.put("earliest", OffsetSpec.earliest());
        specs.put("latest", OffsetSpec.latest());
        specs.put("greatest timestamp", OffsetSpec.maxTimestamp());
        specs.put("local", OffsetSpec.earliestLocal());
        specs.put("tiered", OffsetSpec.latestTiered());
        specs.put("at 0", OffsetSpec.forTimestamp(0));
        specs.forEach((what, spec) -> tour.call(
            "offsets: " + what, () -> tour.admin.listOffsets(Map.of(first, spec)).partitionResult(first)));
        tour.call("offsets: unknown partition", () -> tour.admin.listOffsets(
            Map.of(beyond, OffsetSpec.latest()), new org.apache.kafka.clients.admin.ListOffsetsOptions().timeoutMs(2000)));
        tour.call("delete records: all", () -> tour.admin.deleteRecords(
            Map.of(first, RecordsToDelete.beforeOffset(-1))).lowWatermarks());
        tour.call("delete records: beyond", () -> tour.admin.deleteRecords(
            Map.of(first, RecordsToDelete.beforeOffset(99))).lowWatermarks());
    }

    private void replicas() {
        move("same", Map.of(first, Optional.of(new NewPartitionReassignment(List.of(1, 2, 3)))));
        move("cancel none", Map.of(first, Optional.empty()));
        move("cancel unknown", Map.of(beyond, Optional.empty(), missing, Optional.empty()));
        move("unknown broker", Map.of(first, Optional.of(new NewPartitionReassignment(List.of(9)))));
        move("broker twice", Map.of(first, Optional.of(new NewPartitionReassignment(List.of(1, 1)))));
        move("unknown partition", Map.of(beyond, Optional.of(new NewPartitionReassignment(List.of(1)))));
        tour.call("moves: all", () -> tour.admin.listPartitionReassignments());
        tour.call("moves: unknown", () -> tour.admin.listPartitionReassignments(Set.of(missing)));
        for (ElectionType type : ElectionType.values()) {
            tour.call("elect: " + type, () -> tour.admin.electLeaders(type, Set.of(first, beyond, missing)));
            tour.call("elect all: " + type, () -> tour.admin.electLeaders(type, null));
        }
        tour.call("log directories", () -> {
            Map<String, Object> told = new HashMap<>();
            tour.admin.describeLogDirs(List.of(1, 2)).allDescriptions().get().forEach((broker, directories) ->
                directories.forEach((path, directory) -> {
                    told.put(broker + ": error", directory.error());
                    told.put(broker + ": sized", directory.totalBytes().isPresent());
                    told.put(broker + ": replica", directory.replicaInfos().get(first));
                }));
            return told;
        });
        TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, 1);
        TopicPartitionReplica none = new TopicPartitionReplica(tour.name("missing"), 0, 1);
        tour.call("replica directories", () -> tour.admin.describeReplicaLogDirs(Set.of(replica, none)).values());
        tour.call("move to a directory", () -> tour.admin.alterReplicaLogDirs(
            Map.of(replica, "/none", none, "/none")).values());
    }

    private void move(String what, Map<TopicPartition, Optional<NewPartitionReassignment>> moves) {
        tour.call("move: " + what, () -> tour.admin.alterPartitionReassignments(
            moves, new AlterPartitionReassignmentsOptions()));
    }

    private void delete() {
        tour.call("delete: unknown", () -> tour.admin.deleteTopics(
            TopicCollection.ofTopicNames(List.of(tour.name("missing"), "a b"))));
        tour.call("delete: unknown id", () -> tour.admin.deleteTopics(
            TopicCollection.ofTopicIds(List.of(new Uuid(1, 2)))));
        tour.call("delete: known", () -> tour.admin.deleteTopics(TopicCollection.ofTopicNames(List.of(topic))));
    }
}

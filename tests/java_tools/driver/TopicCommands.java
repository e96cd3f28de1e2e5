import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreatePartitionsOptions;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.PartitionReassignment;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TopicListing;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;

/** Topics, partitions, their replicas and their offsets. */
final class TopicCommands {
    private final Admin admin;

    TopicCommands(Admin admin) {
        this.admin = admin;
    }

    void addTo(Map<String, AdminSession.Command> commands) {
        commands.put("createTopics", this::createTopics);
        commands.put("deleteTopics", this::deleteTopics);
        commands.put("listTopics", this::listTopics);
        commands.put("describeTopics", this::describeTopics);
        commands.put("createPartitions", this::createPartitions);
        commands.put("deleteRecords", this::deleteRecords);
        commands.put("listOffsets", this::listOffsets);
        commands.put("electLeaders", this::electLeaders);
        commands.put("alterPartitionReassignments", this::alterPartitionReassignments);
        commands.put("listPartitionReassignments", this::listPartitionReassignments);
    }

    private Object createTopics(JsonNode args) throws Exception {
        List<NewTopic> topics = Values.list(args.get("topics"), TopicCommands::newTopic);
        CreateTopicsOptions options = new CreateTopicsOptions().validateOnly(Values.flag(args, "validateOnly"));
        CreateTopicsResult created = admin.createTopics(topics, options);
        return Values.outcomes(created.values(), (name, future) -> {
            future.get();
            Map<String, String> config = new HashMap<>();
            created.config(name).get().entries().forEach(entry -> config.put(entry.name(), entry.value()));
            return Values.entries(
                "topicId", created.topicId(name).get().toString(),
                "partitions", created.numPartitions(name).get(),
                "replicationFactor", created.replicationFactor(name).get(),
                "config", config);
        });
    }

    private static NewTopic newTopic(JsonNode topic) {
        String name = topic.get("name").asText();
        NewTopic wanted;
        if (Values.absent(topic.get("assignments"))) {
            wanted = new NewTopic(
                name,
                Optional.ofNullable(topic.get("partitions")).filter(n -> !n.isNull()).map(JsonNode::asInt),
                Optional.ofNullable(topic.get("replicationFactor")).filter(n -> !n.isNull())
                    .map(n -> (short) n.asInt()));
        } else {
            Map<Integer, List<Integer>> assignments = new HashMap<>();
            Values.map(topic.get("assignments"), replicas -> Values.list(replicas, JsonNode::asInt))
                .forEach((partition, replicas) -> assignments.put(Integer.valueOf(partition), replicas));
            wanted = new NewTopic(name, assignments);
        }
        return Values.absent(topic.get("configs")) ? wanted : wanted.configs(Values.map(topic.get("configs"), JsonNode::asText));
    }

    private Object deleteTopics(JsonNode args) throws Exception {
        if (Values.absent(args.get("ids"))) {
            TopicCollection names = TopicCollection.ofTopicNames(Values.strings(args.get("names")));
            return Values.perKey(admin.deleteTopics(names).topicNameValues(), nothing -> null);
        }
        TopicCollection ids = TopicCollection.ofTopicIds(uuids(args));
        return Values.perKey(admin.deleteTopics(ids).topicIdValues(), nothing -> null);
    }

    private Object listTopics(JsonNode args) throws Exception {
        ListTopicsOptions options = new ListTopicsOptions().listInternal(Values.flag(args, "internal"));
        Map<String, Object> topics = new HashMap<>();
        for (TopicListing topic : admin.listTopics(options).listings().get()) {
            topics.put(topic.name(), Values.entries("topicId", topic.topicId().toString(), "internal", topic.isInternal()));
        }
        return topics;
    }

    private Object describeTopics(JsonNode args) throws Exception {
        if (Values.absent(args.get("ids"))) {
            TopicCollection names = TopicCollection.ofTopicNames(Values.strings(args.get("names")));
            return Values.perKey(admin.describeTopics(names).topicNameValues(), TopicCommands::description);
        }
        TopicCollection ids = TopicCollection.ofTopicIds(uuids(args));
        return Values.perKey(admin.describeTopics(ids).topicIdValues(), TopicCommands::description);
    }

    private static List<Uuid> uuids(JsonNode args) {
        return Values.list(args.get("ids"), id -> Uuid.fromString(id.asText()));
    }

    private static Object description(TopicDescription topic) {
        List<Object> partitions = new ArrayList<>();
        for (TopicPartitionInfo partition : topic.partitions()) {
            partitions.add(Values.entries(
                "partition", partition.partition(),
                "leader", partition.leader() == null ? null : partition.leader().id(),
                "replicas", Values.ids(partition.replicas()),
                "isr", Values.ids(partition.isr())));
        }
        return Values.entries(
            "name", topic.name(), "topicId", topic.topicId().toString(),
            "internal", topic.isInternal(), "partitions", partitions);
    }

    private Object createPartitions(JsonNode args) throws Exception {
        Map<String, NewPartitions> counts = Values.map(args.get("topics"), TopicCommands::newPartitions);
        CreatePartitionsOptions options =
            new CreatePartitionsOptions().validateOnly(Values.flag(args, "validateOnly"));
        return Values.perKey(admin.createPartitions(counts, options).values(), nothing -> null);
    }

    private static NewPartitions newPartitions(JsonNode topic) {
        int count = topic.get("count").asInt();
        if (Values.absent(topic.get("assignments"))) {
            return NewPartitions.increaseTo(count);
        }
        return NewPartitions.increaseTo(
            count, Values.list(topic.get("assignments"), replicas -> Values.list(replicas, JsonNode::asInt)));
    }

    private Object deleteRecords(JsonNode args) throws Exception {
        Map<TopicPartition, RecordsToDelete> before =
            Values.byPartition(args.get("offsets"), offset -> RecordsToDelete.beforeOffset(offset.asLong()));
        return Values.perKey(admin.deleteRecords(before).lowWatermarks(), deleted -> deleted.lowWatermark());
    }

    private Object listOffsets(JsonNode args) throws Exception {
        Map<TopicPartition, OffsetSpec> specs = Values.byPartition(args.get("specs"), TopicCommands::offsetSpec);
        IsolationLevel isolation =
            Values.flag(args, "readCommitted") ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
        var listed = admin.listOffsets(specs, new ListOffsetsOptions(isolation));
        return Values.outcomes(specs, (partition, spec) -> {
            var found = listed.partitionResult(partition).get();
            return Values.entries(
                "offset", found.offset(), "timestamp", found.timestamp(),
                "leaderEpoch", found.leaderEpoch().orElse(null));
        });
    }

    private static OffsetSpec offsetSpec(JsonNode spec) {
        if (spec.isNumber()) {
            return OffsetSpec.forTimestamp(spec.asLong());
        }
        switch (spec.asText()) {
            case "earliest":
                return OffsetSpec.earliest();
            case "latest":
                return OffsetSpec.latest();
            case "maxTimestamp":
                return OffsetSpec.maxTimestamp();
            default:
                throw new IllegalArgumentException("no offset spec " + spec);
        }
    }

    private Object electLeaders(JsonNode args) throws Exception {
        ElectionType type = ElectionType.valueOf(args.get("type").asText());
        var partitions = Values.absent(args.get("partitions"))
            ? null : new HashSet<>(Values.partitions(args.get("partitions")));
        Map<TopicPartition, Optional<Throwable>> elected = admin.electLeaders(type, partitions).partitions().get();
        Map<String, Object> outcomes = new HashMap<>();
        elected.forEach((partition, failure) -> outcomes.put(
            partition.toString(),
            failure.map(error -> Values.entries("error", Values.error(error))).orElse(Values.entries("ok", null))));
        return outcomes;
    }

    private Object alterPartitionReassignments(JsonNode args) throws Exception {
        Map<TopicPartition, Optional<NewPartitionReassignment>> targets = Values.byPartition(
            args.get("targets"),
            replicas -> replicas.isNull()
                ? Optional.empty()
                : Optional.of(new NewPartitionReassignment(Values.list(replicas, JsonNode::asInt))));
        return Values.perKey(admin.alterPartitionReassignments(targets).values(), nothing -> null);
    }

    private Object listPartitionReassignments(JsonNode args) throws Exception {
        Map<String, Object> ongoing = new HashMap<>();
        Map<TopicPartition, PartitionReassignment> listed = admin.listPartitionReassignments().reassignments().get();
        listed.forEach((partition, moves) -> ongoing.put(partition.toString(), Values.entries(
            "replicas", moves.replicas(), "adding", moves.addingReplicas(), "removing", moves.removingReplicas())));
        return ongoing;
    }
}

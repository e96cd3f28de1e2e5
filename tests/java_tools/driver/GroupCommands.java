import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Consumer groups, their offsets, and transactions. */
@SuppressWarnings("deprecation") // the names that clients of 3.9 and of 4.x share
final class GroupCommands {
    private final Admin admin;

    GroupCommands(Admin admin) {
        this.admin = admin;
    }

    void addTo(Map<String, AdminSession.Command> commands) {
        commands.put("listGroups", this::listGroups);
        commands.put("describeGroups", this::describeGroups);
        commands.put("deleteGroups", this::deleteGroups);
        commands.put("listGroupOffsets", this::listGroupOffsets);
        commands.put("alterGroupOffsets", this::alterGroupOffsets);
        commands.put("deleteGroupOffsets", this::deleteGroupOffsets);
        commands.put("removeMembers", this::removeMembers);
        commands.put("listTransactions", this::listTransactions);
        commands.put("describeTransactions", this::describeTransactions);
        commands.put("describeProducers", this::describeProducers);
        commands.put("fenceProducers", this::fenceProducers);
    }

    private Object listGroups(JsonNode args) throws Exception {
        Map<String, Object> groups = new HashMap<>();
        for (ConsumerGroupListing group : admin.listConsumerGroups().valid().get()) {
            groups.put(group.groupId(), Values.entries(
                "simple", group.isSimpleConsumerGroup(),
                "state", group.state().map(Object::toString).orElse(null),
                "type", group.type().map(Object::toString).orElse(null)));
        }
        return groups;
    }

    private Object describeGroups(JsonNode args) throws Exception {
        var described = admin.describeConsumerGroups(Values.strings(args.get("groups")));
        return Values.perKey(described.describedGroups(), GroupCommands::description);
    }

    private static Object description(ConsumerGroupDescription group) {
        List<Object> members = new ArrayList<>();
        for (MemberDescription member : group.members()) {
            var assignment = new TreeSet<String>();
            member.assignment().topicPartitions().forEach(partition -> assignment.add(partition.toString()));
            members.add(Values.entries(
                "memberId", member.consumerId(), "instanceId", member.groupInstanceId().orElse(null),
                "clientId", member.clientId(), "host", member.host(), "assignment", assignment));
        }
        return Values.entries(
            "state", group.state().toString(), "type", group.type().toString(),
            "assignor", group.partitionAssignor(), "simple", group.isSimpleConsumerGroup(),
            "coordinator", group.coordinator().id(), "members", members);
    }

    private Object deleteGroups(JsonNode args) throws Exception {
        var deleted = admin.deleteConsumerGroups(Values.strings(args.get("groups")));
        return Values.perKey(deleted.deletedGroups(), nothing -> null);
    }

    private Object listGroupOffsets(JsonNode args) throws Exception {
        Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
        Values.strings(args.get("groups")).forEach(group -> specs.put(group, new ListConsumerGroupOffsetsSpec()));
        var listed = admin.listConsumerGroupOffsets(specs);
        return Values.outcomes(specs, (group, spec) -> offsets(listed.partitionsToOffsetAndMetadata(group).get()));
    }

    private static Map<String, Object> offsets(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<String, Object> named = new HashMap<>();
        offsets.forEach((partition, offset) -> named.put(partition.toString(), offset == null ? null : offset.offset()));
        return named;
    }

    private Object alterGroupOffsets(JsonNode args) throws Exception {
        var offsets = Values.offsets(args.get("offsets"));
        var altered = admin.alterConsumerGroupOffsets(args.get("group").asText(), offsets);
        return Values.outcomes(offsets, (partition, offset) -> altered.partitionResult(partition).get());
    }

    private Object deleteGroupOffsets(JsonNode args) throws Exception {
        var partitions = new HashSet<>(Values.partitions(args.get("partitions")));
        var deleted = admin.deleteConsumerGroupOffsets(args.get("group").asText(), partitions);
        Map<TopicPartition, Object> each = new HashMap<>();
        partitions.forEach(partition -> each.put(partition, null));
        return Values.outcomes(each, (partition, nothing) -> deleted.partitionResult(partition).get());
    }

    private Object removeMembers(JsonNode args) throws Exception {
        List<MemberToRemove> members = Values.list(args.get("instances"), id -> new MemberToRemove(id.asText()));
        var options = members.isEmpty()
            ? new RemoveMembersFromConsumerGroupOptions()
            : new RemoveMembersFromConsumerGroupOptions(members);
        admin.removeMembersFromConsumerGroup(args.get("group").asText(), options).all().get();
        return null;
    }

    private Object listTransactions(JsonNode args) throws Exception {
        Map<String, Object> transactions = new HashMap<>();
        admin.listTransactions().all().get().forEach(transaction -> transactions.put(
            transaction.transactionalId(),
            Values.entries("state", transaction.state().toString(), "producerId", transaction.producerId())));
        return transactions;
    }

    private Object describeTransactions(JsonNode args) throws Exception {
        var ids = Values.strings(args.get("ids"));
        var described = admin.describeTransactions(ids);
        Map<String, Object> each = new HashMap<>();
        ids.forEach(id -> each.put(id, null));
        return Values.outcomes(each, (id, nothing) -> transaction(described.description(id).get()));
    }

    private static Object transaction(TransactionDescription transaction) {
        var partitions = new TreeSet<String>();
        transaction.topicPartitions().forEach(partition -> partitions.add(partition.toString()));
        return Values.entries(
            "state", transaction.state().toString(), "producerId", transaction.producerId(),
            "producerEpoch", transaction.producerEpoch(), "timeoutMs", transaction.transactionTimeoutMs(),
            "coordinator", transaction.coordinatorId(), "partitions", partitions);
    }

    private Object describeProducers(JsonNode args) throws Exception {
        var partitions = Values.partitions(args.get("partitions"));
        var described = admin.describeProducers(partitions);
        Map<TopicPartition, Object> each = new HashMap<>();
        partitions.forEach(partition -> each.put(partition, null));
        return Values.outcomes(each, (partition, nothing) -> {
            List<Object> producers = new ArrayList<>();
            described.partitionResult(partition).get().activeProducers().forEach(producer -> producers.add(
                Values.entries(
                    "producerId", producer.producerId(), "producerEpoch", producer.producerEpoch(),
                    "lastSequence", producer.lastSequence(),
                    "transactionStart", producer.currentTransactionStartOffset().isPresent()
                        ? producer.currentTransactionStartOffset().getAsLong() : null)));
            return producers;
        });
    }

    private Object fenceProducers(JsonNode args) throws Exception {
        return Values.perKey(admin.fenceProducers(Values.strings(args.get("ids"))).fencedProducers(), nothing -> null);
    }
}

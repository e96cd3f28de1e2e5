import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.DescribeConsumerGroupsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Groups without members, their offsets, and transactions. */
@SuppressWarnings("deprecation") // the names that clients of 3.9 and of 4.x share
final class GroupTour {
    private final Tour tour;
    private final String topic;
    private final String group;
    private final String missing;
    private final TopicPartition first;
    private final TopicPartition beyond;

    GroupTour(Tour tour) {
        this.tour = tour;
        topic = tour.name("read");
        group = tour.name("group");
        missing = tour.name("missing");
        first = new TopicPartition(topic, 0);
        beyond = new TopicPartition(topic, 9);
    }

    void run() throws Exception {
        tour.create(new NewTopic(topic, 1, (short) 1));
        offsets();
        describe();
        transactions();
        kinds();
        delete();
    }

    private void offsets() {
        alter("good", Map.of(first, new OffsetAndMetadata(3, "note")));
        alter("mixed", Map.of(first, new OffsetAndMetadata(4), beyond, new OffsetAndMetadata(4)));
        alter("too much metadata", Map.of(first, new OffsetAndMetadata(3, "x".repeat(5000))));
        tour.call("offsets of the group", () ->
            tour.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata());
        tour.call("offsets of a missing group", () ->
            tour.admin.listConsumerGroupOffsets(missing).partitionsToOffsetAndMetadata());
        Map<String, ListConsumerGroupOffsetsSpec> some = new HashMap<>();
        some.put(group, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(first, beyond)));
        tour.call("some offsets", () -> tour.admin.listConsumerGroupOffsets(some).all());
    }

    private void alter(String what, Map<TopicPartition, OffsetAndMetadata> offsets) {
        tour.call("commit: " + what, () -> {
            var altered = tour.admin.alterConsumerGroupOffsets(group, offsets);
            Map<TopicPartition, Object> each = new HashMap<>();
            offsets.keySet().forEach(partition -> each.put(partition, altered.partitionResult(partition)));
            return each;
        });
    }

    private void describe() {
        tour.call("group", () -> tour.admin.describeConsumerGroups(
            List.of(group), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).describedGroups());
        tour.call("missing group", () -> tour.admin.describeConsumerGroups(List.of(missing)).describedGroups());
        tour.call("nameless group", () -> tour.admin.describeConsumerGroups(List.of("")).describedGroups());
        tour.call("groups", () -> {
            Map<String, Object> mine = new HashMap<>();
            tour.admin.listConsumerGroups().all().get().forEach(listing -> {
                if (listing.groupId().startsWith(tour.prefix)) {
                    mine.put(listing.groupId(), listing);
                }
            });
            return mine;
        });
        tour.call("remove: all", () -> tour.admin.removeMembersFromConsumerGroup(
            group, new RemoveMembersFromConsumerGroupOptions()).all());
        tour.call("remove: unknown", () -> tour.admin.removeMembersFromConsumerGroup(
            group, new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("nobody")))).all());
        tour.call("remove: of a missing group", () -> tour.admin.removeMembersFromConsumerGroup(
            missing, new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("nobody")))).all());
    }

    private void transactions() {
        String id = tour.name("transaction");
        tour.call("transaction: unknown", () -> tour.admin.describeTransactions(List.of(id)).all());
        tour.call("transactions: of state", () -> tour.admin.listTransactions(
            new ListTransactionsOptions().filterStates(Set.of(TransactionState.PREPARE_ABORT))).all());
        tour.call("fence", () -> tour.admin.fenceProducers(List.of(id)).all());
        tour.call("transaction: fenced", () -> {
            var described = tour.admin.describeTransactions(List.of(id)).all().get().get(id);
            return Map.of("state", described.state(), "partitions", described.topicPartitions(),
                "timeout", described.transactionTimeoutMs(), "epoch", described.producerEpoch());
        });
        tour.call("producers", () -> tour.admin.describeProducers(List.of(first)).all());
        tour.call("producers: unknown partition", () -> tour.admin.describeProducers(
            List.of(beyond), new org.apache.kafka.clients.admin.DescribeProducersOptions().timeoutMs(2000)).all());
        tour.call("abort: unknown", () -> tour.admin.abortTransaction(
            new AbortTransactionSpec(first, 12345, (short) 3, 1)).all());
        tour.callIfThere("forceTerminateTransaction", tour.name("nobody"));
    }

    /** Kinds of groups that only some releases have. */
    private void kinds() {
        tour.callIfThere("describeClassicGroups", List.of(group));
        tour.callIfThere("describeClassicGroups", List.of(missing));
        for (String kind : List.of("Share", "Streams")) {
            tour.callIfThere("describe" + kind + "Groups", List.of(group));
            tour.callIfThere("describe" + kind + "Groups", List.of(missing));
            tour.callIfThere("delete" + kind + "Groups", List.of(missing));
        }
    }

    private void delete() {
        tour.call("delete offsets", () -> {
            var deleted = tour.admin.deleteConsumerGroupOffsets(group, Set.of(first, beyond));
            return Map.of("first", deleted.partitionResult(first), "beyond", deleted.partitionResult(beyond));
        });
        tour.call("delete offsets: missing group", () ->
            tour.admin.deleteConsumerGroupOffsets(missing, Set.of(first)).partitionResult(first));
        tour.call("delete group", () -> tour.admin.deleteConsumerGroups(List.of(group, missing)).deletedGroups());
    }
}

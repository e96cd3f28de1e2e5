import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DeleteTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RaftVoterEndpoint;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** Empty, absent, repeated, negative, oversized and late: input at the edges of every method. */
@SuppressWarnings("deprecation") // the names that clients of 3.9 and of 4.x share
final class EdgeTour {
    private static final int SHORT_MS = 2000;
    private final Tour tour;
    private final String topic;
    private final String other;
    private final String group;
    private final TopicPartition first;

    EdgeTour(Tour tour) {
        this.tour = tour;
        topic = tour.name("edge");
        other = tour.name("edge-other");
        group = tour.name("edge-group");
        first = new TopicPartition(topic, 0);
    }

    void run() throws Exception {
        tour.create(new NewTopic(topic, Map.of(0, List.of(1, 2, 3), 1, List.of(2, 3, 1))));
        tour.create(new NewTopic(other, Map.of(0, List.of(1))).configs(Map.of("cleanup.policy", "compact")));
        topics();
        partitions();
        configs();
        changes();
        quotas();
        credentials();
        groups();
        transactions();
        cluster();
    }

    private void topics() {
        tour.call("edge: create nothing", () -> tour.admin.createTopics(List.of()).values());
        tour.call("edge: create several", () -> tour.admin.createTopics(
            List.of(new NewTopic(topic, 1, (short) 1), new NewTopic("", 1, (short) 1), new NewTopic("a/b", 1, (short) 1),
                new NewTopic(tour.name("edge-new"), -1, (short) -1), new NewTopic("x".repeat(249), 1, (short) 1),
                new NewTopic("__consumer_offsets", 1, (short) 1)),
            new CreateTopicsOptions().validateOnly(true)).values());
        tour.call("edge: create twice", () -> tour.admin.createTopics(
            List.of(new NewTopic(tour.name("twice"), 1, (short) 1), new NewTopic(tour.name("twice"), 2, (short) 1)),
            new CreateTopicsOptions().validateOnly(true)).values());
        tour.call("edge: create with null values", () -> {
            Map<String, String> configs = new HashMap<>();
            configs.put("retention.ms", null);
            return tour.admin.createTopics(List.of(new NewTopic(tour.name("edge-null"), 1, (short) 1).configs(configs)),
                new CreateTopicsOptions().validateOnly(true)).values();
        });
        tour.call("edge: create negative", () -> tour.admin.createTopics(
            List.of(new NewTopic(tour.name("edge-minus"), -5, (short) 1), new NewTopic(tour.name("edge-less"), 1, (short) -7)),
            new CreateTopicsOptions().validateOnly(true)).values());
        tour.call("edge: create without retries", () -> tour.admin.createTopics(
            List.of(new NewTopic(tour.name("edge-late"), 1, (short) 1)),
            new CreateTopicsOptions().validateOnly(true).retryOnQuotaViolation(false).timeoutMs(SHORT_MS)).values());
        tour.call("edge: describe nothing", () -> tour.admin.describeTopics(List.of()).allTopicNames());
        tour.call("edge: describe both", () -> tour.admin.describeTopics(TopicCollection.ofTopicNames(List.of(topic, topic, other)),
            new DescribeTopicsOptions().partitionSizeLimitPerResponse(1)).topicNameValues());
        tour.call("edge: describe long", () -> tour.admin.describeTopics(List.of("x".repeat(250), "..", "a/b")).topicNameValues());
        tour.call("edge: delete nothing", () -> tour.admin.deleteTopics(List.of()).topicNameValues());
        tour.call("edge: delete bad names", () -> tour.admin.deleteTopics(
            List.of("", "a/b", "x".repeat(250), tour.name("edge-none"))).topicNameValues());
        tour.call("edge: delete ids", () -> tour.admin.deleteTopics(
            TopicCollection.ofTopicIds(List.of(Uuid.ZERO_UUID, Uuid.ONE_UUID)),
            new DeleteTopicsOptions().retryOnQuotaViolation(false)).topicIdValues());
        tour.call("edge: delete metadata", () -> tour.admin.deleteTopics(List.of("__cluster_metadata")).topicNameValues());
        for (NewPartitions wanted : List.of(NewPartitions.increaseTo(-1), NewPartitions.increaseTo(5, List.of()),
                NewPartitions.increaseTo(3, List.of(List.of())), NewPartitions.increaseTo(3, List.of(List.of(1, 1, 2))),
                NewPartitions.increaseTo(4, List.of(List.of(1, 2, 3), List.of(1, 2))))) {
            tour.call("edge: grow " + wanted, () -> tour.admin.createPartitions(Map.of(topic, wanted),
                new org.apache.kafka.clients.admin.CreatePartitionsOptions().validateOnly(true)).values());
        }
        tour.call("edge: grow several", () -> tour.admin.createPartitions(
            Map.of(topic, NewPartitions.increaseTo(3), "", NewPartitions.increaseTo(3), "a b", NewPartitions.increaseTo(3)),
            new org.apache.kafka.clients.admin.CreatePartitionsOptions().validateOnly(true)).values());
    }

    private void partitions() {
        TopicPartition nameless = new TopicPartition("", 0);
        TopicPartition negative = new TopicPartition(topic, -1);
        tour.call("edge: no offsets", () -> tour.admin.listOffsets(Map.of()).all());
        tour.call("edge: committed offsets", () -> tour.admin.listOffsets(
            Map.of(first, OffsetSpec.latest()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all());
        tour.call("edge: offsets at a negative time", () -> tour.admin.listOffsets(
            Map.of(first, OffsetSpec.forTimestamp(-10))).all());
        tour.call("edge: offsets of missing topics", () -> tour.admin.listOffsets(
            Map.of(new TopicPartition(tour.name("edge-none"), 0), OffsetSpec.latest()),
            new ListOffsetsOptions().timeoutMs(SHORT_MS)).all());
        tour.call("edge: delete no records", () -> tour.admin.deleteRecords(Map.of()).lowWatermarks());
        tour.call("edge: delete records at -5", () -> tour.admin.deleteRecords(
            Map.of(first, RecordsToDelete.beforeOffset(-5))).lowWatermarks());
        tour.call("edge: delete records of a compacted topic", () -> tour.admin.deleteRecords(
            Map.of(new TopicPartition(other, 0), RecordsToDelete.beforeOffset(0))).lowWatermarks());
        tour.call("edge: move nothing", () -> tour.admin.alterPartitionReassignments(Map.of()).values());
        tour.call("edge: move oddly", () -> tour.admin.alterPartitionReassignments(Map.of(
            nameless, Optional.of(new NewPartitionReassignment(List.of(1))),
            negative, Optional.of(new NewPartitionReassignment(List.of(1))),
            first, Optional.of(new NewPartitionReassignment(List.of(-3))),
            new TopicPartition(topic, 1), Optional.of(new NewPartitionReassignment(List.of(2, 3, 1))))).values());
        tour.call("edge: moves of odd partitions", () -> tour.admin.listPartitionReassignments(
            Set.of(negative, first)).reassignments());
        tour.call("edge: elect nothing", () -> tour.admin.electLeaders(ElectionType.PREFERRED, Set.of()).partitions());
        tour.call("edge: elect negative", () -> tour.admin.electLeaders(ElectionType.UNCLEAN, Set.of(negative)).partitions());
        tour.call("edge: directories of an unknown broker", () -> tour.admin.describeLogDirs(List.of(9),
            new org.apache.kafka.clients.admin.DescribeLogDirsOptions().timeoutMs(SHORT_MS)).descriptions());
        tour.call("edge: replica on an unknown broker", () -> tour.admin.describeReplicaLogDirs(
            Set.of(new TopicPartitionReplica(topic, 0, 9)),
            new org.apache.kafka.clients.admin.DescribeReplicaLogDirsOptions().timeoutMs(SHORT_MS)).values());
        tour.call("edge: replica directory of an odd partition", () -> tour.admin.describeReplicaLogDirs(
            Set.of(new TopicPartitionReplica(topic, 77, 1), new TopicPartitionReplica("", 0, 1))).values());
        tour.call("edge: move nothing to a directory", () -> tour.admin.alterReplicaLogDirs(Map.of()).values());
        tour.call("edge: move to a relative directory", () -> tour.admin.alterReplicaLogDirs(
            Map.of(new TopicPartitionReplica(topic, 0, 1), "none")).values());
    }

    private void configs() {
        tour.call("edge: describe no configs", () -> tour.admin.describeConfigs(List.of()).values());
        List<ConfigResource> asked = new ArrayList<>();
        for (ConfigResource.Type type : ConfigResource.Type.values()) {
            if (type != ConfigResource.Type.BROKER && type != ConfigResource.Type.BROKER_LOGGER) {
                asked.add(new ConfigResource(type, ""));
            }
        }
        asked.add(new ConfigResource(ConfigResource.Type.TOPIC, "a/b"));
        asked.add(new ConfigResource(ConfigResource.Type.BROKER, "-1"));
        for (ConfigResource resource : asked) {
            tour.call("edge: describe " + resource, () -> tour.admin.describeConfigs(List.of(resource),
                new DescribeConfigsOptions().timeoutMs(SHORT_MS)).values());
        }
        for (String name : List.of("one", "9")) {
            for (ConfigResource.Type type : List.of(ConfigResource.Type.BROKER, ConfigResource.Type.BROKER_LOGGER)) {
                tour.call("edge: describe " + type + " " + name, () -> tour.admin.describeConfigs(
                    List.of(new ConfigResource(type, name)), new DescribeConfigsOptions().timeoutMs(SHORT_MS)).values());
            }
        }
        tour.call("edge: several resources", () -> {
            Map<String, Object> told = new HashMap<>();
            tour.admin.describeConfigs(List.of(
                new ConfigResource(ConfigResource.Type.TOPIC, topic), new ConfigResource(ConfigResource.Type.TOPIC, other)))
                .values().forEach((resource, config) -> {
                    try {
                        told.put(resource.name(), config.get().get("cleanup.policy"));
                    } catch (Exception failure) {
                        told.put(resource.name(), failure);
                    }
                });
            return told;
        });
        tour.callIfThere("listConfigResources", Set.of(ConfigResource.Type.BROKER, ConfigResource.Type.BROKER_LOGGER));
    }

    private void changes() {
        ConfigResource known = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        tour.call("edge: change nothing", () -> tour.admin.incrementalAlterConfigs(Map.of()).values());
        tour.call("edge: no changes", () -> tour.admin.incrementalAlterConfigs(Map.of(known, List.of())).values());
        tour.call("edge: change twice", () -> change(known,
            set("retention.ms", "1"), new AlterConfigOp(new ConfigEntry("retention.ms", "2"), AlterConfigOp.OpType.DELETE)));
        tour.call("edge: change to null", () -> change(known, set("retention.ms", null)));
        tour.call("edge: append null", () -> change(known,
            new AlterConfigOp(new ConfigEntry("cleanup.policy", null), AlterConfigOp.OpType.APPEND)));
        tour.call("edge: good and bad", () -> change(known, set("retention.ms", "1"), set("flush.ms", "x")));
        tour.call("edge: a long value", () -> change(known, set("retention.ms", "9".repeat(3000))));
        tour.call("edge: several changes", () -> {
            Map<ConfigResource, Collection<AlterConfigOp>> all = new HashMap<>();
            all.put(known, List.of(set("retention.ms", "1")));
            all.put(new ConfigResource(ConfigResource.Type.TOPIC, other), List.of(set("retention.ms", "soon")));
            all.put(new ConfigResource(ConfigResource.Type.TOPIC, ""), List.of(set("retention.ms", "1")));
            all.put(new ConfigResource(ConfigResource.Type.BROKER, ""), List.of(set("log.retention.ms", "soon")));
            return tour.admin.incrementalAlterConfigs(all, new AlterConfigsOptions().validateOnly(true)).values();
        });
        for (ConfigResource.Type type : ConfigResource.Type.values()) {
            for (String name : List.of("", "9", "one")) {
                boolean elsewhere = name.equals("9")
                    && (type == ConfigResource.Type.BROKER || type == ConfigResource.Type.BROKER_LOGGER);
                if (!elsewhere) {
                    tour.call("edge: change " + type + " '" + name + "'", () ->
                        change(new ConfigResource(type, name), set("made.up", "1")));
                }
            }
        }
        for (String setting : List.of("interval.ms=1", "interval.ms=5000", "match=x=y", "match=client_id", "metrics=*", "made.up=1")) {
            String[] pair = setting.split("=", 2);
            tour.call("edge: metrics " + setting, () -> change(
                new ConfigResource(ConfigResource.Type.CLIENT_METRICS, tour.name("m")), set(pair[0], pair[1])));
        }
        for (String level : List.of("DEBUG", "LOUD", "")) {
            tour.call("edge: logger " + level, () -> change(
                new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1"), set("root", level)));
        }
        for (String key : List.of("log.segment.bytes", "log.flush.interval.messages", "log.index.interval.bytes", "num.io.threads",
                "num.network.threads", "num.replica.fetchers", "background.threads", "max.connections", "min.insync.replicas",
                "log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size", "leader.replication.throttled.rate",
                "log.message.timestamp.type", "log.roll.ms", "log.local.retention.ms", "producer.id.expiration.ms",
                "connections.max.idle.ms", "auto.create.topics.enable", "metric.reporters", "ssl.keystore.type")) {
            for (String value : List.of("", "0", "-1", "x")) {
                tour.call("edge: broker " + key + "=" + value, () -> change(
                    new ConfigResource(ConfigResource.Type.BROKER, "1"), set(key, value)));
            }
        }
    }

    private static AlterConfigOp set(String key, String value) {
        return new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
    }

    private Object change(ConfigResource resource, AlterConfigOp... changes) {
        return tour.admin.incrementalAlterConfigs(Map.of(resource, List.of(changes)),
            new AlterConfigsOptions().validateOnly(true).timeoutMs(5000)).values();
    }

    private void quotas() {
        tour.call("edge: no quotas changed", () -> tour.admin.alterClientQuotas(List.of()).values());
        List<Map<String, String>> entities = new ArrayList<>();
        Map<String, String> anybody = new HashMap<>();
        anybody.put("user", null);
        entities.add(anybody);
        entities.add(Map.of());
        entities.add(Map.of("user", ""));
        entities.add(Map.of("user", "a", "client-id", "b"));
        entities.add(Map.of("user", "a", "ip", "10.0.0.1"));
        entities.add(Map.of("ip", "10.0.0.1"));
        for (Map<String, String> entity : entities) {
            for (String key : List.of("consumer_byte_rate", "controller_mutation_rate", "connection_creation_rate")) {
                tour.call("edge: quota " + entity + " " + key, () -> tour.admin.alterClientQuotas(
                    List.of(new ClientQuotaAlteration(new ClientQuotaEntity(entity),
                        List.of(new ClientQuotaAlteration.Op(key, 5.0), new ClientQuotaAlteration.Op("made_up", null)))),
                    new org.apache.kafka.clients.admin.AlterClientQuotasOptions().validateOnly(true)).values());
            }
        }
        tour.call("edge: quota twice", () -> tour.admin.alterClientQuotas(
            List.of(new ClientQuotaAlteration(new ClientQuotaEntity(Map.of("user", "a")),
                List.of(new ClientQuotaAlteration.Op("consumer_byte_rate", 5.0), new ClientQuotaAlteration.Op("consumer_byte_rate", 6.0)))),
            new org.apache.kafka.clients.admin.AlterClientQuotasOptions().validateOnly(true)).values());
        tour.call("edge: quotas by default", () -> tour.admin.describeClientQuotas(ClientQuotaFilter.containsOnly(
            List.of(ClientQuotaFilterComponent.ofDefaultEntity("user"), ClientQuotaFilterComponent.ofEntityType("client-id")))).entities());
        tour.call("edge: quotas of nobody", () -> tour.admin.describeClientQuotas(ClientQuotaFilter.contains(
            List.of(ClientQuotaFilterComponent.ofEntity("user", "")))).entities());
        tour.call("edge: quotas of two", () -> tour.admin.describeClientQuotas(ClientQuotaFilter.contains(
            List.of(ClientQuotaFilterComponent.ofEntity("user", "a"), ClientQuotaFilterComponent.ofEntity("user", "b")))).entities());
        ClientQuotaEntity mine = new ClientQuotaEntity(Map.of("user", tour.name("quota/user"), "client-id", tour.name("c d")));
        tour.call("edge: quota set", () -> tour.admin.alterClientQuotas(List.of(new ClientQuotaAlteration(mine,
            List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 12345.0), new ClientQuotaAlteration.Op("request_percentage", 1.25))))).values());
        tour.call("edge: quota found", () -> Eventually.present(() -> tour.admin.describeClientQuotas(ClientQuotaFilter.contains(
            List.of(ClientQuotaFilterComponent.ofEntity("user", tour.name("quota/user"))))).entities().get()));
    }

    private void credentials() {
        tour.call("edge: nothing altered", () -> tour.admin.alterUserScramCredentials(List.of()).values());
        tour.call("edge: credentials of nobody", () -> tour.admin.describeUserScramCredentials(List.of("")).users());
        tour.call("edge: credentials of many", () -> tour.admin.describeUserScramCredentials(
            List.of(tour.name("x"), tour.name("y"))).users());
        ScramCredentialInfo good = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192);
        List<List<UserScramCredentialAlteration>> tried = List.of(
            List.of(new UserScramCredentialUpsertion("", good, "secret")),
            List.of(new UserScramCredentialUpsertion(tour.name("x"), new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 99999), "s")),
            List.of(new UserScramCredentialUpsertion(tour.name("x"), new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, -1), "s")),
            List.of(new UserScramCredentialDeletion(tour.name("x"), ScramMechanism.SCRAM_SHA_512),
                new UserScramCredentialUpsertion(tour.name("x"), good, "secret")),
            List.of(new UserScramCredentialDeletion(tour.name("x"), ScramMechanism.UNKNOWN)),
            List.of(new UserScramCredentialUpsertion(tour.name("scram"), good, "secret")));
        for (int i = 0; i < tried.size(); i++) {
            List<UserScramCredentialAlteration> alterations = tried.get(i);
            tour.call("edge: credentials " + i, () -> tour.admin.alterUserScramCredentials(alterations).values());
        }
        tour.call("edge: credentials set", () -> Eventually.present(() -> {
            Map<String, Object> infos = new HashMap<>();
            tour.admin.describeUserScramCredentials(List.of(tour.name("scram"))).all().get().get(tour.name("scram"))
                .credentialInfos().forEach(info -> infos.put(info.mechanism().name(), info));
            return infos;
        }));
    }

    private void groups() {
        String none = tour.name("edge-no-group");
        tour.call("edge: describe no groups", () -> tour.admin.describeConsumerGroups(List.of()).describedGroups());
        tour.call("edge: delete no groups", () -> tour.admin.deleteConsumerGroups(List.of()).deletedGroups());
        tour.call("edge: delete odd groups", () -> tour.admin.deleteConsumerGroups(List.of("", none)).deletedGroups());
        tour.call("edge: commit nothing", () -> tour.admin.alterConsumerGroupOffsets(group, Map.of()).all());
        tour.call("edge: commit below zero", () -> tour.admin.alterConsumerGroupOffsets(
            group, Map.of(first, new OffsetAndMetadata(0, Optional.of(99), null))).all());
        tour.call("edge: commit to a missing topic", () -> tour.admin.alterConsumerGroupOffsets(
            group, Map.of(new TopicPartition(tour.name("edge-none"), 0), new OffsetAndMetadata(1))).all());
        tour.call("edge: commit for nobody", () -> tour.admin.alterConsumerGroupOffsets(
            "", Map.of(first, new OffsetAndMetadata(1))).all());
        tour.call("edge: offsets of several groups", () -> tour.admin.listConsumerGroupOffsets(Map.of(
            group, new ListConsumerGroupOffsetsSpec(), none, new ListConsumerGroupOffsetsSpec(),
            "", new ListConsumerGroupOffsetsSpec())).all());
        tour.call("edge: no partitions", () -> tour.admin.listConsumerGroupOffsets(Map.of(
            group, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of()))).all());
        tour.call("edge: delete no offsets", () -> tour.admin.deleteConsumerGroupOffsets(group, Set.of()).all());
        tour.callIfThere("listGroups");
        tour.callIfThere("describeClassicGroups", List.of(""));
        for (String kind : List.of("Share", "Streams")) {
            tour.callIfThere("delete" + kind + "GroupOffsets", none, kind.equals("Share") ? Set.of(topic) : Set.of(first));
            tour.callIfThere("alter" + kind + "GroupOffsets", none, kind.equals("Share")
                ? Map.of(first, 1L) : Map.of(first, new OffsetAndMetadata(1)));
            tour.callIfThere("list" + kind + "GroupOffsets", Map.of());
        }
    }

    private void transactions() {
        tour.call("edge: no transactions", () -> tour.admin.describeTransactions(List.of()).all());
        tour.call("edge: nameless transaction", () -> tour.admin.describeTransactions(List.of("")).all());
        tour.call("edge: fence nobody", () -> tour.admin.fenceProducers(List.of()).all());
        tour.call("edge: no producers", () -> tour.admin.describeProducers(List.of()).all());
        tour.call("edge: producers on an unknown broker", () -> tour.admin.describeProducers(List.of(first),
            new org.apache.kafka.clients.admin.DescribeProducersOptions().brokerId(9).timeoutMs(SHORT_MS)).all());
        tour.call("edge: transactions of a duration", () -> tour.admin.listTransactions(
            new ListTransactionsOptions().filterOnDuration(99_999_999).filterProducerIds(Set.of(-7L))).all());
        tour.call("edge: abort in a missing topic", () -> tour.admin.abortTransaction(
            new AbortTransactionSpec(new TopicPartition(tour.name("edge-none"), 0), 1, (short) 0, 0),
            new org.apache.kafka.clients.admin.AbortTransactionOptions().timeoutMs(SHORT_MS)).all());
        tour.call("edge: abort with a negative epoch", () -> tour.admin.abortTransaction(
            new AbortTransactionSpec(first, 5, (short) -1, -1)).all());
    }

    private void cluster() {
        tour.call("edge: fenced brokers", () -> fenced());
        tour.call("edge: add a voter", () -> tour.admin.addRaftVoter(7, Uuid.ONE_UUID,
            Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1)),
            new org.apache.kafka.clients.admin.AddRaftVoterOptions().timeoutMs(SHORT_MS)).all());
        tour.call("edge: remove a voter", () -> tour.admin.removeRaftVoter(7, Uuid.ONE_UUID,
            new org.apache.kafka.clients.admin.RemoveRaftVoterOptions().timeoutMs(SHORT_MS)).all());
        tour.call("edge: unregister a negative broker", () -> tour.admin.unregisterBroker(-1).all());
        tour.call("edge: instance id", () -> tour.admin.clientInstanceId(Duration.ofSeconds(1)).toString());
        tour.call("edge: alter all configs", () -> {
            Map<ConfigResource, org.apache.kafka.clients.admin.Config> all = Map.of(
                new ConfigResource(ConfigResource.Type.TOPIC, topic),
                new org.apache.kafka.clients.admin.Config(List.of(new ConfigEntry("retention.ms", "soon"))));
            return tour.reflect("alterConfigs", all, new AlterConfigsOptions().validateOnly(true));
        });
    }

    private Object fenced() throws Exception {
        DescribeClusterOptions options = new DescribeClusterOptions();
        try {
            DescribeClusterOptions.class.getMethod("includeFencedBrokers", boolean.class).invoke(options, true);
        } catch (NoSuchMethodException older) {
            return "this client does not ask for fenced brokers";
        }
        return new HashSet<>(tour.admin.describeCluster(options).nodes().get());
    }
}

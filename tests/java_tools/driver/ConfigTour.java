import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** Settings of topics, brokers and groups; quotas and SCRAM credentials. */
final class ConfigTour {
    private final Tour tour;
    private final String topic;

    ConfigTour(Tour tour) {
        this.tour = tour;
        topic = tour.name("configured");
    }

    void run() throws Exception {
        tour.create(new NewTopic(topic, 1, (short) 1));
        describe();
        alter();
        quotas();
        credentials();
    }

    private void describe() {
        describe(ConfigResource.Type.TOPIC, topic);
        describe(ConfigResource.Type.TOPIC, tour.name("missing"));
        describe(ConfigResource.Type.TOPIC, "a b");
        describe(ConfigResource.Type.BROKER, "1");
        describe(ConfigResource.Type.BROKER, "");
        describe(ConfigResource.Type.BROKER, "9");
        describe(ConfigResource.Type.BROKER_LOGGER, "1");
        describe(ConfigResource.Type.CLIENT_METRICS, tour.name("metrics"));
        for (ConfigResource.Type type : groupType()) {
            describe(type, tour.name("group"));
            describe(type, "");
            tour.callIfThere("listConfigResources", Set.of(type));
        }
        tour.callIfThere("listClientMetricsResources");
    }

    /** The type of groups, which clients have from 4.0 on. */
    private static List<ConfigResource.Type> groupType() {
        return Stream.of(ConfigResource.Type.values()).filter(type -> type.name().equals("GROUP"))
            .collect(Collectors.toList());
    }

    private void describe(ConfigResource.Type type, String name) {
        DescribeConfigsOptions options =
            new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(false).timeoutMs(5000);
        tour.call("configs: " + type + " " + name.replace(tour.prefix, ""), () -> {
            var described = tour.admin.describeConfigs(List.of(new ConfigResource(type, name)), options).all().get();
            var entries = new java.util.TreeMap<String, Object>();
            described.values().forEach(config -> config.entries().forEach(entry -> entries.put(entry.name(), entry)));
            return entries;
        });
    }

    private void alter() {
        ConfigResource known = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        for (AlterConfigOp.OpType op : AlterConfigOp.OpType.values()) {
            for (String key : List.of("cleanup.policy", "retention.ms", "made.up")) {
                for (String value : List.of("compact", "1000", "")) {
                    alter(known, key, value, op);
                }
            }
        }
        alter(new ConfigResource(ConfigResource.Type.BROKER, "9"), "made.up", "1", AlterConfigOp.OpType.SET);
        for (String name : List.of("1", "")) {
            ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, name);
            Map<String, List<String>> tried = Map.of(
                "log.retention.ms", List.of("1000", "0", "-1", "soon"),
                "log.cleanup.policy", List.of("compact", "burn"),
                "message.max.bytes", List.of("-1", "1000"),
                "broker.id", List.of("1", "7"),
                "num.partitions", List.of("5"),
                "max.connections.per.ip", List.of("0", "100"),
                "log.cleaner.threads", List.of("2", "1000"),
                "unclean.leader.election.enable", List.of("true", "maybe"),
                "made.up", List.of("1"));
            tried.forEach((key, values) -> values.forEach(
                value -> alter(broker, key, value, AlterConfigOp.OpType.SET)));
        }
        for (ConfigResource.Type type : groupType()) {
            ConfigResource group = new ConfigResource(type, tour.name("group"));
            for (String value : List.of("50000", "1", "soon")) {
                alter(group, "consumer.session.timeout.ms", value, AlterConfigOp.OpType.SET);
            }
        }
        alter(new ConfigResource(ConfigResource.Type.TOPIC, tour.name("missing")), "retention.ms", "1",
            AlterConfigOp.OpType.SET);
    }

    private void alter(ConfigResource resource, String key, String value, AlterConfigOp.OpType op) {
        String what = resource.type() + " " + resource.name().replace(tour.prefix, "") + " " + op + " " + key + "=" + value;
        tour.call("alter: " + what, () -> tour.admin.incrementalAlterConfigs(
            Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(key, value), op))),
            new AlterConfigsOptions().validateOnly(true).timeoutMs(5000)).values());
    }

    private void quotas() {
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of("user", tour.name("user")));
        for (String key : List.of("producer_byte_rate", "request_percentage", "connection_creation_rate", "made_up")) {
            for (Double value : List.of(10.0, 1.5, 0.0, -1.0)) {
                tour.call("quota: " + key + "=" + value, () -> tour.admin.alterClientQuotas(
                    List.of(new ClientQuotaAlteration(user, List.of(new ClientQuotaAlteration.Op(key, value)))),
                    new AlterClientQuotasOptions().validateOnly(true)));
            }
        }
        for (String type : List.of("ip", "group", "client-id")) {
            ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(type, "not an ip"));
            tour.call("quota of " + type, () -> tour.admin.alterClientQuotas(
                List.of(new ClientQuotaAlteration(
                    entity, List.of(new ClientQuotaAlteration.Op("connection_creation_rate", 10.0)))),
                new AlterClientQuotasOptions().validateOnly(true)));
            tour.call("quotas of " + type, () -> tour.admin.describeClientQuotas(
                ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity(type, "x")))));
        }
        tour.call("quotas: none", () -> tour.admin.describeClientQuotas(
            ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity("user", tour.name("nobody"))))));
    }

    private void credentials() {
        tour.call("credentials: unknown", () ->
            tour.admin.describeUserScramCredentials(List.of(tour.name("nobody"))).all());
        tour.call("credentials: delete unknown", () -> tour.admin.alterUserScramCredentials(
            List.of(new UserScramCredentialDeletion(tour.name("nobody"), ScramMechanism.SCRAM_SHA_256))).values());
        tour.call("credentials: few iterations", () -> tour.admin.alterUserScramCredentials(
            List.of(new UserScramCredentialUpsertion(
                tour.name("nobody"), new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1), "secret"))).values());
    }
}

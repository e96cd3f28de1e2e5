import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.AlterConfigsResult;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.common.config.ConfigResource;

/** Configurations of topics, brokers and groups. A resource is written "TOPIC:orders". */
final class ConfigCommands {
    private final Admin admin;

    ConfigCommands(Admin admin) {
        this.admin = admin;
    }

    void addTo(Map<String, AdminSession.Command> commands) {
        commands.put("describeConfigs", this::describeConfigs);
        commands.put("incrementalAlterConfigs", this::incrementalAlterConfigs);
        commands.put("alterConfigs", this::alterConfigs);
    }

    private Object describeConfigs(JsonNode args) throws Exception {
        List<ConfigResource> resources = Values.list(args.get("resources"), node -> resource(node.asText()));
        DescribeConfigsOptions options = new DescribeConfigsOptions()
            .includeSynonyms(Values.flag(args, "synonyms"))
            .includeDocumentation(Values.flag(args, "documentation"));
        return Values.perKey(byName(admin.describeConfigs(resources, options).values()), ConfigCommands::entries);
    }

    private Object incrementalAlterConfigs(JsonNode args) throws Exception {
        Map<ConfigResource, Collection<AlterConfigOp>> changes = new HashMap<>();
        Values.map(args.get("changes"), ops -> Values.list(ops, ConfigCommands::change))
            .forEach((name, ops) -> changes.put(resource(name), ops));
        AlterConfigsOptions options = new AlterConfigsOptions().validateOnly(Values.flag(args, "validateOnly"));
        return Values.perKey(byName(admin.incrementalAlterConfigs(changes, options).values()), nothing -> null);
    }

    /** The call that replaces a whole configuration; clients have it up to 3.9. */
    private Object alterConfigs(JsonNode args) throws Exception {
        Map<ConfigResource, Config> configs = new HashMap<>();
        Values.map(args.get("configs"), ConfigCommands::config)
            .forEach((name, config) -> configs.put(resource(name), config));
        var method = Admin.class.getMethod("alterConfigs", Map.class);
        AlterConfigsResult altered = (AlterConfigsResult) method.invoke(admin, configs);
        return Values.perKey(byName(altered.values()), nothing -> null);
    }

    private static ConfigResource resource(String name) {
        int colon = name.indexOf(':');
        return new ConfigResource(ConfigResource.Type.valueOf(name.substring(0, colon)), name.substring(colon + 1));
    }

    private static <V> Map<String, V> byName(Map<ConfigResource, V> entries) {
        Map<String, V> named = new HashMap<>();
        entries.forEach((resource, value) -> named.put(resource.type() + ":" + resource.name(), value));
        return named;
    }


    private static AlterConfigOp change(JsonNode change) {
        ConfigEntry entry = new ConfigEntry(change.get("name").asText(), Values.text(change, "value"));
        return new AlterConfigOp(entry, AlterConfigOp.OpType.valueOf(change.get("op").asText()));
    }

    private static Config config(JsonNode entries) {
        List<ConfigEntry> wanted = new ArrayList<>();
        Values.map(entries, JsonNode::asText).forEach((name, value) -> wanted.add(new ConfigEntry(name, value)));
        return new Config(wanted);
    }

    private static Object entries(Config config) {
        Map<String, Object> entries = new HashMap<>();
        for (ConfigEntry entry : config.entries()) {
            List<Object> synonyms = new ArrayList<>();
            entry.synonyms().forEach(synonym -> synonyms.add(Values.entries(
                "name", synonym.name(), "value", synonym.value(), "source", synonym.source().name())));
            entries.put(entry.name(), Values.entries(
                "value", entry.value(), "source", entry.source().name(), "type", entry.type().name(),
                "sensitive", entry.isSensitive(), "readOnly", entry.isReadOnly(), "synonyms", synonyms,
                "documentation", entry.documentation()));
        }
        return entries;
    }
}

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.LogDirDescription;

/** The brokers, their disks and the cluster's features. */
final class ClusterCommands {
    private final Admin admin;

    ClusterCommands(Admin admin) {
        this.admin = admin;
    }

    void addTo(Map<String, AdminSession.Command> commands) {
        commands.put("describeCluster", this::describeCluster);
        commands.put("describeLogDirs", this::describeLogDirs);
        commands.put("describeFeatures", this::describeFeatures);
    }

    private Object describeCluster(JsonNode args) throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        List<Object> nodes = new ArrayList<>();
        cluster.nodes().get().forEach(node -> nodes.add(Values.node(node)));
        return Values.entries(
            "clusterId", cluster.clusterId().get(), "controller", cluster.controller().get().id(), "nodes", nodes);
    }

    private Object describeLogDirs(JsonNode args) throws Exception {
        List<Integer> brokers = Values.list(args.get("brokers"), JsonNode::asInt);
        return Values.perKey(admin.describeLogDirs(brokers).descriptions(), directories -> {
            Map<String, Object> described = new HashMap<>();
            directories.forEach((path, directory) -> described.put(path, directory(directory)));
            return described;
        });
    }

    private static Object directory(LogDirDescription directory) {
        Map<String, Object> replicas = new HashMap<>();
        directory.replicaInfos().forEach((partition, replica) -> replicas.put(partition.toString(), Values.entries(
            "size", replica.size(), "offsetLag", replica.offsetLag(), "future", replica.isFuture())));
        return Values.entries(
            "error", directory.error() == null ? null : Values.error(directory.error()),
            "totalBytes", directory.totalBytes().isPresent() ? directory.totalBytes().getAsLong() : null,
            "usableBytes", directory.usableBytes().isPresent() ? directory.usableBytes().getAsLong() : null,
            "replicas", replicas);
    }

    private Object describeFeatures(JsonNode args) throws Exception {
        var features = admin.describeFeatures().featureMetadata().get();
        Map<String, Object> finalized = new HashMap<>();
        features.finalizedFeatures().forEach((name, range) -> finalized.put(name, (int) range.maxVersionLevel()));
        Map<String, Object> supported = new HashMap<>();
        features.supportedFeatures().forEach((name, range) -> supported.put(
            name, List.of((int) range.minVersion(), (int) range.maxVersion())));
        return Values.entries("finalized", finalized, "supported", supported);
    }
}

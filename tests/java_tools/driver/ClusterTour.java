import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

/** The cluster, its features, its quorum and its security, which is off. */
final class ClusterTour {
    private final Tour tour;

    ClusterTour(Tour tour) {
        this.tour = tour;
    }

    void run() {
        tour.call("cluster", () -> tour.admin.describeCluster(
            new DescribeClusterOptions().includeAuthorizedOperations(true)));
        features();
        security();
        tour.call("quorum", () -> tour.admin.describeMetadataQuorum().quorumInfo());
        tour.call("unregister: unknown", () -> tour.admin.unregisterBroker(99).all());
    }

    private void features() {
        tour.call("features", () -> tour.admin.describeFeatures().featureMetadata());
        Map<String, FeatureUpdate> updates = Map.of(
            "made.up", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE),
            "metadata.version", new FeatureUpdate((short) 999, FeatureUpdate.UpgradeType.UPGRADE),
            "group.version", new FeatureUpdate((short) 0, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE));
        updates.forEach((name, update) -> tour.call("feature: " + name, () -> tour.admin.updateFeatures(
            Map.of(name, update), new UpdateFeaturesOptions().validateOnly(true)).values()));
    }

    private void security() {
        AclBinding rule = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "x", PatternType.LITERAL),
            new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
        tour.call("acls", () -> tour.admin.describeAcls(AclBindingFilter.ANY).values());
        tour.call("acls: create", () -> tour.admin.createAcls(List.of(rule)).values());
        tour.call("acls: delete", () -> tour.admin.deleteAcls(List.of(AclBindingFilter.ANY)).values());
        tour.call("token: create", () ->
            tour.admin.createDelegationToken(new CreateDelegationTokenOptions()).delegationToken());
        tour.call("token: renew", () -> tour.admin.renewDelegationToken(new byte[] {1}).expiryTimestamp());
        tour.call("token: expire", () -> tour.admin.expireDelegationToken(new byte[] {1}).expiryTimestamp());
        tour.call("tokens", () -> tour.admin.describeDelegationToken().delegationTokens());
    }
}

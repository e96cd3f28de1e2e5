import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;

/** An admin client; its commands are grouped as Kafka's APIs are. */
final class AdminSession implements Session {
    private final Admin admin;
    private final String bootstrapServers;
    private final Map<String, Command> commands = new HashMap<>();

    AdminSession(Map<String, Object> config) {
        admin = Admin.create(config);
        bootstrapServers = String.valueOf(config.get("bootstrap.servers"));
        new TopicCommands(admin).addTo(commands);
        new ConfigCommands(admin).addTo(commands);
        new GroupCommands(admin).addTo(commands);
        new ClusterCommands(admin).addTo(commands);
        commands.put("tour", this::tour);
    }

    @Override
    public Object run(String op, JsonNode args) throws Exception {
        Command command = commands.get(op);
        if (command == null) {
            throw new IllegalArgumentException("an admin client has no " + op);
        }
        return command.run(args);
    }

    /** Calls every method of the client, with good and bad input. */
    private Object tour(JsonNode args) throws Exception {
        Tour tour = new Tour(admin, args.get("prefix").asText());
        new ClusterTour(tour).run();
        new TopicTour(tour).run();
        new ConfigTour(tour).run();
        new GroupTour(tour).run();
        new EdgeTour(tour).run();
        new LiveTour(tour, bootstrapServers).run();
        tour.call("methods that were not called", tour::uncalled);
        return tour.told();
    }

    @Override
    public void close() {
        admin.close(java.time.Duration.ofSeconds(5));
    }

    interface Command {
        Object run(JsonNode args) throws Exception;
    }
}

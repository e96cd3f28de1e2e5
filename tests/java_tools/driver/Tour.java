import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigResource;

/** Calls of an admin client, good and bad, in order, each with everything its result tells. */
final class Tour {
    final Admin admin;
    /** Starts every name that the tour makes up, so that two tours do not meet. */
    final String prefix;
    private final Map<String, Object> told = new LinkedHashMap<>();

    Tour(Admin admin, String prefix) {
        this.admin = admin;
        this.prefix = prefix;
    }

    Map<String, Object> told() {
        return told;
    }

    String name(String stem) {
        return prefix + stem;
    }

    /** Creates a topic and waits until every broker knows it. */
    void create(NewTopic topic) throws Exception {
        admin.createTopics(List.of(topic)).all().get();
        await(topic.name());
    }

    /** Waits until every broker knows a topic: the client asks one broker after the other. */
    void await(String topic) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        for (int known = 0; known < 10; known++) {
            try {
                admin.describeTopics(List.of(topic)).allTopicNames().get();
                admin.describeConfigs(List.of(resource)).all().get();
            } catch (ExecutionException failure) {
                known = 0;
            }
        }
    }

    /** Makes a call and notes its result, or the exception that it throws at once. */
    void call(String what, Callable<Object> call) {
        Object result;
        try {
            result = Dump.of(call.call());
        } catch (Exception failure) {
            result = Dump.of(failure);
        }
        if (told.put(what, result) != null) {
            throw new IllegalStateException("two calls are named " + what);
        }
    }

    /** Calls a method that only some releases of the client have. */
    void callIfThere(String method, Object... arguments) {
        call(method + describe(arguments), () -> {
            for (Method candidate : Admin.class.getMethods()) {
                if (candidate.getName().equals(method) && fits(candidate, arguments)) {
                    try {
                        return candidate.invoke(admin, arguments);
                    } catch (InvocationTargetException failure) {
                        return failure.getCause();
                    }
                }
            }
            return "this client has no such method";
        });
    }

    private String describe(Object[] arguments) {
        StringBuilder text = new StringBuilder();
        for (Object argument : arguments) {
            text.append(' ').append(String.valueOf(argument).replace(prefix, ""));
        }
        return text.toString();
    }

    private static boolean fits(Method method, Object[] arguments) {
        Class<?>[] types = method.getParameterTypes();
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            boolean boxed = types[i] == int.class && arguments[i] instanceof Integer;
            if (!boxed && !types[i].isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }
}

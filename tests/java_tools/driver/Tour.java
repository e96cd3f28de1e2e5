import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
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

    private final Set<String> called = new TreeSet<>();

    Tour(Admin admin, String prefix) {
        this.admin = (Admin) Proxy.newProxyInstance(
            Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, (self, method, arguments) -> {
                called.add(method.getName());
                try {
                    return method.invoke(admin, arguments);
                } catch (InvocationTargetException failure) {
                    throw failure.getCause();
                }
            });
        this.prefix = prefix;
    }

    /** The methods of this release's client that the tour has left out. */
    Object uncalled() {
        Set<String> methods = new TreeSet<>();
        for (Method method : Admin.class.getMethods()) {
            if (!Modifier.isStatic(method.getModifiers())) {
                methods.add(method.getName());
            }
        }
        methods.removeAll(called);
        return methods;
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
        call(method + describe(arguments), () -> reflect(method, arguments));
    }

    Object reflect(String method, Object... arguments) throws IllegalAccessException {
        for (Method candidate : Admin.class.getMethods()) {
            if (candidate.getName().equals(method) && fits(candidate, arguments)) {
                try {
                    return candidate.invoke(admin, completed(candidate, arguments));
                } catch (InvocationTargetException failure) {
                    return failure.getCause();
                }
            }
        }
        return "this client has no such method";
    }

    /** The arguments, with default options if the method wants some. */
    private static Object[] completed(Method method, Object[] arguments) {
        Class<?>[] types = method.getParameterTypes();
        if (types.length == arguments.length) {
            return arguments;
        }
        Object[] all = Arrays.copyOf(arguments, types.length);
        try {
            all[arguments.length] = types[arguments.length].getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException failure) {
            throw new IllegalStateException(failure);
        }
        return all;
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
        boolean isOptional = types.length == arguments.length + 1
            && types[arguments.length].getSimpleName().endsWith("Options");
        if (types.length != arguments.length && !isOptional) {
            return false;
        }
        for (int i = 0; i < arguments.length; i++) {
            boolean boxed = types[i] == int.class && arguments[i] instanceof Integer;
            if (!boxed && !types[i].isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }
}

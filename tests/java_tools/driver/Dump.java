import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.KafkaFuture;

/**
 * Everything that a result of Kafka's clients tells, as JSON: each public method without parameters is a
 * field, a future is its value or its error.
 */
final class Dump {
    private static final int WAIT_SECONDS = 60;
    private static final int MAX_DEPTH = 9;
    private static final Set<String> UNTOLD = Set.of(
        "hashCode", "toString", "getClass", "notify", "notifyAll", "wait", "clone", "close",
        // Methods that make another object of the same class.
        "toConfigs", "toFilter", "build");

    private Dump() {}

    static Object of(Object value) {
        return of(value, 0);
    }

    private static Object of(Object value, int depth) {
        if (value == null || value instanceof Number || value instanceof Boolean || value instanceof String) {
            return value;
        }
        if (value instanceof Throwable) {
            return Values.entries("error", Values.error((Throwable) value));
        }
        if (value instanceof KafkaFuture) {
            try {
                return of(((KafkaFuture<?>) value).get(WAIT_SECONDS, TimeUnit.SECONDS), depth);
            } catch (Exception failure) {
                return of(failure, depth);
            }
        }
        if (value instanceof Optional) {
            return ((Optional<?>) value).map(inner -> of(inner, depth)).orElse(null);
        }
        if (value instanceof OptionalInt) {
            return ((OptionalInt) value).isPresent() ? ((OptionalInt) value).getAsInt() : null;
        }
        if (value instanceof OptionalLong) {
            return ((OptionalLong) value).isPresent() ? ((OptionalLong) value).getAsLong() : null;
        }
        if (value instanceof OptionalDouble) {
            return ((OptionalDouble) value).isPresent() ? ((OptionalDouble) value).getAsDouble() : null;
        }
        if (value instanceof Map) {
            Map<String, Object> entries = new TreeMap<>();
            ((Map<?, ?>) value).forEach((key, inner) -> entries.put(String.valueOf(key), of(inner, depth + 1)));
            return entries;
        }
        if (value instanceof Collection) {
            List<Object> items = new ArrayList<>();
            ((Collection<?>) value).forEach(item -> items.add(of(item, depth + 1)));
            if (!(value instanceof List)) {
                items.sort(Comparator.comparing(String::valueOf));
            }
            return items;
        }
        if (value instanceof Enum || value instanceof ByteBuffer || depth > MAX_DEPTH || !isKafkas(value)) {
            return value.toString();
        }
        return fields(value, depth);
    }

    private static boolean isKafkas(Object value) {
        String name = value.getClass().getName();
        return name.startsWith("org.apache.kafka.") && !name.equals("org.apache.kafka.common.Uuid");
    }

    private static Object fields(Object value, int depth) {
        Map<String, Object> told = new TreeMap<>();
        for (Method method : value.getClass().getMethods()) {
            boolean tells = method.getParameterCount() == 0 && method.getReturnType() != void.class
                && !Modifier.isStatic(method.getModifiers()) && !UNTOLD.contains(method.getName())
                && !method.getReturnType().isInstance(value) && Modifier.isPublic(method.getDeclaringClass().getModifiers());
            if (tells) {
                told.put(method.getName(), of(called(value, method), depth + 1));
            }
        }
        return told.isEmpty() ? value.toString() : told;
    }

    private static Object called(Object value, Method method) {
        try {
            return method.invoke(value);
        } catch (InvocationTargetException failure) {
            return failure.getCause();
        } catch (IllegalAccessException failure) {
            return failure;
        }
    }
}

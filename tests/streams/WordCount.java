import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the words of one topic into another; every change of a count is a separate record.
 *
 * <p>Arguments: the input topic, the output topic, and settings of Kafka Streams as name=value.
 */
public final class WordCount {

    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        Arrays.stream(arguments)
            .skip(2)
            .map(setting -> setting.split("=", 2))
            .forEach(pair -> settings.put(pair[0], pair[1]));
        KafkaStreams streams = new KafkaStreams(topology(arguments[0], arguments[1]).build(), settings);
        CountDownLatch end = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            end.countDown();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
                .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        end.await();
        System.exit(1);
    }

    private static StreamsBuilder topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(input, Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(
                Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                    .withKeySerde(Serdes.String())
                    .withValueSerde(Serdes.Long())
                    .withLoggingEnabled(Map.of())
            )
            .toStream()
            .to(output, Produced.with(Serdes.String(), Serdes.Long()));
        return builder;
    }

    private WordCount() {}
}

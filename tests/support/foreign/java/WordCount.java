import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the words in a topic, exactly once, with Kafka Streams.
 *
 * <p>Each record of the input topic is a word. For each, the output topic gets a record: the word
 * and how often it has been there. Counts are in memory and in a changelog topic. SIGTERM ends the
 * program in order.
 */
public final class WordCount {
  private static Properties settings(String bootstrap, String application, String folder) {
    Properties found = new Properties();
    found.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    found.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
    found.put(StreamsConfig.STATE_DIR_CONFIG, folder);
    found.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    found.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
    found.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    found.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 3);
    found.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    found.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 500);
    found.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    found.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    found.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    return found;
  }

  /** Arguments: bootstrap.servers, application.id, the topics of input and output, state.dir. */
  public static void main(String[] arguments) throws Exception {
    StreamsBuilder builder = new StreamsBuilder();
    builder.<String, String>stream(arguments[2])
        .groupBy((key, word) -> word)
        .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
            .withCachingDisabled().withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
        .toStream()
        .mapValues(String::valueOf)
        .to(arguments[3]);
    KafkaStreams streams =
        new KafkaStreams(builder.build(), settings(arguments[0], arguments[1], arguments[4]));
    streams.setStateListener((now, before) -> System.out.println(before + " -> " + now));
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }
}

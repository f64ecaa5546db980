import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Has Kafka's own producer and consumers ask for groups and transactions, and prints what comes of
 * each: the value that was read, or the error, after a tab.
 *
 * <p>Arguments: bootstrap.servers, and a topic whose partition 0 has a record.
 */
public final class Clients {
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  private interface Deed {
    String done() throws Exception;
  }

  private final String bootstrap;
  private final TopicPartition partition;
  private int groups;

  private Clients(String bootstrap, String topic) {
    this.bootstrap = bootstrap;
    this.partition = new TopicPartition(topic, 0);
  }

  private KafkaConsumer<byte[], byte[]> consumer(String protocol) {
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", bootstrap);
    config.put("group.id", "g" + groups++);
    config.put("group.protocol", protocol);
    config.put("auto.offset.reset", "earliest");
    config.put("enable.auto.commit", "true");
    config.put("auto.commit.interval.ms", "100");
    config.put("default.api.timeout.ms", (int) PATIENCE.toMillis());
    return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  private String subscribed(String protocol) {
    try (var consumer = consumer(protocol)) {
      consumer.subscribe(List.of(partition.topic()));
      return polled(consumer);
    }
  }

  private String assigned(String protocol) {
    try (var consumer = consumer(protocol)) {
      consumer.assign(List.of(partition));
      return polled(consumer);
    }
  }

  private String committed(String protocol) {
    try (var consumer = consumer(protocol)) {
      consumer.assign(List.of(partition));
      consumer.commitSync(Map.of(partition, new OffsetAndMetadata(1)));
      return "committed";
    }
  }

  /** The value of the first record. */
  private static String polled(KafkaConsumer<byte[], byte[]> consumer) {
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (System.nanoTime() < end) {
      for (var record : consumer.poll(Duration.ofMillis(200))) {
        return new String(record.value());
      }
    }
    return "nothing within " + PATIENCE;
  }

  private String shared() {
    Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "group.id", "s");
    try (var consumer = new KafkaShareConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      consumer.subscribe(List.of(partition.topic()));
      long end = System.nanoTime() + PATIENCE.toNanos();
      while (System.nanoTime() < end) {
        consumer.poll(Duration.ofMillis(200));
      }
      return "nothing within " + PATIENCE;
    }
  }

  private String transacted() {
    Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "transactional.id", "clients",
        "max.block.ms", PATIENCE.toMillis());
    try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
      producer.initTransactions();
      return "initialised";
    }
  }

  public static void main(String[] arguments) {
    Clients clients = new Clients(arguments[0], arguments[1]);
    Map<String, Deed> deeds = new LinkedHashMap<>();
    for (String protocol : List.of("classic", "consumer")) {
      deeds.put("assign " + protocol, () -> clients.assigned(protocol));
      deeds.put("subscribe " + protocol, () -> clients.subscribed(protocol));
      deeds.put("commit " + protocol, () -> clients.committed(protocol));
    }
    deeds.put("share", clients::shared);
    deeds.put("transaction", clients::transacted);
    deeds.forEach((name, deed) -> {
      String outcome;
      try {
        outcome = deed.done();
      } catch (Exception error) {
        outcome = error.getClass().getSimpleName() + ": " + error.getMessage();
      }
      System.out.println(name + "\t" + outcome);
    });
  }
}

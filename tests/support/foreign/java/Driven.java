import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's own consumers and producers, any number of them, driven line by line.
 *
 * <p>Each line of the input is a command: {"id": 1, "client": "c", "do": "commit", ...}. The first
 * command of a client makes it: "consumer" or "producer", with its "config". The output has one
 * line for each command, {"id": 1, "result": ...} or {"id": 1, "error": class, "message": ...},
 * and lines for what happens to consumers: {"client": "c", "event": "assigned", ...}. Partitions
 * are written "topic-0". A client does its commands in order; clients run side by side. A consumer
 * that has subscribed polls all the time between its commands. After "close" its name is free for
 * another client. The end of the input ends the program at once, as a kill does.
 */
public final class Driven {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration POLL = Duration.ofMillis(50);

  private interface Deed {
    Object done(JsonNode command) throws Exception;
  }

  /** A client with a thread of its own. */
  private abstract class Client extends Thread {
    final LinkedBlockingQueue<JsonNode> commands = new LinkedBlockingQueue<>();
    final Map<String, Deed> deeds = new HashMap<>();
    boolean closed = false;

    Client(String name) {
      super(name);
      setDaemon(true);
    }

    /** Ends the thread; the next command with this name makes another client. */
    Object closed() {
      clients.remove(getName());
      return closed = true;
    }

    /** Does something between commands; returns how long to wait for the next one. */
    abstract long idleMs();

    @Override
    public void run() {
      while (!closed) {
        try {
          JsonNode command = commands.poll(idleMs(), TimeUnit.MILLISECONDS);
          if (command != null) {
            answer(command, deeds.get(command.get("do").asText()));
          }
        } catch (Exception error) {
          event(getName(), "error", Map.of("error", name(error), "message", text(error)));
        }
      }
    }
  }

  private final class Consumer extends Client implements ConsumerRebalanceListener {
    final KafkaConsumer<String, String> consumer;
    volatile ConsumerGroupMetadata metadata;
    boolean polls = false;

    Consumer(String name, Map<String, Object> config) {
      super(name);
      consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
      deeds.put("subscribe", this::subscribed);
      deeds.put("assign", command -> {
        consumer.assign(partitions(command.get("partitions")));
        return polls = true;
      });
      deeds.put("polls", command -> polls = command.get("on").asBoolean());
      deeds.put("commit", this::committed);
      deeds.put("committed", command -> {
        Map<String, Long> found = new TreeMap<>();
        consumer.committed(partitions(command.get("partitions"))).forEach((partition, offset) ->
            found.put(partition.toString(), offset == null ? null : offset.offset()));
        return found;
      });
      deeds.put("assignment", command -> names(consumer.assignment()));
      deeds.put("member", command -> member());
      deeds.put("close", command -> {
        consumer.close();
        return closed();
      });
    }

    /** To topics, to a pattern that the client matches, or to an expression for the brokers. */
    private Object subscribed(JsonNode command) {
      if (command.has("pattern")) {
        consumer.subscribe(Pattern.compile(command.get("pattern").asText()), this);
      } else if (command.has("expression")) {
        consumer.subscribe(new SubscriptionPattern(command.get("expression").asText()), this);
      } else {
        List<String> topics = new ArrayList<>();
        command.get("topics").forEach(topic -> topics.add(topic.asText()));
        consumer.subscribe(topics, this);
      }
      return polls = true;
    }

    /** Commits the given offsets, or the positions. */
    private Object committed(JsonNode command) {
      if (command.has("offsets")) {
        consumer.commitSync(offsets(command.get("offsets")));
      } else {
        consumer.commitSync();
      }
      return null;
    }

    private Object member() {
      var metadata = consumer.groupMetadata();
      Map<String, Object> found = new LinkedHashMap<>();
      found.put("member", metadata.memberId());
      found.put("generation", metadata.generationId());
      found.put("instance", metadata.groupInstanceId().orElse(null));
      return found;
    }

    @Override
    long idleMs() {
      if (!polls) {
        return POLL.toMillis();
      }
      for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("partition", record.topic() + "-" + record.partition());
        seen.put("offset", record.offset());
        seen.put("value", record.value());
        event(getName(), "record", seen);
      }
      metadata = consumer.groupMetadata();
      return 0;
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      event(getName(), "assigned", Map.of("partitions", names(partitions)));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      event(getName(), "revoked", Map.of("partitions", names(partitions)));
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
      event(getName(), "lost", Map.of("partitions", names(partitions)));
    }
  }

  private final class Producer extends Client {
    final KafkaProducer<String, String> producer;

    Producer(String name, Map<String, Object> config) {
      super(name);
      producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
      deeds.put("send", this::sent);
      deeds.put("init", command -> done(producer::initTransactions));
      deeds.put("begin", command -> done(producer::beginTransaction));
      deeds.put("commit", command -> done(producer::commitTransaction));
      deeds.put("abort", command -> done(producer::abortTransaction));
      deeds.put("send_offsets", this::sentOffsets);
      deeds.put("close", command -> {
        producer.close(Duration.ofSeconds(10));
        return closed();
      });
    }

    /** The offset of the record, once it is acknowledged. */
    private Object sent(JsonNode command) throws Exception {
      var record = new ProducerRecord<String, String>(command.get("topic").asText(),
          command.get("partition").asInt(), null, command.get("value").asText());
      return producer.send(record).get().offset();
    }

    /** Adds offsets of a consumer, as the member that it was after its last poll. */
    private Object sentOffsets(JsonNode command) {
      var metadata = ((Consumer) clients.get(command.get("of").asText())).metadata;
      producer.sendOffsetsToTransaction(offsets(command.get("offsets")), metadata);
      return null;
    }

    @Override
    long idleMs() {
      return 1000;
    }
  }

  private final Map<String, Client> clients = new ConcurrentHashMap<>();
  private final String bootstrap;

  private Driven(String bootstrap) {
    this.bootstrap = bootstrap;
  }

  private static Object done(Runnable deed) {
    deed.run();
    return null;
  }

  private static String name(Exception error) {
    return error.getClass().getSimpleName();
  }

  private static String text(Exception error) {
    return String.valueOf(error.getMessage());
  }

  private static List<String> names(Collection<TopicPartition> partitions) {
    return partitions.stream().map(TopicPartition::toString).sorted().toList();
  }

  private static TopicPartition partition(String name) {
    int dash = name.lastIndexOf('-');
    return new TopicPartition(name.substring(0, dash), Integer.parseInt(name.substring(dash + 1)));
  }

  private static Set<TopicPartition> partitions(JsonNode names) {
    Set<TopicPartition> found = new HashSet<>();
    names.forEach(name -> found.add(partition(name.asText())));
    return found;
  }

  private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode given) {
    Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
    given.properties().forEach(each ->
        found.put(partition(each.getKey()), new OffsetAndMetadata(each.getValue().asLong())));
    return found;
  }

  private static void print(Map<String, Object> line) {
    try {
      String text = JSON.writeValueAsString(line);
      synchronized (System.out) {
        System.out.println(text);
        System.out.flush();
      }
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  private static void event(String client, String event, Map<String, Object> values) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("client", client);
    line.put("event", event);
    line.putAll(values);
    print(line);
  }

  private static void answer(JsonNode command, Deed deed) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("id", command.get("id").asInt());
    try {
      if (deed == null) {
        throw new IllegalArgumentException("no such command: " + command.get("do"));
      }
      line.put("result", deed.done(command));
    } catch (Exception error) {
      boolean wrapped = error instanceof java.util.concurrent.ExecutionException;
      Exception cause = wrapped ? (Exception) error.getCause() : error;
      line.put("error", name(cause));
      line.put("message", text(cause));
    }
    print(line);
  }

  private Object made(JsonNode command) {
    Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
    command.get("config").properties().forEach(
        each -> config.put(each.getKey(), each.getValue().asText()));
    String name = command.get("client").asText();
    Client client = command.get("do").asText().equals("consumer")
        ? new Consumer(name, config) : new Producer(name, config);
    clients.put(name, client);
    client.start();
    return null;
  }

  /** Argument: bootstrap.servers. */
  public static void main(String[] arguments) throws Exception {
    Driven driven = new Driven(arguments[0]);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode command = JSON.readTree(line);
      Client client = driven.clients.get(command.get("client").asText());
      if (client == null) {
        answer(command, driven::made);
      } else {
        client.commands.add(command);
      }
    }
    Runtime.getRuntime().halt(0);
  }
}

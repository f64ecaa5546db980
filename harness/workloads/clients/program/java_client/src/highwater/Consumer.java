package highwater;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer: a member of a group, or with assigned partitions. */
final class Consumer extends Client implements ConsumerRebalanceListener {
  private static final int FETCH_WAIT_MS = 100;

  private KafkaConsumer<byte[], byte[]> consumer;
  private Duration call;
  private boolean vanishes = false;
  private boolean several = false; // whether the consumer has several topics

  Consumer(int number) {
    super(number);
    deeds.put("open-consumer", (command, answer) -> open(command));
    deeds.put("assign", (command, answer) -> assign(command));
    deeds.put("subscribe", (command, answer) -> subscribe(command));
    deeds.put("poll", this::poll);
    deeds.put("commit", (command, answer) -> consumer.commitSync(Wire.offsets(command), call));
    deeds.put("committed", this::committed);
    deeds.put("seek", (command, answer) ->
        Wire.positions(command, "positions").forEach(consumer::seek));
    deeds.put("offsets", this::offsets);
    deeds.put("group-metadata", this::metadata);
    deeds.put("close", (command, answer) -> close(command.path("leave").asBoolean(true)));
  }

  private void open(JsonNode command) throws IOException {
    int callMs = command.get("call_timeout_ms").asInt();
    call = Duration.ofMillis(callMs);
    Map<String, Object> config = Settings.of(command);
    config.put("enable.auto.commit", false);
    config.put("auto.offset.reset", "none"); // so that a reset is an error, which is recorded
    config.put("isolation.level", command.get("isolation_level").asText());
    config.put("max.poll.records", command.get("max_records").asInt());
    config.put("fetch.max.wait.ms", FETCH_WAIT_MS);
    config.put("request.timeout.ms", callMs);
    config.put("default.api.timeout.ms", callMs);
    config.put("allow.auto.create.topics", false);
    if (command.hasNonNull("group")) {
      String protocol = command.get("protocol").asText();
      config.put("group.id", command.get("group").asText());
      config.put("group.protocol", protocol);
      config.put("max.poll.interval.ms", command.get("max_poll_interval_ms").asInt());
      if (protocol.equals("classic")) {
        config.put("session.timeout.ms", command.get("session_timeout_ms").asInt());
        config.put("heartbeat.interval.ms", command.get("heartbeat_interval_ms").asInt());
      }
      if (command.hasNonNull("instance_id")) {
        config.put("group.instance.id", command.get("instance_id").asText());
      }
    }
    consumer = new KafkaConsumer<>(
        config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  private void assign(JsonNode command) {
    Map<TopicPartition, Long> positions = Wire.positions(command, "positions");
    consumer.assign(positions.keySet());
    positions.forEach(consumer::seek);
  }

  private void subscribe(JsonNode command) {
    List<String> topics = new ArrayList<>();
    if (command.has("topics")) {
      command.get("topics").forEach(each -> topics.add(each.asText()));
    } else {
      topics.add(command.get("topic").asText());
    }
    several = topics.size() > 1;
    consumer.subscribe(topics, this);
  }

  private void poll(JsonNode command, Map<String, Object> answer) {
    List<Object> found = new ArrayList<>();
    for (ConsumerRecord<byte[], byte[]> each
        : consumer.poll(Duration.ofMillis(command.get("timeout_ms").asLong()))) {
      Epochs.note(each);
      byte[] value = each.value();
      List<Object> row = new ArrayList<>(Arrays.asList(
          each.partition(), each.offset(), each.leaderEpoch().orElse(null),
          value == null ? null : Base64.getEncoder().encodeToString(value)));
      if (several) {
        row.add(each.topic());
      }
      found.add(row);
    }
    answer.put("records", found);
  }

  private void committed(JsonNode command, Map<String, Object> answer) {
    Map<String, Long> found = new HashMap<>();
    Map<TopicPartition, OffsetAndMetadata> known =
        consumer.committed(Wire.partitions(command), call);
    known.forEach((partition, offset) -> found.put(
        String.valueOf(partition.partition()), offset == null ? null : offset.offset()));
    answer.put("offsets", found);
  }

  private void offsets(JsonNode command, Map<String, Object> answer) {
    var partition = new TopicPartition(
        command.get("topic").asText(), command.get("partition").asInt());
    answer.put("beginning", consumer.beginningOffsets(Set.of(partition), call).get(partition));
    answer.put("end", consumer.endOffsets(Set.of(partition), call).get(partition));
  }

  private void metadata(JsonNode command, Map<String, Object> answer) {
    ConsumerGroupMetadata member = consumer.groupMetadata();
    Map<String, Object> found = new HashMap<>();
    found.put("generation", member.generationId());
    found.put("member", member.memberId());
    found.put("instance", member.groupInstanceId().orElse(null));
    answer.put("generation", member.generationId());
    answer.put("metadata", found);
  }

  private void close(boolean leave) {
    closed = true;
    vanishes = !leave;
    if (consumer != null) {
      consumer.close(CloseOptions.timeout(call).withGroupMembershipOperation(leave
          ? CloseOptions.GroupMembershipOperation.LEAVE_GROUP
          : CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
    }
  }

  // -- rebalances, which happen inside of poll and close

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    Map<TopicPartition, Long> positions = new HashMap<>();
    try {
      Map<TopicPartition, OffsetAndMetadata> known =
          partitions.isEmpty() ? Map.of() : consumer.committed(Set.copyOf(partitions), call);
      for (TopicPartition each : partitions) {
        OffsetAndMetadata offset = known.get(each);
        OffsetAndMetadata position = offset == null ? new OffsetAndMetadata(0) : offset;
        consumer.seek(each, position);
        positions.put(each, position.offset());
      }
    } catch (KafkaException error) {
      tell("error", Map.of("error", Failures.of(error).get("name")));
      partitions.forEach(each -> positions.put(each, null));
    }
    Wire.byTopic(partitions).forEach((topic, numbers) -> {
      Map<String, Long> here = new HashMap<>();
      numbers.forEach(number -> here.put(
          String.valueOf(number), positions.get(new TopicPartition(topic, number))));
      tellOf(topic, "assigned", Map.of(
          "positions", here, "generation", consumer.groupMetadata().generationId()));
    });
    if (partitions.isEmpty()) {
      tell("assigned", Map.of(
          "positions", Map.of(), "generation", consumer.groupMetadata().generationId()));
    }
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    if (partitions.isEmpty() || vanishes) {
      return; // the library calls back although it stays in the group
    }
    try {
      for (Map.Entry<String, List<Integer>> each : Wire.byTopic(partitions).entrySet()) {
        tellOf(each.getKey(), "revoked", Map.of("partitions", each.getValue()));
        JsonNode command = commands.take();
        while (!command.get("do").asText().equals("resume")) {
          act(command);
          command = commands.take();
        }
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void onPartitionsLost(Collection<TopicPartition> partitions) {
    if (vanishes) {
      return;
    }
    Wire.byTopic(partitions).forEach(
        (topic, numbers) -> tellOf(topic, "lost", Map.of("partitions", numbers)));
  }

  /** Writes an event about partitions of a topic. */
  private void tellOf(String topic, String event, Map<String, Object> values) {
    Map<String, Object> named = new HashMap<>(values);
    if (several) {
      named.put("topic", topic);
    }
    tell(event, named);
  }
}

package highwater;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A producer, maybe with a transactional id. Outcomes are collected and written soon. */
final class Producer extends Client {
  private static final int COLLECT_MS = 2;

  private KafkaProducer<byte[], byte[]> producer;
  private final Object collected = new Object();
  private List<Object> acked = new ArrayList<>();
  private List<Object> failed = new ArrayList<>();
  private boolean silent = false;

  Producer(int number) {
    super(number);
    deeds.put("open-producer", (command, answer) -> open(command));
    deeds.put("send", (command, answer) -> send(command));
    deeds.put("flush", (command, answer) -> flush());
    deeds.put("init-transactions", (command, answer) -> producer.initTransactions());
    deeds.put("begin-transaction", (command, answer) -> producer.beginTransaction());
    deeds.put("send-offsets", (command, answer) -> producer.sendOffsetsToTransaction(
        Wire.offsets(command), member(command)));
    deeds.put("commit-transaction", (command, answer) -> producer.commitTransaction());
    deeds.put("abort-transaction", (command, answer) -> producer.abortTransaction());
    deeds.put("close", (command, answer) -> close());
  }

  private void open(JsonNode command) throws IOException {
    Map<String, Object> config = Settings.of(command);
    int timeoutMs = command.get("timeout_ms").asInt();
    int lingerMs = (int) Math.ceil(command.get("linger_ms").asDouble());
    // The library wants: delivery.timeout.ms >= linger.ms + request.timeout.ms.
    int requestMs = Math.max(1, Math.min(
        command.get("request_timeout_ms").asInt(), timeoutMs - lingerMs));
    config.put("acks", command.get("acks").asText());
    config.put("enable.idempotence", command.get("idempotence").asBoolean());
    config.put("linger.ms", lingerMs);
    config.put("delivery.timeout.ms", Math.max(timeoutMs, lingerMs + requestMs));
    config.put("request.timeout.ms", requestMs);
    config.put("max.block.ms", command.get("call_timeout_ms").asInt());
    if (command.hasNonNull("transactional_id")) {
      config.put("transactional.id", command.get("transactional_id").asText());
      config.put("transaction.timeout.ms", command.get("transaction_timeout_ms").asInt());
    }
    producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    Thread writer = new Thread(this::write, "outcomes " + number);
    writer.setDaemon(true);
    writer.start();
  }

  private void send(JsonNode command) {
    String topic = command.get("topic").asText();
    for (JsonNode each : command.get("records")) {
      long record = each.get(0).asLong();
      byte[] payload = Wire.bytes(each.path(2));
      byte[] key = Wire.bytes(each.path(3));
      try {
        producer.send(new ProducerRecord<>(topic, each.get(1).asInt(), key, payload),
            (metadata, error) -> ended(record, metadata, error));
      } catch (RuntimeException error) {
        // Refused before it was queued, and without a callback.
        Map<String, Object> why = Failures.of(error);
        why.put("definite", true);
        failed(record, why);
      }
    }
  }

  private void ended(long record, RecordMetadata metadata, Exception error) {
    if (error != null) {
      failed(record, Failures.of(error));
      return;
    }
    synchronized (collected) {
      acked.add(Arrays.asList(record, metadata.hasOffset() ? metadata.offset() : null));
      collected.notifyAll();
    }
  }

  private void failed(long record, Map<String, Object> why) {
    synchronized (collected) {
      failed.add(List.of(record, why));
      collected.notifyAll();
    }
  }

  /** Writes outcomes until the producer is closed. */
  private void write() {
    try {
      while (true) {
        synchronized (collected) {
          while (acked.isEmpty() && failed.isEmpty() && !silent) {
            collected.wait();
          }
          if (silent) {
            return;
          }
        }
        Thread.sleep(COLLECT_MS);
        writeCollected();
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  private void writeCollected() {
    synchronized (collected) {
      if (!silent && !(acked.isEmpty() && failed.isEmpty())) {
        tell("sent", Map.of("acked", acked, "failed", failed));
        acked = new ArrayList<>();
        failed = new ArrayList<>();
      }
    }
  }

  private void flush() {
    producer.flush();
    writeCollected();
  }

  /** The member in whose name offsets are sent; nobody, if the command has none. */
  private static ConsumerGroupMetadata member(JsonNode command) {
    String group = command.get("group").asText();
    JsonNode member = command.get("metadata");
    if (member == null || member.isNull()) {
      return new ConsumerGroupMetadata(group);
    }
    return new ConsumerGroupMetadata(group, member.get("generation").asInt(),
        member.get("member").asText(),
        Optional.ofNullable(member.get("instance").textValue()));
  }

  /** Sends nothing any more. A transaction that is open stays open. */
  private void close() {
    writeCollected();
    synchronized (collected) {
      silent = true;
      collected.notifyAll();
    }
    closed = true;
    if (producer != null) {
      producer.close(Duration.ZERO);
    }
  }
}

package highwater;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Lines of JSON, and what commands have in common. */
final class Wire {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final OutputStream OUT =
      new BufferedOutputStream(new FileOutputStream(FileDescriptor.out), 1 << 16);

  private Wire() {}

  static JsonNode read(String line) throws IOException {
    return JSON.readTree(line);
  }

  /** Writes a line. Without a reader there is nothing left to do. */
  static void write(Map<String, ?> line) {
    try {
      byte[] bytes = JSON.writeValueAsBytes(line);
      synchronized (OUT) {
        OUT.write(bytes);
        OUT.write('\n');
        OUT.flush();
      }
    } catch (IOException error) {
      Runtime.getRuntime().halt(1);
    }
  }

  /** What is in base64; null, if there is nothing. */
  static byte[] bytes(JsonNode text) {
    return text.isTextual() ? Base64.getDecoder().decode(text.asText()) : null;
  }

  /** The {partition: offset} of a command, for its topic. */
  static Map<TopicPartition, Long> positions(JsonNode command, String name) {
    Map<TopicPartition, Long> found = new HashMap<>();
    command.get(name).properties().forEach(each -> found.put(
        new TopicPartition(command.get("topic").asText(), Integer.parseInt(each.getKey())),
        each.getValue().asLong()));
    return found;
  }

  /** The same as offsets to commit. */
  static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode command) {
    Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
    positions(command, "offsets").forEach(
        (partition, offset) -> found.put(partition, Epochs.at(partition, offset)));
    return found;
  }

  static Set<TopicPartition> partitions(JsonNode command) {
    Set<TopicPartition> found = new HashSet<>();
    command.get("partitions").forEach(each ->
        found.add(new TopicPartition(command.get("topic").asText(), each.asInt())));
    return found;
  }

  /** The numbers of partitions, by topic. */
  static Map<String, List<Integer>> byTopic(Collection<TopicPartition> partitions) {
    return partitions.stream().collect(Collectors.groupingBy(
        TopicPartition::topic, TreeMap::new,
        Collectors.mapping(TopicPartition::partition, Collectors.toList())));
  }
}

package highwater;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** Kafka's properties of a client. The protocol's properties have librdkafka's names. */
final class Settings {
  private static final int RECONNECT_MS = 50;
  private static final int MOST_RECONNECT_MS = 500;
  private static final int RETRY_MS = 50;
  private static final int METADATA_MS = 1_000;

  private Settings() {}

  /** What producers and consumers have in common: quick failover, as of the other clients. */
  static Map<String, Object> of(JsonNode command) throws IOException {
    Map<String, Object> found = new HashMap<>();
    found.put("bootstrap.servers", command.get("bootstrap").asText());
    found.put("reconnect.backoff.ms", RECONNECT_MS);
    found.put("reconnect.backoff.max.ms", MOST_RECONNECT_MS);
    found.put("retry.backoff.ms", RETRY_MS);
    found.put("metadata.max.age.ms", METADATA_MS);
    found.put("socket.connection.setup.timeout.ms", 1_000);
    found.put("enable.metrics.push", false);
    found.put("metric.reporters", "");
    Map<String, String> given = new HashMap<>();
    command.get("properties").properties().forEach(
        each -> given.put(each.getKey(), each.getValue().asText()));
    secure(given, found);
    return found;
  }

  private static void secure(Map<String, String> given, Map<String, Object> found)
      throws IOException {
    given.forEach((name, value) -> {
      switch (name) {
        case "security.protocol" -> found.put(name, value);
        case "sasl.mechanism", "sasl.mechanisms" -> found.put("sasl.mechanism", value);
        case "ssl.endpoint.identification.algorithm" ->
            found.put(name, value.equals("none") ? "" : value);
        case "ssl.key.password" -> found.put(name, value);
        default -> { }
      }
    });
    if (given.containsKey("sasl.username")) {
      found.put("sasl.jaas.config", String.format(
          "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" "
              + "password=\"%s\";",
          quoted(given.get("sasl.username")), quoted(given.getOrDefault("sasl.password", ""))));
    }
    if (given.containsKey("ssl.ca.location")) {
      found.put("ssl.truststore.type", "PEM");
      found.put("ssl.truststore.location", given.get("ssl.ca.location"));
    }
    if (given.containsKey("ssl.certificate.location")) {
      found.put("ssl.keystore.type", "PEM");
      found.put("ssl.keystore.certificate.chain", text(given.get("ssl.certificate.location")));
      found.put("ssl.keystore.key", text(given.get("ssl.key.location")));
    }
  }

  private static String quoted(String value) {
    return value.replace("\\", "\\\\").replace("\"", "\\\"");
  }

  private static String text(String path) throws IOException {
    return Files.readString(Path.of(path));
  }
}

package highwater;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * A client of Kafka's Java library that does what highwater writes. Each client has a thread, and
 * does its commands in order. docs/clients-protocol.md describes the lines.
 *
 * <p>The end of the standard input ends the program at once.
 */
abstract class Client implements Runnable {
  /** Does a command, and puts the values of its answer into the map. */
  interface Deed {
    void done(JsonNode command, Map<String, Object> answer) throws Exception;
  }

  private static final int PROTOCOL = 3;
  private static final int KEYS_SINCE = 2;
  private static final Map<Integer, Client> CLIENTS = new ConcurrentHashMap<>();

  final int number;
  final LinkedBlockingQueue<JsonNode> commands = new LinkedBlockingQueue<>();
  final Map<String, Deed> deeds = new HashMap<>();
  boolean closed = false;

  Client(int number) {
    this.number = number;
  }

  /** Does commands until the client is closed. */
  @Override
  public void run() {
    try {
      while (!closed) {
        act(commands.take());
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    } finally {
      CLIENTS.remove(number);
    }
  }

  /** Does a command and answers it. */
  final void act(JsonNode command) {
    String name = command.get("do").asText();
    Map<String, Object> answer = new HashMap<>();
    try {
      Deed deed = deeds.get(name);
      if (deed == null) {
        throw new IllegalArgumentException("no such command: " + name);
      }
      deed.done(command, answer);
    } catch (Exception error) {
      answer.put("error", Failures.of(error));
    }
    if (!name.equals("send") && !name.equals("resume")) {
      answer.put("id", command.get("id").asLong());
      Wire.write(answer);
    }
  }

  /** Writes an event of this client. */
  final void tell(String event, Map<String, Object> values) {
    Map<String, Object> line = new HashMap<>(values);
    line.put("client", number);
    line.put("event", event);
    Wire.write(line);
  }

  /** An older highwater knows no keys. */
  private static void hello(JsonNode command) {
    int protocol = Math.min(PROTOCOL, command.get("protocol").asInt());
    List<String> kinds = new ArrayList<>(List.of("produce", "group", "copy", "transactions"));
    if (protocol >= KEYS_SINCE) {
      kinds.add("compacted");
    }
    Wire.write(Map.of(
        "id", command.get("id").asLong(),
        "protocol", protocol,
        "name", "kafka-clients",
        "version", AppInfoParser.getVersion(),
        "kinds", kinds,
        "group_protocols", List.of("classic", "consumer")));
  }

  /** Reads commands until the end of the standard input. */
  public static void main(String[] arguments) throws Exception {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      JsonNode command = Wire.read(line);
      if (!command.has("client")) {
        hello(command);
        continue;
      }
      int number = command.get("client").asInt();
      String name = command.get("do").asText();
      if (name.equals("open-producer") || name.equals("open-consumer")) {
        Client made = name.equals("open-producer") ? new Producer(number) : new Consumer(number);
        CLIENTS.put(number, made);
        Thread thread = new Thread(made, "client " + number);
        thread.setDaemon(true);
        thread.start();
      }
      Client client = CLIENTS.get(number);
      if (client == null) {
        throw new IllegalStateException("there is no client " + number + ": " + line);
      }
      client.commands.add(command);
    }
    Runtime.getRuntime().halt(0);
  }
}

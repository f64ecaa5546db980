// Reads orders and writes a shipment for each. The consumer commits by a timer, every 5 s.

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Naive {
    public static void main(String[] arguments) {
        var environment = System.getenv();
        var servers = environment.get("HIGHWATER_BOOTSTRAP_SERVERS");
        var consumer = new KafkaConsumer<>(
            Map.<String, Object>of(
                "bootstrap.servers", servers, "group.id", environment.get("HIGHWATER_GROUP"),
                "auto.offset.reset", "earliest", "session.timeout.ms", 6000),
            new StringDeserializer(), new StringDeserializer());
        var producer = new KafkaProducer<>(
            Map.<String, Object>of("bootstrap.servers", servers),
            new StringSerializer(), new StringSerializer());
        consumer.subscribe(List.of(environment.get("HIGHWATER_INPUT_TOPIC")));
        while (true) {
            for (var order : consumer.poll(Duration.ofMillis(500))) {
                var id = order.value().split("\"")[3];
                var shipment = "{\"order\": \"" + id + "\", \"state\": \"sent\"}";
                producer.send(new ProducerRecord<>(
                    environment.get("HIGHWATER_OUTPUT"), order.key(), shipment));
            }
        }
    }
}

// Reads orders and writes a shipment for each, with the offsets in one transaction.
//
// After any error the process ends. The next one begins at the committed offsets, and its
// initTransactions aborts what was open.

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Right {
    public static void main(String[] arguments) {
        try {
            run(System.getenv());
        } catch (RuntimeException error) {
            System.out.println("starting again: " + error);
            Runtime.getRuntime().halt(1);
        }
    }

    static void run(Map<String, String> environment) {
        var servers = environment.get("HIGHWATER_BOOTSTRAP_SERVERS");
        var consumer = new KafkaConsumer<>(
            Map.<String, Object>of(
                "bootstrap.servers", servers, "group.id", environment.get("HIGHWATER_GROUP"),
                "auto.offset.reset", "earliest", "session.timeout.ms", 6000,
                "enable.auto.commit", false, "isolation.level", "read_committed"),
            new StringDeserializer(), new StringDeserializer());
        var producer = new KafkaProducer<>(
            Map.<String, Object>of(
                "bootstrap.servers", servers, "transaction.timeout.ms", 10000,
                "transactional.id", "shipments-" + environment.get("HIGHWATER_INSTANCE")),
            new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        consumer.subscribe(List.of(environment.get("HIGHWATER_INPUT_TOPIC")));
        while (true) {
            var orders = consumer.poll(Duration.ofMillis(500));
            if (orders.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            var ends = new HashMap<TopicPartition, OffsetAndMetadata>();
            for (var order : orders) {
                var id = order.value().split("\"")[3];
                var shipment = "{\"order\": \"" + id + "\", \"state\": \"sent\"}";
                producer.send(new ProducerRecord<>(
                    environment.get("HIGHWATER_OUTPUT"), order.key(), shipment));
                ends.put(new TopicPartition(order.topic(), order.partition()),
                    new OffsetAndMetadata(order.offset() + 1));
            }
            producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
            producer.commitTransaction();
        }
    }
}

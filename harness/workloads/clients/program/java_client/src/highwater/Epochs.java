package highwater;

import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * The leader epochs of the records that this program has read. A committed offset has the epoch of
 * the record before it (KIP-320). Else the next member cannot tell a deposed leader, whose log is
 * shorter, and takes its own position for one beyond the end.
 */
final class Epochs {
  private static final Map<TopicPartition, Integer> LAST = new ConcurrentHashMap<>();

  private Epochs() {}

  static void note(ConsumerRecord<?, ?> record) {
    record.leaderEpoch().ifPresent(epoch -> LAST.merge(
        new TopicPartition(record.topic(), record.partition()), epoch, Math::max));
  }

  static OffsetAndMetadata at(TopicPartition partition, long offset) {
    return new OffsetAndMetadata(offset, Optional.ofNullable(LAST.get(partition)), "");
  }
}

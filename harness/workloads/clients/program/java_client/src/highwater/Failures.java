package highwater;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Errors of Kafka's library as the protocol has them.
 *
 * <p>The library repeats requests by itself and reports the last error, so almost no error is
 * definite: an earlier attempt may have been answered with success, and the answer was lost.
 */
final class Failures {
  private Failures() {}

  static Map<String, Object> of(Throwable error) {
    if (error instanceof ExecutionException && error.getCause() != null) {
      return of(error.getCause());
    }
    Map<String, Object> found = new HashMap<>();
    found.put("name", error.getClass().getSimpleName().replaceAll("Exception$", ""));
    if (error instanceof ApiException) {
      Errors known = Errors.forException(error);
      if (known != Errors.UNKNOWN_SERVER_ERROR) {
        found.put("code", known.code());
        found.put("name", known.name());
      }
    }
    if (error instanceof OffsetOutOfRangeException truncated) {
      found.put("code", Errors.OFFSET_OUT_OF_RANGE.code());
      found.put("name", Errors.OFFSET_OUT_OF_RANGE.name());
      var first = Wire.byTopic(truncated.partitions()).entrySet().iterator().next();
      found.put("topic", first.getKey()); // the others are in the next error
      found.put("partitions", first.getValue());
    }
    found.put("then", then(error));
    return found;
  }

  /** As the documentation of KafkaProducer says: after fencing the client can only be closed, and
   * after other errors the transaction can be aborted. A call that timed out may be repeated. */
  private static String then(Throwable error) {
    if (error instanceof TimeoutException || error instanceof RetriableException) {
      return "retry";
    }
    boolean fatal = !(error instanceof KafkaException)
        || error instanceof ProducerFencedException
        || error instanceof InvalidProducerEpochException
        || error instanceof OutOfOrderSequenceException
        || error instanceof AuthenticationException
        || error instanceof AuthorizationException
        || error instanceof UnsupportedVersionException
        || error instanceof FencedInstanceIdException
        || error instanceof CommitFailedException;
    return fatal ? "close" : "abort";
  }
}

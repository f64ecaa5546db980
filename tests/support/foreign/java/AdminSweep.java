import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;

/**
 * Calls every method of Kafka's Admin once, each on a client of its own, against one cluster, and
 * prints a line of JSON for each: what came of it, and what it sent. What should come of it is for
 * the test to say.
 *
 * <p>Arguments: bootstrap.servers or bootstrap.controllers, the addresses, a topic that exists with
 * one partition led by node 1. A call that is tried again waits 20 ms for it, so that one that is
 * tried for ever shows thousands of requests within its timeout.
 */
public final class AdminSweep {
  private static final int TIMEOUT_MS = 20_000;
  private static final int RETRY_MS = 20;

  /** A call that returns the futures of everything that it asked for. */
  private interface Call {
    Collection<? extends KafkaFuture<?>> on(Admin admin) throws Exception;
  }

  private final Map<String, Call> calls = new LinkedHashMap<>();
  private final String bootstrap;
  private final String addresses;
  private final String topic;
  private final TopicPartition partition;

  private AdminSweep(String bootstrap, String addresses, String topic) {
    this.bootstrap = bootstrap;
    this.addresses = addresses;
    this.topic = topic;
    this.partition = new TopicPartition(topic, 0);
    topics();
    configs();
    cluster();
    logs();
    groups();
    transactions();
    security();
    client();
  }

  private static List<KafkaFuture<?>> all(KafkaFuture<?>... futures) {
    return Arrays.asList(futures);
  }

  private void topics() {
    calls.put("createTopics", a -> all(a.createTopics(List.of(new NewTopic("swept", 2, (short) 3))).all()));
    calls.put("listTopics", a -> all(a.listTopics().names()));
    calls.put("describeTopics", a -> all(a.describeTopics(
        TopicCollection.ofTopicNames(List.of(topic)),
        new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames()
            .thenApply(found -> seen("operations", found.get(topic).authorizedOperations().toString()))));
    calls.put("createPartitions", a -> all(a.createPartitions(Map.of("swept", NewPartitions.increaseTo(3))).all()));
    calls.put("alterPartitionReassignments", a -> all(a.alterPartitionReassignments(
        Map.of(new TopicPartition("swept", 0), Optional.of(new NewPartitionReassignment(List.of(3, 2, 1))))).all()));
    calls.put("listPartitionReassignments", a -> all(a.listPartitionReassignments().reassignments()));
    calls.put("electLeaders", a -> all(a.electLeaders(ElectionType.PREFERRED, null).all()));
    calls.put("deleteTopics", a -> all(a.deleteTopics(List.of("swept")).all()));
  }

  private void configs() {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    calls.put("incrementalAlterConfigs", a -> all(a.incrementalAlterConfigs(Map.of(resource, List.of(
        new AlterConfigOp(new ConfigEntry("retention.ms", "123456789"), AlterConfigOp.OpType.SET)))).all()));
    calls.put("describeConfigs", a -> all(a.describeConfigs(List.of(
        resource, new ConfigResource(ConfigResource.Type.BROKER, "1"))).all()));
    calls.put("listConfigResources", a -> all(a.listConfigResources().all()));
    calls.put("listClientMetricsResources", a -> all(a.listClientMetricsResources().all()));
  }

  private void cluster() {
    calls.put("describeCluster", a -> {
      DescribeClusterResult result = a.describeCluster(new DescribeClusterOptions()
          .includeAuthorizedOperations(bootstrap.equals("bootstrap.servers")).includeFencedBrokers(false));
      return all(
          result.nodes().thenApply(nodes -> seen("nodes", Integer.toString(nodes.size()))),
          result.controller(),
          result.clusterId(),
          result.authorizedOperations().thenApply(operations -> seen("operations", String.valueOf(operations))));
    });
    calls.put("describeFeatures", a -> all(a.describeFeatures().featureMetadata().thenApply(found -> seen(
        "finalized", found.finalizedFeatures().keySet().stream().sorted().toList().toString(),
        "supported", found.supportedFeatures().keySet().stream().sorted().toList().toString(),
        "epoch", found.finalizedFeaturesEpoch().map(epoch -> epoch > 0 ? "positive" : "not positive").orElse("none")))));
    calls.put("updateFeatures", a -> all(a.updateFeatures(
        Map.of("group.version", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)),
        new UpdateFeaturesOptions()).all()));
    calls.put("describeMetadataQuorum", a -> all(a.describeMetadataQuorum().quorumInfo().thenApply(found -> seen(
        "voters", Integer.toString(found.voters().size()),
        "lastFetch", Boolean.toString(found.voters().stream().allMatch(v -> v.lastFetchTimestamp().isPresent())),
        "lastCaughtUp", Boolean.toString(found.voters().stream().allMatch(v -> v.lastCaughtUpTimestamp().isPresent()))))));
    calls.put("addRaftVoter", a -> all(a.addRaftVoter(1, Uuid.randomUuid(),
        Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1))).all()));
    calls.put("removeRaftVoter", a -> all(a.removeRaftVoter(77, Uuid.randomUuid()).all()));
    calls.put("unregisterBroker", a -> all(a.unregisterBroker(77).all()));
  }

  private void logs() {
    calls.put("listOffsets", a -> {
      List<KafkaFuture<?>> asked = new ArrayList<>();
      for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(),
          OffsetSpec.forTimestamp(1), OffsetSpec.earliestLocal(), OffsetSpec.latestTiered(),
          OffsetSpec.earliestPendingUpload())) {
        asked.add(a.listOffsets(Map.of(partition, spec)).all());
      }
      return asked;
    });
    calls.put("deleteRecords", a -> all(a.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(0))).all()));
    calls.put("describeProducers", a -> all(a.describeProducers(List.of(partition)).all()));
    calls.put("describeLogDirs", a -> all(a.describeLogDirs(List.of(1, 2, 3)).allDescriptions().thenApply(found -> seen(
        "bytes", Boolean.toString(found.values().stream().flatMap(each -> each.values().stream()).allMatch(
            each -> each.totalBytes().orElse(0) >= each.usableBytes().orElse(Long.MAX_VALUE)))))));
    calls.put("describeReplicaLogDirs", a -> all(
        a.describeReplicaLogDirs(List.of(new TopicPartitionReplica(topic, 0, 1))).all()));
    calls.put("alterReplicaLogDirs", a -> all(
        a.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(topic, 0, 1), "/elsewhere")).all()));
  }

  private void groups() {
    Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(partition, new OffsetAndMetadata(0));
    calls.put("listGroups", a -> all(a.listGroups().all()));
    calls.put("listConsumerGroups", a -> all(a.listConsumerGroups().all()));
    calls.put("describeConsumerGroups", a -> all(a.describeConsumerGroups(List.of("g")).all()));
    calls.put("describeClassicGroups", a -> all(a.describeClassicGroups(List.of("g")).all()));
    calls.put("deleteConsumerGroups", a -> all(a.deleteConsumerGroups(List.of("g")).all()));
    calls.put("listConsumerGroupOffsets", a -> all(a.listConsumerGroupOffsets("g").all()));
    calls.put("alterConsumerGroupOffsets", a -> all(a.alterConsumerGroupOffsets("g", offsets).all()));
    calls.put("deleteConsumerGroupOffsets", a -> all(a.deleteConsumerGroupOffsets("g", Set.of(partition)).all()));
    calls.put("removeMembersFromConsumerGroup", a -> all(a.removeMembersFromConsumerGroup("g",
        new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("instance")))).all()));
    calls.put("describeShareGroups", a -> all(a.describeShareGroups(List.of("g")).all()));
    calls.put("deleteShareGroups", a -> all(a.deleteShareGroups(List.of("g")).all()));
    calls.put("listShareGroupOffsets", a -> all(a.listShareGroupOffsets(
        Map.of("g", new ListShareGroupOffsetsSpec().topicPartitions(List.of(partition)))).all()));
    calls.put("alterShareGroupOffsets", a -> all(a.alterShareGroupOffsets("g", Map.of(partition, 0L)).all()));
    calls.put("deleteShareGroupOffsets", a -> all(a.deleteShareGroupOffsets("g", Set.of(topic)).all()));
    calls.put("describeStreamsGroups", a -> all(a.describeStreamsGroups(List.of("g")).all()));
    calls.put("deleteStreamsGroups", a -> all(a.deleteStreamsGroups(List.of("g")).all()));
    calls.put("listStreamsGroupOffsets", a -> all(a.listStreamsGroupOffsets(
        Map.of("g", new ListStreamsGroupOffsetsSpec().topicPartitions(List.of(partition)))).all()));
    calls.put("alterStreamsGroupOffsets", a -> all(a.alterStreamsGroupOffsets("g", offsets).all()));
    calls.put("deleteStreamsGroupOffsets", a -> all(a.deleteStreamsGroupOffsets("g", Set.of(partition)).all()));
  }

  private void transactions() {
    calls.put("listTransactions", a -> all(a.listTransactions().all()));
    calls.put("describeTransactions", a -> all(a.describeTransactions(List.of("t")).all()));
    calls.put("abortTransaction", a -> all(
        a.abortTransaction(new AbortTransactionSpec(partition, 1, (short) 0, 0)).all()));
    calls.put("forceTerminateTransaction", a -> all(a.forceTerminateTransaction("t").result()));
    calls.put("fenceProducers", a -> all(a.fenceProducers(List.of("t")).all()));
  }

  private void security() {
    AclBinding binding = new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
        new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
    ClientQuotaEntity user = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "a"));
    byte[] token = {1};
    calls.put("createAcls", a -> all(a.createAcls(List.of(binding)).all()));
    calls.put("describeAcls", a -> all(a.describeAcls(AclBindingFilter.ANY).values()));
    calls.put("deleteAcls", a -> all(a.deleteAcls(List.of(binding.toFilter())).all()));
    calls.put("describeClientQuotas", a -> all(a.describeClientQuotas(ClientQuotaFilter.all()).entities()));
    calls.put("alterClientQuotas", a -> all(a.alterClientQuotas(List.of(new ClientQuotaAlteration(user,
        List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e6))))).all()));
    calls.put("describeUserScramCredentials", a -> all(a.describeUserScramCredentials().all()));
    calls.put("alterUserScramCredentials", a -> all(a.alterUserScramCredentials(
        List.of(new UserScramCredentialDeletion("a", ScramMechanism.SCRAM_SHA_256))).all()));
    calls.put("createDelegationToken", a -> all(a.createDelegationToken().delegationToken()));
    calls.put("renewDelegationToken", a -> all(a.renewDelegationToken(token).expiryTimestamp()));
    calls.put("expireDelegationToken", a -> all(a.expireDelegationToken(token).expiryTimestamp()));
    calls.put("describeDelegationToken", a -> all(a.describeDelegationToken().delegationTokens()));
  }

  /** What asks the cluster for nothing. The first waits for a subscription to its metrics: like a
   * Kafka cluster that collects none, ours offers none, and the wait has a timeout of its own. */
  private void client() {
    calls.put("clientInstanceId", a -> {
      a.clientInstanceId(Duration.ofSeconds(1));
      return all();
    });
    calls.put("metrics", a -> {
      a.metrics();
      return all();
    });
    calls.put("registerMetricForSubscription", a -> {
      a.registerMetricForSubscription(null);
      return all();
    });
    calls.put("unregisterMetricFromSubscription", a -> {
      a.unregisterMetricFromSubscription(null);
      return all();
    });
    calls.put("close", a -> {
      a.close(Duration.ofMillis(TIMEOUT_MS));
      return all();
    });
    calls.put("create", a -> all());
  }

  // -- running ---------------------------------------------------------------------------------

  /** Every method of the interface by name: what is overloaded ends in the same request. */
  private static Set<String> methods() {
    Set<String> names = new TreeSet<>();
    for (Method method : Admin.class.getMethods()) {
      names.add(method.getName());
    }
    return names;
  }

  private static final Map<String, String> SEEN = new ConcurrentHashMap<>();

  private static Object seen(String... pairs) {
    for (int i = 0; i < pairs.length; i += 2) {
      SEEN.put(pairs[i], pairs[i + 1]);
    }
    return null;
  }

  private void run(String name, Requests requests) {
    SEEN.clear();
    requests.sent.clear();
    Map<String, Object> config = new HashMap<>();
    config.put(bootstrap, addresses);
    config.put("default.api.timeout.ms", TIMEOUT_MS);
    config.put("request.timeout.ms", TIMEOUT_MS / 2);
    config.put("retry.backoff.ms", RETRY_MS);
    config.put("retry.backoff.max.ms", RETRY_MS);
    config.put("reconnect.backoff.ms", RETRY_MS);
    config.put("enable.metrics.push", name.equals("clientInstanceId"));
    List<String> outcomes = new ArrayList<>();
    long begun = System.nanoTime();
    try (Admin admin = Admin.create(config)) {
      begun = System.nanoTime();
      for (KafkaFuture<?> future : calls.get(name).on(admin)) {
        outcomes.add(outcome(future));
      }
    } catch (Exception error) {
      outcomes.add(error.getClass().getSimpleName() + ": " + error.getMessage());
    }
    long ms = (System.nanoTime() - begun) / 1_000_000;
    String worst = outcomes.stream().filter(each -> !each.equals("ok")).findFirst().orElse("ok");
    System.out.printf("{\"method\": %s, \"outcome\": %s, \"ms\": %d, \"sent\": {%s}, \"seen\": {%s}}%n",
        quoted(name), quoted(worst), ms, members(requests.sent), members(SEEN));
  }

  private static String outcome(KafkaFuture<?> future) throws Exception {
    try {
      future.get(2L * TIMEOUT_MS, TimeUnit.MILLISECONDS);
      return "ok";
    } catch (ExecutionException error) {
      return error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage();
    } catch (java.util.concurrent.TimeoutException error) {
      return "Waits: longer than its own timeout";
    }
  }

  private static String members(Map<String, ?> map) {
    List<String> parts = new ArrayList<>();
    map.forEach((key, value) -> parts.add(quoted(key) + ": " + (value instanceof Integer ? value : quoted(value.toString()))));
    return String.join(", ", parts);
  }

  private static String quoted(String text) {
    return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\"";
  }

  /** Counts what the clients send, by request and node, in what they log. */
  private static final class Requests extends AbstractAppender {
    private static final Pattern SENDING = Pattern.compile("Sending ([A-Z_]+) request with header .* to node (-?\\d+):");
    private final Map<String, Integer> sent = new ConcurrentHashMap<>();

    private Requests() {
      super("requests", null, null, true, Property.EMPTY_ARRAY);
    }

    @Override
    public void append(LogEvent event) {
      Matcher found = SENDING.matcher(event.getMessage().getFormattedMessage());
      if (found.find()) {
        sent.merge(found.group(1) + " to " + found.group(2), 1, Integer::sum);
      }
    }

    private static Requests counted() {
      Requests appender = new Requests();
      appender.start();
      LoggerContext context = (LoggerContext) LogManager.getContext(false);
      var root = context.getConfiguration().getRootLogger();
      root.getAppenders().keySet().forEach(root::removeAppender);
      root.addAppender(appender, Level.DEBUG, null);
      root.setLevel(Level.DEBUG);
      context.updateLoggers();
      return appender;
    }
  }

  public static void main(String[] arguments) {
    AdminSweep sweep = new AdminSweep(arguments[0], arguments[1], arguments[2]);
    if (!sweep.calls.keySet().equals(methods())) {
      Set<String> missing = methods();
      missing.removeAll(sweep.calls.keySet());
      throw new IllegalStateException("not called: " + missing);
    }
    Requests requests = Requests.counted();
    List<String> names = new ArrayList<>(arguments.length > 3
        ? Arrays.asList(arguments).subList(3, arguments.length) : sweep.calls.keySet());
    names.forEach(name -> sweep.run(name, requests));
  }
}

package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Timer;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.classic.ClassicGroupMember;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetricsShard;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's own classic groups behind JSON lines: a request in; answers, records and groups out.
 * What it appends is committed at once. Its clock stands still between the requests.
 */
public class ClassicCoordinator {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long WALL_MS = 1_700_000_000_000L;

    private record Due(long atMs, long sequence,
                       CoordinatorTimer.TimeoutOperation<Void, CoordinatorRecord> operation) { }

    private final GroupCoordinatorConfig config;
    private final List<CoordinatorRecord> log = new ArrayList<>();
    private final Map<String, Due> timers = new HashMap<>();
    private long nowMs = 0;
    private long sequence = 0;
    private GroupMetadataManager manager;
    private ObjectNode answers;
    private ArrayNode records;

    private ClassicCoordinator(Map<String, Object> properties) {
        config = new GroupCoordinatorConfig(
            new AbstractConfig(GroupCoordinatorConfig.CONFIG_DEF, properties, false));
        manager = make();
    }

    private GroupMetadataManager make() {
        timers.clear();
        LogContext context = new LogContext();
        SnapshotRegistry registry = new SnapshotRegistry(context);
        Metrics metrics = new Metrics();
        Map<String, Sensor> sensors = new HashMap<>();
        for (Field each : GroupCoordinatorMetrics.class.getFields()) {
            if (Modifier.isStatic(each.getModifiers()) && each.getName().endsWith("SENSOR_NAME")) {
                try {
                    sensors.put((String) each.get(null), metrics.sensor((String) each.get(null)));
                } catch (IllegalAccessException error) {
                    throw new IllegalStateException(error);
                }
            }
        }
        TopicPartition partition = new TopicPartition("__consumer_offsets", 0);
        return new GroupMetadataManager.Builder()
            .withLogContext(context)
            .withSnapshotRegistry(registry)
            .withTime(new Clock())
            .withTimer(new Timers())
            .withExecutor(new NoExecutor())
            .withConfig(config)
            .withGroupConfigManager(new GroupConfigManager(new HashMap<>()))
            .withGroupCoordinatorMetricsShard(
                new GroupCoordinatorMetricsShard(registry, sensors, partition))
            .build();
    }

    private class Clock implements Time {
        @Override public long milliseconds() {
            return WALL_MS + nowMs;
        }
        @Override public long nanoseconds() {
            return 1_000_000 * milliseconds();
        }
        @Override public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }
        @Override public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    private class Timers implements CoordinatorTimer<Void, CoordinatorRecord> {
        @Override public void schedule(String key, long delay, TimeUnit unit, boolean retry,
                                       TimeoutOperation<Void, CoordinatorRecord> operation) {
            timers.put(key, new Due(nowMs + Math.max(0, unit.toMillis(delay)), ++sequence, operation));
        }
        @Override public void schedule(String key, long delay, TimeUnit unit, boolean retry, long backoff,
                                       TimeoutOperation<Void, CoordinatorRecord> operation) {
            schedule(key, delay, unit, retry, operation);
        }
        @Override public void scheduleIfAbsent(String key, long delay, TimeUnit unit, boolean retry,
                                               TimeoutOperation<Void, CoordinatorRecord> operation) {
            if (!timers.containsKey(key)) schedule(key, delay, unit, retry, operation);
        }
        @Override public void cancel(String key) {
            timers.remove(key);
        }
        @Override public boolean isScheduled(String key) {
            return timers.containsKey(key);
        }
    }

    private static class NoExecutor implements CoordinatorExecutor<CoordinatorRecord> {
        @Override public <R> boolean schedule(String key, TaskRunnable<R> task,
                                              TaskOperation<CoordinatorRecord, R> operation) {
            throw new UnsupportedOperationException();
        }
        @Override public boolean isScheduled(String key) {
            return false;
        }
        @Override public void cancel(String key) { }
    }

    private void replay(CoordinatorRecord record) {
        manager.replay((GroupMetadataKey) record.key(),
            record.value() == null ? null : (GroupMetadataValue) record.value().message());
    }

    private <T> void append(CoordinatorResult<T, CoordinatorRecord> result) {
        GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
        for (CoordinatorRecord record : result.records()) {
            log.add(record);
            if (result.replayRecords()) replay(record);
            ArrayNode row = records.addArray();
            row.add(HexFormat.of().formatHex(serde.serializeKey(record)));
            byte[] value = serde.serializeValue(record);
            row.add(value == null ? null : HexFormat.of().formatHex(value));
        }
        if (result.appendFuture() != null) result.appendFuture().complete(null);
    }

    private void advance(long ms) {
        long end = nowMs + ms;
        for (int n = 0; n < 100_000; n++) {
            Map.Entry<String, Due> first = null;
            for (Map.Entry<String, Due> each : timers.entrySet()) {
                if (first == null || each.getValue().atMs() < first.getValue().atMs()
                    || (each.getValue().atMs() == first.getValue().atMs()
                        && each.getValue().sequence() < first.getValue().sequence())) first = each;
            }
            if (first == null || first.getValue().atMs() > end) break;
            nowMs = Math.max(nowMs, first.getValue().atMs());
            timers.remove(first.getKey());
            append(first.getValue().operation().generateRecords());
        }
        nowMs = end;
    }

    private RequestContext context(ApiKeys api, JsonNode in) throws Exception {
        RequestHeader header = new RequestHeader(
            api, (short) in.path("version").asInt(0), in.path("client").asText("c"), 0);
        return new RequestContext(header, "1", InetAddress.getByAddress(new byte[] {127, 0, 0, 1}),
            KafkaPrincipal.ANONYMOUS, ListenerName.forSecurityProtocol(SecurityProtocol.PLAINTEXT),
            SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    }

    private static String text(JsonNode node) {
        return node.isNull() || node.isMissingNode() ? null : node.asText();
    }

    private void error(String token, Throwable thrown) {
        answers.putObject(token).put("error", Errors.forException(thrown).code());
    }

    private void join(String token, JsonNode in) throws Exception {
        JoinGroupRequestData.JoinGroupRequestProtocolCollection protocols =
            new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
        for (JsonNode each : in.get("protocols")) {
            protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol()
                .setName(each.get(0).asText())
                .setMetadata(HexFormat.of().parseHex(each.get(1).asText())));
        }
        JoinGroupRequestData request = new JoinGroupRequestData()
            .setGroupId(in.get("group").asText())
            .setMemberId(in.get("member").asText())
            .setGroupInstanceId(text(in.path("instance")))
            .setProtocolType(in.get("type").asText())
            .setProtocols(protocols)
            .setSessionTimeoutMs(in.get("session").asInt())
            .setRebalanceTimeoutMs(in.get("rebalance").asInt());
        CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
        future.whenComplete((answer, thrown) -> {
            if (thrown != null) {
                error(token, thrown);
                return;
            }
            ObjectNode out = answers.putObject(token);
            out.put("error", answer.errorCode()).put("generation", answer.generationId())
                .put("type", answer.protocolType()).put("protocol", answer.protocolName())
                .put("leader", answer.leader()).put("skip", answer.skipAssignment())
                .put("member", answer.memberId());
            ObjectNode members = out.putObject("members");
            answer.members().forEach(each ->
                members.put(each.memberId(), HexFormat.of().formatHex(each.metadata())));
        });
        append(manager.classicGroupJoin(context(ApiKeys.JOIN_GROUP, in), request, future));
    }

    private void sync(String token, JsonNode in) throws Exception {
        SyncGroupRequestData request = new SyncGroupRequestData()
            .setGroupId(in.get("group").asText())
            .setMemberId(in.get("member").asText())
            .setGroupInstanceId(text(in.path("instance")))
            .setGenerationId(in.get("generation").asInt())
            .setProtocolType(text(in.path("type")))
            .setProtocolName(text(in.path("protocol")));
        in.get("assignments").fields().forEachRemaining(each -> request.assignments().add(
            new SyncGroupRequestData.SyncGroupRequestAssignment().setMemberId(each.getKey())
                .setAssignment(HexFormat.of().parseHex(each.getValue().asText()))));
        CompletableFuture<SyncGroupResponseData> future = new CompletableFuture<>();
        future.whenComplete((answer, thrown) -> {
            if (thrown != null) {
                error(token, thrown);
                return;
            }
            answers.putObject(token).put("error", answer.errorCode())
                .put("type", answer.protocolType()).put("protocol", answer.protocolName())
                .put("assignment", HexFormat.of().formatHex(answer.assignment()));
        });
        append(manager.classicGroupSync(context(ApiKeys.SYNC_GROUP, in), request, future));
    }

    private void heartbeat(String token, JsonNode in) throws Exception {
        var result = manager.classicGroupHeartbeat(context(ApiKeys.HEARTBEAT, in),
            new HeartbeatRequestData()
                .setGroupId(in.get("group").asText())
                .setMemberId(in.get("member").asText())
                .setGroupInstanceId(text(in.path("instance")))
                .setGenerationId(in.get("generation").asInt()));
        append(result);
        answers.putObject(token).put("error", result.response().errorCode());
    }

    private void leave(String token, JsonNode in) throws Exception {
        List<LeaveGroupRequestData.MemberIdentity> members = new ArrayList<>();
        for (JsonNode each : in.get("members")) {
            members.add(new LeaveGroupRequestData.MemberIdentity()
                .setMemberId(each.get(0).asText()).setGroupInstanceId(text(each.get(1))));
        }
        var result = manager.classicGroupLeave(context(ApiKeys.LEAVE_GROUP, in),
            new LeaveGroupRequestData().setGroupId(in.get("group").asText()).setMembers(members));
        append(result);
        ObjectNode out = answers.putObject(token);
        out.put("error", result.response().errorCode());
        ArrayNode rows = out.putArray("members");
        for (LeaveGroupResponseData.MemberResponse each : result.response().members()) {
            rows.add(each.errorCode());
        }
    }

    private void commit(String token, JsonNode in) throws Exception {
        Group group = manager.group(in.get("group").asText());
        group.validateOffsetCommit(in.get("member").asText(), text(in.path("instance")),
            in.get("generation").asInt(), in.get("transactional").asBoolean(), 9);
        ClassicGroup classic = (ClassicGroup) group;
        ClassicGroupMember member = classic.member(in.get("member").asText());
        if (member != null && !in.get("transactional").asBoolean()) {
            manager.rescheduleClassicGroupMemberHeartbeat(classic, member);
        }
        answers.putObject(token).put("error", 0);
    }

    private void delete(String token, JsonNode in) throws Exception {
        String group = in.get("group").asText();
        manager.group(group).validateDeleteGroup();
        List<CoordinatorRecord> tombstones = new ArrayList<>();
        manager.createGroupTombstoneRecordsAndCancelTimers(group, tombstones);
        append(new CoordinatorResult<Void, CoordinatorRecord>(tombstones));
        answers.putObject(token).put("error", 0);
    }

    private void failOver() {
        manager = make();
        log.forEach(this::replay);
        manager.onLoaded();
    }

    private ObjectNode state() {
        ObjectNode groups = JSON.createObjectNode();
        for (String id : manager.groupIds()) {
            ClassicGroup group = manager.getOrMaybeCreateClassicGroup(id, false);
            ObjectNode out = groups.putObject(id);
            out.put("state", group.stateAsString()).put("generation", group.generationId())
                .put("leader", group.leaderOrNull()).put("protocol", group.protocolName().orElse(null))
                .put("type", group.protocolType().orElse(null))
                .put("pending", group.numPendingJoinMembers())
                .put("waiting", group.numAwaitingJoinResponse());
            ObjectNode members = out.putObject("members");
            for (ClassicGroupMember each : group.allMembers()) {
                members.putArray(each.memberId())
                    .add(HexFormat.of().formatHex(each.assignment()))
                    .add(each.sessionTimeoutMs()).add(each.rebalanceTimeoutMs());
            }
        }
        return groups;
    }

    private void perform(String op, String token, JsonNode in) throws Exception {
        switch (op) {
            case "join" -> join(token, in);
            case "sync" -> sync(token, in);
            case "heartbeat" -> heartbeat(token, in);
            case "leave" -> leave(token, in);
            case "commit" -> commit(token, in);
            case "delete" -> delete(token, in);
            case "advance" -> advance(in.get("ms").asLong());
            case "failover" -> failOver();
            default -> throw new IllegalArgumentException(op);
        }
    }

    /** Arguments: properties as name=value. */
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = new LinkedHashMap<>();
        for (String each : arguments) properties.put(each.split("=")[0], each.split("=")[1]);
        ClassicCoordinator coordinator = new ClassicCoordinator(properties);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode in = JSON.readTree(line);
            String token = in.path("token").asText();
            coordinator.answers = JSON.createObjectNode();
            coordinator.records = JSON.createArrayNode();
            if (in.get("op").asText().equals("new")) {
                coordinator.log.clear();
                coordinator.nowMs = 0;
                coordinator.manager = coordinator.make();
            } else {
                try {
                    coordinator.perform(in.get("op").asText(), token, in);
                } catch (RuntimeException thrown) {
                    coordinator.error(token, thrown);
                    if (Errors.forException(thrown) == Errors.UNKNOWN_SERVER_ERROR) {
                        thrown.printStackTrace();
                    }
                }
            }
            ObjectNode out = JSON.createObjectNode();
            out.set("answers", coordinator.answers);
            out.set("records", coordinator.records);
            out.set("groups", coordinator.state());
            System.out.println(JSON.writeValueAsString(out));
        }
    }
}

package interop;

import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Find messages by key, unique key and offset id; find offsets by time. */
final class LookingUp {
    private LookingUp() {
    }

    static Map<String, Object> query(Session session) throws Exception {
        String topic = session.name("query");
        DefaultMQProducer client = session.producer();
        SendResult last = null;
        for (int i = 0; i < 10; i++) {
            Message message = Session.message(topic, "q" + i);
            message.setKeys(List.of("each-" + i, "all"));
            last = client.send(message);
        }
        session.pullAll(topic, Session.ALL, 10);
        String uniqueKey = last.getMsgId();
        List<MessageExt> all = Session.await(() -> {
            List<MessageExt> found = byKey(session, topic, "all");
            return found.size() >= 10 ? found : null;
        });
        MessageExt byId = client.viewMessage(topic, last.getOffsetMsgId());
        MessageExt byUniqueKey = client.getDefaultMQProducerImpl().queryMessageByUniqKey(topic, uniqueKey);
        return Map.of(
            "by_key", Session.bodies(byKey(session, topic, "each-3")),
            "by_shared_key", Session.bodies(all),
            "by_absent_key", byKey(session, topic, "no-such-key").size(),
            "by_unique_key", Session.body(byUniqueKey),
            "by_offset_id", Session.body(byId),
            "ids_equal", byId.getMsgId().equals(byUniqueKey.getMsgId()));
    }

    private static List<MessageExt> byKey(Session session, String topic, String key) throws Exception {
        try {
            return session.producer().queryMessage(topic, key, 32, 0, System.currentTimeMillis() + 60_000)
                .getMessageList();
        } catch (MQClientException none) { // so the client says "found nothing"
            return List.of();
        }
    }

    static Map<String, Object> offsets(Session session) throws Exception {
        String topic = session.name("offsets");
        DefaultMQProducer client = session.producer();
        MessageQueue queue = null;
        for (int group = 0; group < 3; group++) {
            for (int i = 0; i < 5; i++) {
                Message message = Session.message(topic, group + "." + i);
                queue = queue == null ? client.send(message).getMessageQueue() : client.send(message, queue).getMessageQueue();
            }
            Thread.sleep(50); // so that the groups differ in their time of storage
        }
        MessageQueue of = queue;
        List<MessageExt> stored = session.pullAll(topic, Session.ALL, 15).get(queue.getQueueId());
        long second = stored.get(5).getStoreTimestamp();
        long third = stored.get(10).getStoreTimestamp();
        MessageQueue empty = session.queues(topic).stream().filter(q -> !q.equals(of)).findFirst().orElseThrow();
        return Map.ofEntries(
            Map.entry("min", client.minOffset(queue)),
            Map.entry("max", client.maxOffset(queue)),
            Map.entry("at_epoch", client.searchOffset(queue, 0)),
            Map.entry("at_second", client.searchOffset(queue, second)),
            Map.entry("before_third", client.searchOffset(queue, third - 10)),
            Map.entry("at_third", client.searchOffset(queue, third)),
            Map.entry("in_future", client.searchOffset(queue, System.currentTimeMillis() + 3_600_000)),
            Map.entry("earliest_is_first", client.earliestMsgStoreTime(queue) == stored.get(0).getStoreTimestamp()),
            Map.entry("empty_min", client.minOffset(empty)),
            Map.entry("empty_max", client.maxOffset(empty)),
            Map.entry("empty_at_epoch", client.searchOffset(empty, 0)),
            Map.entry("empty_earliest", client.earliestMsgStoreTime(empty)));
    }
}

package interop;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Messages for a time of their own, and one that is called back.
 *
 * <p>The client of 4.9.8 has no methods for this, but sends the same properties; it cannot recall.
 */
final class Timing {
    private static final long TOO_FAR_SEC = 4 * 24 * 3600;

    private Timing() {
    }

    static Map<String, Object> timed(Session session) throws Exception {
        String topic = session.name("timed");
        DefaultMQProducer producer = session.producer();
        Map<String, Long> due = new TreeMap<>();
        send(producer, due, topic, "sec", "DelayTimeSec", "TIMER_DELAY_SEC", 1, 1000);
        send(producer, due, topic, "ms", "DelayTimeMs", "TIMER_DELAY_MS", 1300, 1);
        long now = System.currentTimeMillis();
        send(producer, due, topic, "at", "DeliverTimeMs", "TIMER_DELIVER_MS", now + 1700, 1);
        send(producer, due, topic, "past", "DeliverTimeMs", "TIMER_DELIVER_MS", now - 5000, 1);
        SendResult sent = send(producer, due, topic, "recalled", "DeliverTimeMs", "TIMER_DELIVER_MS", now + 2600, 1);
        Map<String, Object> facts = new TreeMap<>();
        facts.put("recalled", recall(producer, topic, sent));
        send(producer, due, topic, "last", "DeliverTimeMs", "TIMER_DELIVER_MS", now + 3200, 1);
        try {
            send(producer, due, topic, "too far", "DelayTimeSec", "TIMER_DELAY_SEC", TOO_FAR_SEC, 1000);
        } catch (MQBrokerException refused) {
            facts.put("too_far", refused.getResponseCode());
        }
        Map<String, Object> late = new TreeMap<>();
        int count = 0;
        for (List<MessageExt> queue : session.pullAll(topic, Session.ALL, facts.get("recalled") == null ? 6 : 5).values()) {
            for (MessageExt message : queue) {
                count++;
                late.put(Session.body(message), message.getStoreTimestamp() - due.get(Session.body(message)));
            }
        }
        facts.put("late_ms", late);
        facts.put("count", count);
        return facts;
    }

    private static SendResult send(DefaultMQProducer producer, Map<String, Long> due, String topic, String body,
        String name, String property, long value, long unitMs) throws Exception {
        Message message = Session.message(topic, body);
        try {
            Message.class.getMethod("set" + name, long.class).invoke(message, value);
        } catch (NoSuchMethodException old) {
            MessageAccessor.putProperty(message, property, String.valueOf(value));
        }
        due.put(body, name.equals("DeliverTimeMs") ? value : System.currentTimeMillis() + value * unitMs);
        return producer.send(message);
    }

    /** The id of the message that was called back; null where the client cannot. */
    private static String recall(DefaultMQProducer producer, String topic, SendResult sent) throws Exception {
        try {
            Object handle = SendResult.class.getMethod("getRecallHandle").invoke(sent);
            String id = (String) DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class)
                .invoke(producer, topic, handle);
            return id.equals(sent.getMsgId()) ? "the same" : id;
        } catch (NoSuchMethodException old) {
            return null;
        }
    }
}

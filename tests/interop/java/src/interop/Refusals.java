package interop;

import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** What the broker must refuse, and that nothing is stored by it. */
final class Refusals {
    private Refusals() {
    }

    static Map<String, Object> tooLarge(Session session) throws Exception {
        String topic = session.name("too_large");
        DefaultMQProducer plain = session.newProducer("too_large");
        plain.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE); // or zeros would arrive small
        plain.setInstanceName("too_large");
        plain.start();
        try {
            MessageQueue queue = plain.send(Session.message(topic, "first")).getMessageQueue();
            int over = Session.refusal(() -> plain.send(new Message(topic, new byte[(4 << 20) + 1]), queue));
            int at = Session.refusal(() -> plain.send(new Message(topic, new byte[4 << 20]), queue));
            long next = plain.send(Session.message(topic, "last"), queue).getQueueOffset();
            return Map.of("over_limit_code", over, "at_limit_code", at, "next_offset", next);
        } finally {
            plain.shutdown();
        }
    }

    static Map<String, Object> longProperties(Session session) throws Exception {
        String topic = session.name("long_properties");
        MessageQueue queue = session.producer().send(Session.message(topic, "first")).getMessageQueue();
        Message message = Session.message(topic, "second");
        message.putUserProperty("long", "x".repeat(Short.MAX_VALUE));
        int code = Session.refusal(() -> session.producer().send(message, queue));
        long next = session.producer().send(Session.message(topic, "last"), queue).getQueueOffset();
        return Map.of("code", code, "next_offset", next);
    }

    /** A topic that nobody created, and that may not be created either: its pattern is a topic that hands nothing down. */
    static Map<String, Object> absent(Session session) throws Exception {
        String pattern = session.name("pattern");
        session.producer().send(Session.message(pattern, "here"));
        String broker = session.queues(pattern).iterator().next().getBrokerName();
        DefaultMQProducer plain = session.newProducer("absent");
        plain.setCreateTopicKey(pattern);
        plain.setInstanceName("absent");
        plain.start();
        try {
            String topic = session.name("absent");
            MessageQueue queue = new MessageQueue(topic, broker, 0);
            return Map.of(
                "send_code", Session.refusal(() -> plain.send(Session.message(topic, "nobody"))),
                "pull_code", Session.refusal(() -> session.puller().pull(queue, Session.ALL, 0, 1)));
        } finally {
            plain.shutdown();
        }
    }

    /**
     * Send to a broker with autoCreateTopicEnable=false: to a topic without a route, and to one that was deleted while
     * the producer still had its route.
     */
    static Map<String, Object> autoCreateOff(Session session) throws Exception {
        String topic = session.name("never");
        boolean patternKnown = Topics.listed(session, "TBW102");
        int code = Session.refusal(() -> session.producer().send(Session.message(topic, "nobody")));
        String deleted = session.name("deleted");
        Topics.createAt(session, deleted);
        session.queues(deleted);
        session.producer().send(Session.message(deleted, "before"));
        Topics.remove(session, deleted);
        int deletedCode = Session.refusal(() -> session.producer().send(Session.message(deleted, "after")));
        return Map.of("refused", code != 0, "deleted_code", deletedCode, "pattern_known", patternKnown,
            "created", Topics.listed(session, topic));
    }
}

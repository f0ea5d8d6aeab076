package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** Messages chosen by an expression over their properties, or by tag, at the broker. */
final class Filtering {
    private static final List<String> COLOURS = List.of("red", "green", "blue");

    private Filtering() {
    }

    static Map<String, Object> sql(Session session) throws Exception {
        String topic = session.name("sql");
        send(session, topic, 0, 30);
        session.queues(topic);
        String wanted = "n BETWEEN 10 AND 39 AND colour IN ('red', 'blue') AND absent IS NULL";
        return Map.of(
            "pushed", pushed(session, topic, MessageSelector.bySql(wanted)),
            "polled", polled(session, topic, "sql_lite", MessageSelector.bySql("n > 25 AND colour <> 'green'"), 10),
            "tagged", polled(session, topic, "tag_lite", MessageSelector.byTag("even"), 20),
            "wrong", Session.refusal(() -> {
                DefaultMQPushConsumer consumer = push(session, "sql_wrong", new ArrayList<>());
                consumer.subscribe(topic, MessageSelector.bySql("n > "));
                try {
                    consumer.start();
                } finally {
                    consumer.shutdown();
                }
                return null;
            }));
    }

    private static void send(Session session, String topic, int from, int to) throws Exception {
        for (int i = from; i < to; i++) {
            Message message = Session.message(topic, "s" + i);
            message.setTags(i % 2 == 0 ? "even" : "odd");
            message.putUserProperty("n", String.valueOf(i));
            message.putUserProperty("colour", COLOURS.get(i % 3));
            session.producer().send(message);
        }
    }

    /** What is there already, and what comes while the consumer waits. */
    private static List<String> pushed(Session session, String topic, MessageSelector selector) throws Exception {
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = push(session, "sql_push", got);
        consumer.subscribe(topic, selector);
        consumer.start();
        try {
            Session.await(() -> got.size() >= 13 ? true : null);
            send(session, topic, 30, 40);
            Session.await(() -> got.size() >= 20 ? true : null);
        } finally {
            consumer.shutdown();
        }
        return new ArrayList<>(got);
    }

    private static DefaultMQPushConsumer push(Session session, String group, List<String> into) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(session.name(group));
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPollNameServerInterval(1_000);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            into.addAll(Session.bodies(messages));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return consumer;
    }

    private static List<String> polled(
        Session session, String topic, String group, MessageSelector selector, int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(session.name(group));
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.subscribe(topic, selector);
        consumer.start();
        try {
            List<String> got = new ArrayList<>();
            Session.await(() -> {
                got.addAll(Session.bodies(consumer.poll(200)));
                return got.size() >= count ? true : null;
            });
            got.addAll(Session.bodies(consumer.poll(200)));
            return got;
        } finally {
            consumer.shutdown();
        }
    }
}

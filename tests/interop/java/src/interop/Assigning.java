package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Two consumers that let the broker say which queues they take, pulling or popping as the broker has it.
 *
 * <p>Clients of 4.x cannot: the switch is looked for by name. The topic must be there, and what is to be popped set.
 */
final class Assigning {
    private static final int MESSAGES = 60;

    private Assigning() {
    }

    static Map<String, Object> assigned(Session session) throws Exception {
        return shared(session, "assigned");
    }

    static Map<String, Object> popped(Session session) throws Exception {
        return shared(session, "popped");
    }

    private static Map<String, Object> shared(Session session, String name) throws Exception {
        String topic = session.name(name);
        session.queues(topic);
        Map<String, List<String>> got = new TreeMap<>();
        List<Boolean> byPop = Collections.synchronizedList(new ArrayList<>());
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String member : List.of("first", "second")) {
            List<String> bodies = Collections.synchronizedList(new ArrayList<>());
            got.put(member, bodies);
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic);
            consumer.setNamesrvAddr(session.namesrv);
            consumer.setInstanceName(name + member);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setPollNameServerInterval(1_000);
            DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
            consumer.subscribe(topic, Session.ALL);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(message -> byPop.add(message.getProperty("POP_CK") != null));
                bodies.addAll(Session.bodies(messages));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        int sent = 0;
        try {
            long deadline = System.currentTimeMillis() + Session.DEADLINE_MS;
            while (sent < MESSAGES || got.values().stream().anyMatch(List::isEmpty)) {
                session.producer().send(Session.message(topic, "m" + sent++));
                if (sent >= MESSAGES) {
                    Thread.sleep(50); // until both have had their share
                }
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("one of them gets nothing: " + got);
                }
            }
            int all = sent;
            Session.await(() -> got.values().stream().mapToInt(List::size).sum() >= all ? true : null);
        } finally {
            consumers.forEach(DefaultMQPushConsumer::shutdown);
        }
        return Map.of("sent", sent, "got", got, "by_pop", byPop);
    }
}

package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A consumer that fails: once, or always, until its messages are dead. And messages that come later. */
final class Retrying {
    private static final int MAX_TIMES = 2;

    private Retrying() {
    }

    /** Clients of 4.9 divide queues every 20 s, and may have done so a moment before the retry topic came into being. */
    private static boolean hasRetryQueue(DefaultMQPushConsumer consumer) {
        consumer.getDefaultMQPushConsumerImpl().doRebalance();
        return consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().stream()
            .anyMatch(queue -> queue.getTopic().startsWith("%RETRY%"));
    }

    static Map<String, Object> retries(Session session) throws Exception {
        String topic = session.name("retries");
        String group = session.name("retrying");
        Map<String, List<Integer>> tries = new ConcurrentHashMap<>();
        Map<String, List<Long>> triedAt = new ConcurrentHashMap<>();
        session.producer().send(Session.message(topic, "first"));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPollNameServerInterval(500); // the group's retry topic is as new as the group
        consumer.setMaxReconsumeTimes(MAX_TIMES);
        consumer.subscribe(topic, Session.ALL);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String body = Session.body(message);
                triedAt.computeIfAbsent(body, key -> Collections.synchronizedList(new ArrayList<>()))
                    .add(System.currentTimeMillis());
                tries.computeIfAbsent(body, key -> Collections.synchronizedList(new ArrayList<>()))
                    .add(message.getReconsumeTimes());
                if (body.equals("never") || body.equals("later") && message.getReconsumeTimes() == 0) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            Session.await(() -> tries.containsKey("first") && hasRetryQueue(consumer) ? true : null);
            session.producer().send(Session.message(topic, "later"));
            session.producer().send(Session.message(topic, "never"));
            Message delayed = Session.message(topic, "delayed");
            delayed.setDelayTimeLevel(2);
            long sentAt = System.currentTimeMillis();
            session.producer().send(delayed);
            List<MessageExt> dead = Session.flat(session.pullAll("%DLQ%" + group, Session.ALL, 1));
            Session.await(() -> tries.containsKey("delayed") && tries.get("later").size() > 1 ? true : null);
            List<List<Object>> buried = new ArrayList<>();
            dead.forEach(m -> buried.add(
                List.of(Session.body(m), m.getReconsumeTimes(), m.getProperty("RETRY_TOPIC").equals(topic))));
            return Map.of("tries", new TreeMap<>(tries), "pauses_ms", pauses(triedAt), "dead", buried,
                "delayed_ms", triedAt.get("delayed").get(0) - sentAt, "in_order", inOrder(session, topic));
        } finally {
            consumer.shutdown();
        }
    }

    /** A consumer in order tries again by itself; what it gives up it sends to its retry topic, and is dead at once. */
    private static List<Object> inOrder(Session session, String topic) throws Exception {
        String group = session.name("in_order");
        List<Integer> tries = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setInstanceName(group);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setMaxReconsumeTimes(MAX_TIMES);
        consumer.subscribe(topic, Session.ALL);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                if (Session.body(message).equals("never")) {
                    tries.add(message.getReconsumeTimes());
                    context.setSuspendCurrentQueueTimeMillis(100);
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        try {
            List<MessageExt> dead = Session.flat(session.pullAll("%DLQ%" + group, Session.ALL, 1));
            return List.of(tries, Session.bodies(dead), dead.get(0).getReconsumeTimes());
        } finally {
            consumer.shutdown();
        }
    }

    private static List<Long> pauses(Map<String, List<Long>> triedAt) {
        List<Long> pauses = new ArrayList<>();
        for (List<Long> times : triedAt.values()) {
            for (int i = 1; i < times.size(); i++) {
                pauses.add(times.get(i) - times.get(i - 1));
            }
        }
        return pauses;
    }
}

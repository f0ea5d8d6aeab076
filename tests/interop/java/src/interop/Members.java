package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.text.SimpleDateFormat;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A member of three groups in a process of its own: one keeps the order, one does not, one broadcasts.
 *
 * <p>It prints each message as it comes, and which queues it holds whenever that changes, until a line of input tells it
 * to leave; whoever runs it may also kill it. The topics must be there.
 */
final class Members {
    private static final List<String> WAYS = List.of("orderly", "concurrent", "broadcast");

    private Members() {
    }

    static Map<String, Object> member(Session session) throws Exception {
        Map<String, DefaultMQPushConsumer> consumers = new LinkedHashMap<>();
        for (String way : WAYS) {
            consumers.put(way, consumer(session, way));
        }
        for (DefaultMQPushConsumer consumer : consumers.values()) {
            consumer.start();
        }
        Thread watcher = new Thread(() -> watch(session, consumers));
        watcher.setDaemon(true);
        watcher.start();
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        for (DefaultMQPushConsumer consumer : consumers.values()) {
            consumer.shutdown();
        }
        return Map.of("left", true);
    }

    /** Three groups that begin at the first message, the last and now; each tells what it got of a young queue. */
    static Map<String, Object> beginnings(Session session) throws Exception {
        String topic = session.name("beginnings");
        for (int i = 0; i < 10; i++) {
            session.producer().send(Session.message(topic, "old" + i));
        }
        session.pullAll(topic, Session.ALL, 10);
        return begun(session, "beginnings", Map.of("FIRST_OFFSET", 20, "LAST_OFFSET", 20, "TIMESTAMP", 20));
    }

    /** The same with a queue that somebody else has filled, and of which the first messages are deleted. */
    static Map<String, Object> oldBeginnings(Session session) throws Exception {
        return begun(session, "old_beginnings", Map.of("FIRST_OFFSET", 11, "LAST_OFFSET", 10, "TIMESTAMP", 10));
    }

    private static Map<String, Object> begun(Session session, String topic, Map<String, Integer> counts)
        throws Exception {
        Map<String, List<String>> got = new TreeMap<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String where : counts.keySet()) {
            DefaultMQPushConsumer consumer = made(session, topic + "_" + where);
            consumer.setConsumeFromWhere(ConsumeFromWhere.valueOf("CONSUME_FROM_" + where));
            consumer.setConsumeTimestamp(new SimpleDateFormat("yyyyMMddHHmmss").format(new Date()));
            consumer.subscribe(session.name(topic), Session.ALL);
            List<String> bodies = Collections.synchronizedList(new ArrayList<>());
            got.put(where, bodies);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(m -> bodies.add(m.getTags() == null ? Session.body(m) : m.getTags()));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        try {
            Session.await(() -> consumers.stream().noneMatch(c -> queues(c, session.name(topic)).isEmpty()) ? true : null);
            for (int i = 0; i < 10; i++) {
                session.producer().send(Session.message(session.name(topic), "new" + i));
            }
            Session.await(() -> counts.keySet().stream()
                .allMatch(where -> got.get(where).contains("new9") && got.get(where).size() >= counts.get(where))
                ? true : null);
        } finally {
            consumers.forEach(DefaultMQPushConsumer::shutdown);
        }
        return new TreeMap<>(got);
    }

    private static TreeSet<Integer> queues(DefaultMQPushConsumer consumer, String topic) {
        TreeSet<Integer> queues = new TreeSet<>();
        consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet().forEach(queue -> {
            if (queue.getTopic().equals(topic)) {
                queues.add(queue.getQueueId());
            }
        });
        return queues;
    }

    private static DefaultMQPushConsumer consumer(Session session, String way) throws Exception {
        DefaultMQPushConsumer consumer = made(session, "members_" + way);
        consumer.subscribe(session.name("members_" + way), Session.ALL);
        if (way.equals("broadcast")) {
            broadcast(consumer);
        }
        if (way.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                got(way, messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                got(way, messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        return consumer;
    }

    /** The versions of the client have the model in different packages. */
    private static void broadcast(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                for (Object model : method.getParameterTypes()[0].getEnumConstants()) {
                    if (model.toString().equals("BROADCASTING")) {
                        method.invoke(consumer, model);
                    }
                }
            }
        }
    }

    private static DefaultMQPushConsumer made(Session session, String group) {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(session.name(group));
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1_000);
        consumer.setHeartbeatBrokerInterval(Integer.getInteger("interop.heartbeatMs", 30_000));
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setAwaitTerminationMillisWhenShutdown(2_000);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        return consumer;
    }

    private static void got(String way, List<MessageExt> messages) {
        for (MessageExt message : messages) {
            Main.print(Map.of("got", way, "queue", message.getQueueId(), "offset", message.getQueueOffset(),
                "body", Session.body(message), "at", System.nanoTime()));
        }
    }

    private static void watch(Session session, Map<String, DefaultMQPushConsumer> consumers) {
        Map<String, Object> last = Map.of();
        try {
            while (true) {
                Map<String, Object> now = new TreeMap<>();
                consumers.forEach((way, consumer) ->
                    now.put(way, new ArrayList<>(queues(consumer, session.name("members_" + way)))));
                if (!now.equals(last)) {
                    last = now;
                    Main.print(Map.of("holds", now));
                }
                Thread.sleep(20);
            }
        } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
        }
    }
}

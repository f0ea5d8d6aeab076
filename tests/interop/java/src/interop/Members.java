package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.util.ArrayList;
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

    /** Three groups that begin at the first message, the last and now; each tells what it got. */
    static Map<String, Object> beginnings(Session session) throws Exception {
        String topic = session.name("beginnings");
        for (int i = 0; i < 10; i++) {
            session.producer().send(Session.message(topic, "old" + i));
        }
        session.pullAll(topic, Session.ALL, 10);
        Map<String, List<String>> got = new TreeMap<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (ConsumeFromWhere where : List.of(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)) {
            DefaultMQPushConsumer consumer = made(session, "beginnings_" + where);
            consumer.setConsumeFromWhere(where);
            consumer.subscribe(topic, Session.ALL);
            List<String> bodies = java.util.Collections.synchronizedList(new ArrayList<>());
            got.put(where.name(), bodies);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                bodies.addAll(Session.bodies(messages));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        for (int i = 0; i < 10; i++) {
            session.producer().send(Session.message(topic, "new" + i));
        }
        try {
            Session.await(() -> got.values().stream().allMatch(bodies -> bodies.size() >= 20) ? true : null);
        } finally {
            consumers.forEach(DefaultMQPushConsumer::shutdown);
        }
        return new TreeMap<>(got);
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
                consumers.forEach((way, consumer) -> {
                    TreeSet<Integer> queues = new TreeSet<>();
                    consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()
                        .forEach(queue -> {
                            if (queue.getTopic().equals(session.name("members_" + way))) {
                                queues.add(queue.getQueueId());
                            }
                        });
                    now.put(way, new ArrayList<>(queues));
                });
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

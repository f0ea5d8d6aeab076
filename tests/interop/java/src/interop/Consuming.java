package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way to consume: pushed, polled, filtered by tag, woken by arrival, continued where the last one stopped. */
final class Consuming {
    private Consuming() {
    }

    static Map<String, Object> push(Session session) throws Exception {
        List<MessageExt> got = pushed(session, session.name("thousand"), Session.ALL, "push", 1000);
        List<List<Object>> received = new ArrayList<>();
        got.forEach(m -> received.add(List.of(m.getQueueId(), m.getQueueOffset(), Session.body(m))));
        return Map.of("received", received);
    }

    /** Poll everything, then go back in one queue. (Seeking first would race with what the client fetches on its own.) */
    static Map<String, Object> poll(Session session) throws Exception {
        String topic = session.name("thousand");
        DefaultLitePullConsumer consumer = lite(session, "poll");
        try {
            List<MessageQueue> queues = new ArrayList<>(session.queues(topic));
            consumer.assign(queues);
            List<List<Object>> received = new ArrayList<>();
            Session.await(() -> {
                consumer.poll(200)
                    .forEach(m -> received.add(List.of(m.getQueueId(), m.getQueueOffset(), Session.body(m))));
                return received.size() >= 1000 ? true : null;
            });
            consumer.seek(queues.get(0), 200);
            List<Long> sought = new ArrayList<>();
            Session.await(() -> {
                consumer.poll(200).forEach(m -> sought.add(m.getQueueOffset()));
                return sought.size() >= 50 ? true : null;
            });
            return Map.of("received", received, "sought", sought);
        } finally {
            consumer.shutdown();
        }
    }

    static Map<String, Object> tags(Session session) throws Exception {
        String topic = session.name("tags");
        for (int i = 0; i < 30; i++) {
            org.apache.rocketmq.common.message.Message message = Session.message(topic, "t" + i);
            message.setTags(List.of("red", "green", "blue").get(i % 3));
            session.producer().send(message);
        }
        List<MessageExt> pulled = Session.flat(session.pullAll(topic, "red || blue", 20));
        List<MessageExt> pushed = pushed(session, topic, "green", "tags", 10);
        return Map.of("pulled", Session.bodies(pulled), "pushed", Session.bodies(pushed));
    }

    /** A pull that waits at the broker must answer when a message comes, not when its time is over. */
    static Map<String, Object> wake(Session session) throws Exception {
        String topic = session.name("wake");
        MessageQueue queue = session.producer().send(Session.message(topic, "first")).getMessageQueue();
        session.pullAll(topic, Session.ALL, 1);
        session.puller().setBrokerSuspendMaxTimeMillis(15_000);
        List<Long> sentAt = Collections.synchronizedList(new ArrayList<>());
        Thread sender = new Thread(() -> {
            try {
                TimeUnit.MILLISECONDS.sleep(500); // long enough for the pull to be waiting
                sentAt.add(System.nanoTime());
                session.producer().send(Session.message(topic, "second"), queue);
            } catch (Exception error) {
                error.printStackTrace();
            }
        });
        sender.start();
        PullResult result = session.puller().pullBlockIfNotFound(queue, Session.ALL, 1, 32);
        long waitedMs = (System.nanoTime() - sentAt.get(0)) / 1_000_000;
        sender.join();
        return Map.of("status", result.getPullStatus().name(), "bodies", Session.bodies(result.getMsgFoundList()),
            "woken_after_ms", waitedMs);
    }

    /** Consume some, commit, stop; another consumer of the group goes on behind them. */
    static Map<String, Object> commit(Session session) throws Exception {
        String topic = session.name("commit");
        MessageQueue queue = session.producer().send(Session.message(topic, "c0")).getMessageQueue();
        for (int i = 1; i < 40; i++) {
            session.producer().send(Session.message(topic, "c" + i), queue);
        }
        session.pullAll(topic, Session.ALL, 40);

        DefaultLitePullConsumer first = lite(session, "commit");
        first.assign(List.of(queue));
        List<MessageExt> read = new ArrayList<>();
        Session.await(() -> {
            read.addAll(first.poll(200));
            return read.size() >= 15 ? true : null;
        });
        long none = first.committed(queue);
        Map<MessageQueue, Long> upTo = new TreeMap<>(Map.of(queue, 15L));
        first.commitSync(upTo, true);
        first.shutdown();

        DefaultLitePullConsumer second = lite(session, "commit");
        try {
            long committed = second.committed(queue);
            second.assign(List.of(queue));
            List<MessageExt> rest = new ArrayList<>();
            Session.await(() -> {
                rest.addAll(second.poll(200));
                return rest.size() >= 25 ? true : null;
            });
            return Map.of("before", none, "committed", committed, "first", Session.bodies(read.subList(0, 15)),
                "rest", Session.bodies(rest));
        } finally {
            second.shutdown();
        }
    }

    private static DefaultLitePullConsumer lite(Session session, String group) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(session.name(group));
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setAutoCommit(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(10);
        consumer.start();
        return consumer;
    }

    private static List<MessageExt> pushed(Session session, String topic, String expression, String group, int count)
        throws Exception {
        List<MessageExt> got = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(session.name(group));
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // A heartbeat that misses a rebalance leaves pulls refused until the next one, 30 s later by default.
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.setPollNameServerInterval(1_000);
        consumer.setConsumeThreadMin(1); // one thread, so that order of arrival is order of consumption
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, expression);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            Session.await(() -> got.size() >= count ? true : null);
        } finally {
            consumer.shutdown();
        }
        return new ArrayList<>(got);
    }
}

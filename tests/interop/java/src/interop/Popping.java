package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Consumers that pop: the urgent messages first, where a topic knows priorities. More of them than queues: all get work. One of them takes a message and never finishes it, or is
 * killed; the others get it after its invisible time.
 *
 * <p>Clients of 4.x cannot: what is new is called by name. The topic must be there, and set to be popped.
 */
final class Popping {
    private static final List<String> MEMBERS = List.of("first", "second", "third", "fourth", "stuck");
    private static final int MESSAGES = 300;
    private static final long INVISIBLE_MS = 5_000;

    private Popping() {
    }

    static Map<String, Object> crowd(Session session) throws Exception {
        String topic = session.name("crowd");
        session.queues(topic);
        Map<String, List<String>> got = new TreeMap<>();
        List<Integer> again = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch end = new CountDownLatch(1);
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String member : MEMBERS) {
            got.put(member, Collections.synchronizedList(new ArrayList<>()));
            consumers.add(consumer(session, topic, member, got.get(member), again, end));
        }
        int sent = 0;
        try {
            long deadline = System.currentTimeMillis() + Session.DEADLINE_MS;
            while (sent < MESSAGES || got.values().stream().anyMatch(List::isEmpty)) {
                session.producer().send(Session.message(topic, "m" + sent++));
                Thread.sleep(sent < MESSAGES ? 1 : 50);
                if (System.currentTimeMillis() > deadline) {
                    throw new IllegalStateException("one of them gets nothing: " + got);
                }
            }
            int all = sent;
            Session.await(() -> finished(got).size() >= all ? true : null);
        } finally {
            end.countDown();
            consumers.forEach(DefaultMQPushConsumer::shutdown);
        }
        Map<String, Integer> shares = got.entrySet().stream()
            .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().size()));
        return Map.of("sent", sent, "finished", finished(got).size(), "shares", shares, "again", again);
    }

    /** Messages of each priority, the least urgent first, and what one consumer gets, with those that were there before. */
    static Map<String, Object> priority(Session session) throws Exception {
        String topic = session.name("priority");
        int before = Session.flat(session.pullAll(topic, Session.ALL, 1)).size();
        List<Object> sent = new ArrayList<>();
        for (int priority = 0; priority < 4; priority++) {
            Message message = Session.message(topic, "java " + priority);
            Message.class.getMethod("setPriority", int.class).invoke(message, priority);
            sent.add(List.of(priority, session.producer().send(message).getMessageQueue().getQueueId()));
        }
        DefaultMQPushConsumer consumer = made(session, topic, "urgent");
        DefaultMQPushConsumer.class.getMethod("setPopBatchNums", int.class).invoke(consumer, 1);
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        List<Object> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(m -> got.add(List.of(Session.body(m), m.getQueueId(), m.getProperty("_SYS_MSG_PRIORITY_"))));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            Session.await(() -> got.size() >= before + sent.size() ? true : null);
        } finally {
            consumer.shutdown();
        }
        return Map.of("sent", sent, "got", got);
    }

    /**
     * One of a group in a process of its own; it prints each message when it takes it and when it is done with it. A
     * holder never finishes one of five; whoever runs it kills it.
     */
    static Map<String, Object> member(Session session, boolean holds) throws Exception {
        String topic = session.name("members_pop");
        DefaultMQPushConsumer consumer = made(session, topic, "member" + ProcessHandle.current().pid());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                told("took", message);
                while (holds && Integer.parseInt(Session.body(message)) % 5 == 4) {
                    LockSupport.park();
                }
                told("got", message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        consumer.shutdown();
        return Map.of("left", true);
    }

    private static void told(String what, MessageExt message) {
        Main.print(Map.of(what, "pop", "queue", message.getQueueId(), "offset", message.getQueueOffset(),
            "body", Session.body(message), "at", System.nanoTime(), "again", message.getReconsumeTimes()));
    }

    private static Set<String> finished(Map<String, List<String>> got) {
        Set<String> finished = new HashSet<>();
        got.forEach((member, bodies) -> {
            if (!member.equals("stuck")) {
                synchronized (bodies) {
                    finished.addAll(bodies);
                }
            }
        });
        return finished;
    }

    private static DefaultMQPushConsumer consumer(Session session, String topic, String member, List<String> bodies,
        List<Integer> again, CountDownLatch end) throws Exception {
        DefaultMQPushConsumer consumer = made(session, topic, "crowd" + member);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            bodies.addAll(Session.bodies(messages));
            messages.stream().filter(message -> message.getReconsumeTimes() > 0)
                .forEach(message -> again.add(message.getReconsumeTimes()));
            if (member.equals("stuck")) {
                try {
                    end.await(Session.DEADLINE_MS, TimeUnit.MILLISECONDS);
                } catch (InterruptedException leave) {
                    Thread.currentThread().interrupt();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    /** A consumer that pops, in the group that is named as the topic. */
    private static DefaultMQPushConsumer made(Session session, String topic, String instance) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic);
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1_000);
        consumer.setAwaitTerminationMillisWhenShutdown(0);
        DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        DefaultMQPushConsumer.class.getMethod("setPopInvisibleTime", long.class).invoke(consumer, INVISIBLE_MS);
        DefaultMQPushConsumer.class.getMethod("setPopBatchNums", int.class).invoke(consumer, 4);
        consumer.subscribe(topic, Session.ALL);
        return consumer;
    }
}

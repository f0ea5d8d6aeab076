package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** A question and its answer over a topic; the trace that clients leave of what they do; bodies packed in each way. */
final class Asking {
    private static final String TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC";

    private Asking() {
    }

    /** Ten questions, each answered by a consumer, and one that nobody answers in time. */
    static Map<String, Object> request(Session session) throws Exception {
        String topic = session.name("request");
        DefaultMQProducer asker = session.newProducer("asker");
        DefaultMQProducer replier = session.newProducer("replier");
        asker.start();
        replier.start();
        session.producer().send(Session.message(topic, "no question")); // the asker must find the topic itself: then it heartbeats
        session.queues(topic);
        DefaultMQPushConsumer consumer = consumer(session, topic, "answering", false);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    if (Session.body(message).startsWith("question")) {
                        byte[] answer = ("answer to " + Session.body(message)).getBytes();
                        replier.send(MessageUtil.createReplyMessage(message, answer), 5_000);
                    }
                } catch (Exception error) {
                    error.printStackTrace();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            List<String> answers = new ArrayList<>();
            for (int i = 0; i < 10; i++) {
                // The first waits for the consumer's rebalance too.
                answers.add(text(asker.request(Session.message(topic, "question " + i), 30_000)));
            }
            String late = "";
            try {
                asker.request(Session.message(topic, "unheard"), 1_500);
            } catch (Exception error) {
                late = error.getClass().getSimpleName();
            }
            return Map.of("answers", answers, "late", late);
        } finally {
            consumer.shutdown();
            asker.shutdown();
            replier.shutdown();
        }
    }

    /** What producer and consumer write to the trace topic about one message. */
    static Map<String, Object> trace(Session session) throws Exception {
        String topic = session.name("trace");
        DefaultMQProducer producer = new DefaultMQProducer(session.name("tracing"), (RPCHook) null, true, null);
        producer.setNamesrvAddr(session.namesrv);
        producer.start();
        String id = producer.send(Session.message(topic, "traced")).getMsgId();
        session.queues(topic);
        DefaultMQPushConsumer consumer = consumer(session, topic, "traced", true);
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAll(Session.bodies(messages));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        try {
            Map<String, Integer> kinds = Session.await(() -> {
                Map<String, Integer> found = new TreeMap<>();
                for (MessageExt message : Session.flat(session.pullAll(TRACE_TOPIC, Session.ALL, 1))) {
                    if (message.getKeys() != null && message.getKeys().contains(id)) {
                        for (String line : Session.body(message).split("\u0002")) {
                            if (line.contains(id)) {
                                found.merge(line.split("\u0001")[0], 1, Integer::sum);
                            }
                        }
                    }
                }
                return found.size() >= 3 ? found : null;
            });
            return Map.of("kinds", kinds, "received", got);
        } finally {
            consumer.shutdown();
            producer.shutdown();
        }
    }

    /** A large body, compressed by each codec that this client has, comes back whole. */
    static Map<String, Object> compressed(Session session) throws Exception {
        String topic = session.name("compressed");
        String body = "0123456789abcdef".repeat(4_096);
        for (String codec : List.of("ZLIB", "LZ4", "ZSTD")) {
            System.setProperty("rocketmq.message.compressType", codec); // read when a 5.x producer is made
            DefaultMQProducer producer = session.newProducer("compressed_" + codec);
            producer.start();
            producer.send(new Message(topic, codec, body.getBytes()));
            producer.shutdown();
        }
        Map<String, Object> facts = new TreeMap<>();
        for (MessageExt message : Session.flat(session.pullAll(topic, Session.ALL, 3))) {
            boolean packed = message.getStoreSize() < body.length();
            facts.put(message.getTags(), List.of(Session.body(message).equals(body), packed));
        }
        return facts;
    }

    private static String text(Message message) {
        return new String(message.getBody());
    }

    private static DefaultMQPushConsumer consumer(Session session, String topic, String group, boolean traced)
        throws Exception {
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(session.name(group), null, new AllocateMessageQueueAveragely(), traced, null);
        consumer.setNamesrvAddr(session.namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(1_000);
        consumer.subscribe(topic, Session.ALL);
        return consumer;
    }
}

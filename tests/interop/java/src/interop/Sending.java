package interop;

import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Every way to send, each read back by pulling. */
final class Sending {
    static final int LARGE_BYTES = (int) (3.9 * 1024 * 1024);

    private Sending() {
    }

    static Map<String, Object> thousand(Session session) throws Exception {
        String topic = session.name("thousand");
        List<List<Object>> sent = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            SendResult result = session.producer().send(Session.message(topic, "m" + i));
            sent.add(List.of(result.getMessageQueue().getQueueId(), result.getQueueOffset(), "m" + i,
                result.getSendStatus().name()));
        }
        Map<Integer, List<List<Object>>> pulled = new TreeMap<>();
        session.pullAll(topic, Session.ALL, 1000).forEach((queue, messages) -> {
            List<List<Object>> of = pulled.computeIfAbsent(queue, id -> new ArrayList<>());
            messages.forEach(message -> of.add(List.of(message.getQueueOffset(), Session.body(message))));
        });
        return Map.of("queues", session.queues(topic).size(), "sent", sent, "pulled", pulled);
    }

    static Map<String, Object> batch(Session session) throws Exception {
        String topic = session.name("batch");
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            Message message = Session.message(topic, "b" + i);
            message.setTags("t" + i % 2);
            batch.add(message);
        }
        SendResult result = session.producer().send(batch);
        List<MessageExt> pulled = Session.flat(session.pullAll(topic, Session.ALL, 100));
        HashSet<String> ids = new HashSet<>();
        pulled.forEach(message -> ids.add(message.getMsgId()));
        return Map.of(
            "ids_acknowledged", new HashSet<>(Arrays.asList(result.getMsgId().split(","))).equals(ids),
            "offset_ids", new HashSet<>(Arrays.asList(result.getOffsetMsgId().split(","))).size(),
            "pulled", Session.bodies(pulled),
            "queues_used", pulled.stream().map(MessageExt::getQueueId).distinct().count(),
            "tagged", Session.flat(session.pullAll(topic, "t1", 50)).size());
    }

    static Map<String, Object> oneway(Session session) throws Exception {
        String topic = session.name("oneway");
        for (int i = 0; i < 100; i++) {
            session.producer().sendOneway(Session.message(topic, "o" + i));
        }
        return Map.of("pulled", Session.bodies(Session.flat(session.pullAll(topic, Session.ALL, 100))));
    }

    static Map<String, Object> async(Session session) throws Exception {
        String topic = session.name("async");
        AtomicInteger acknowledged = new AtomicInteger();
        List<String> failures = new ArrayList<>();
        CountDownLatch done = new CountDownLatch(200);
        for (int i = 0; i < 200; i++) {
            session.producer().send(Session.message(topic, "a" + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    acknowledged.addAndGet(result.getSendStatus() == SendStatus.SEND_OK ? 1 : 0);
                    done.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    synchronized (failures) {
                        failures.add(String.valueOf(error));
                    }
                    done.countDown();
                }
            });
        }
        boolean all = done.await(Session.DEADLINE_MS, TimeUnit.MILLISECONDS);
        return Map.of("all_called_back", all, "acknowledged", acknowledged.get(), "failures", failures,
            "pulled", Session.bodies(Session.flat(session.pullAll(topic, Session.ALL, 200))));
    }

    static Map<String, Object> properties(Session session) throws Exception {
        String topic = session.name("properties");
        Message message = Session.message(topic, "grüße 彗星 ☄");
        message.setTags("tag-1");
        message.setKeys(List.of("key-1", "key-2"));
        message.setFlag(7);
        message.putUserProperty("colour", "grün");
        SendResult result = session.producer().send(message);
        MessageExt found = Session.flat(session.pullAll(topic, Session.ALL, 1)).get(0);
        Map<String, Object> facts = new HashMap<>();
        facts.put("body", Session.body(found));
        facts.put("tags", found.getTags());
        facts.put("keys", found.getKeys());
        facts.put("flag", found.getFlag());
        facts.put("colour", found.getUserProperty("colour"));
        facts.put("id_equal", result.getMsgId().equals(found.getMsgId()));
        facts.put("reconsume_times", found.getReconsumeTimes());
        facts.put("born_before_stored", found.getBornTimestamp() <= found.getStoreTimestamp());
        return facts;
    }

    static Map<String, Object> large(Session session) throws Exception {
        String topic = session.name("large");
        byte[] noise = new byte[LARGE_BYTES];
        new Random(20).nextBytes(noise);
        byte[] zeros = new byte[1 << 20]; // shrinks well, so the client compresses it
        List<String> sent = new ArrayList<>();
        for (byte[] body : List.of(noise, zeros)) {
            session.producer().send(new Message(topic, body));
            sent.add(digest(body));
        }
        List<String> pulled = new ArrayList<>();
        for (MessageExt message : Session.flat(session.pullAll(topic, Session.ALL, 2))) {
            pulled.add(digest(message.getBody()));
        }
        return Map.of("size", noise.length, "sent", sent, "pulled", pulled);
    }

    private static String digest(byte[] body) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(body));
    }
}

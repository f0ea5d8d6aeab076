package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Two brokers of which one is restarted gracefully under a producer that never pauses.
 *
 * <p>A second producer sends to the restarted broker alone and does not retry: what it is told is counted by kind. A
 * line of input ends the sending.
 */
final class Restart {
    private static final int WARM = 100;

    private Restart() {
    }

    static Map<String, Object> restart(Session session) throws Exception {
        String topic = session.name("restart");
        DefaultMQProducer any = session.newProducer("restart");
        any.setPollNameServerInterval(1000);
        any.start();
        Batches.create(session, topic, 2, Map.of());
        MessageQueue stopped = Session.await(() -> session.queues(topic).stream()
            .filter(queue -> queue.getBrokerName().equals("broker-a") && queue.getQueueId() == 0).findFirst()
            .orElse(null));
        Session.await(() -> any.fetchPublishMessageQueues(topic).stream().map(MessageQueue::getBrokerName)
            .distinct().count() == 2 ? true : null);

        Thread word = new Thread(() -> {
            try {
                new BufferedReader(new InputStreamReader(System.in)).readLine();
            } catch (java.io.IOException closed) {
                // then it is over, too
            }
        });
        word.start();
        List<String> acknowledged = new ArrayList<>();
        List<String> failures = new ArrayList<>();
        Map<String, Integer> told = new TreeMap<>();
        for (int i = 0; word.isAlive(); i++) {
            String body = "m" + i;
            try {
                any.send(Session.message(topic, body));
                acknowledged.add(body);
            } catch (Exception failure) {
                failures.add(String.valueOf(failure));
            }
            if (i % 4 == 0) {
                try {
                    any.getDefaultMQProducerImpl().send(Session.message(topic, "p" + i), stopped, 2000);
                    acknowledged.add("p" + i);
                    told.merge("stored", 1, Integer::sum);
                } catch (Exception failure) {
                    told.merge(kind(failure), 1, Integer::sum);
                }
            }
            if (i == WARM) {
                Main.print(Map.of("phase", "sending"));
            }
            Thread.sleep(2);
        }
        List<String> pulled = Session.bodies(Session.flat(pullBoth(session, topic, acknowledged)));
        any.shutdown();
        TreeSet<String> lost = new TreeSet<>(acknowledged);
        lost.removeAll(pulled);
        return Map.of("acknowledged", acknowledged.size(), "failures", failures, "told", told, "lost", lost);
    }

    private static Map<Integer, List<org.apache.rocketmq.common.message.MessageExt>> pullBoth(
        Session session, String topic, List<String> acknowledged) throws Exception {
        Session.await(() -> session.queues(topic).stream().map(MessageQueue::getBrokerName).distinct().count() == 2
            ? true : null);
        return session.pullAll(topic, Session.ALL, acknowledged.size());
    }

    private static String kind(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (String.valueOf(cause.getMessage()).contains("GO_AWAY")) {
                return "GO_AWAY";
            }
        }
        return "other";
    }
}

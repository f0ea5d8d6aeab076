package interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Two producers of a group send in transactions while the broker is killed and started again.
 *
 * <p>A body begins with what becomes of its transaction: "commit", "rollback", "later" (unknown, committed when the
 * broker asks), "undo" (unknown, rolled back then). Both producers look it up in one table, as instances of a service
 * would; what the table does not have never happened, and is rolled back. A line of input says that the broker is back.
 */
final class Transactions {
    private static final String[] KINDS = {"commit", "rollback", "later", "undo"};
    private static final int WARM = 40;
    private static final int MORE = 40;
    private static final int QUIET_MS = 3000;

    private final Map<String, Boolean> begun = new ConcurrentHashMap<>();
    private final String topic;

    private Transactions(String topic) {
        this.topic = topic;
    }

    static Map<String, Object> transactions(Session session) throws Exception {
        return new Transactions(session.name("transactions")).run(session);
    }

    private Map<String, Object> run(Session session) throws Exception {
        session.producer().send(Session.message(topic, "first"));
        List<AtomicInteger> asked = List.of(new AtomicInteger(), new AtomicInteger());
        List<TransactionMQProducer> producers = new ArrayList<>();
        for (AtomicInteger count : asked) {
            producers.add(start(session, "transactor-" + producers.size(), count));
        }
        Thread word = new Thread(() -> {
            try {
                new BufferedReader(new InputStreamReader(System.in)).readLine();
            } catch (IOException closed) {
                // then it is over, too
            }
        });
        word.start();
        int failures = 0;
        int left = MORE;
        for (int i = 0; left > 0; i++) {
            if (i == WARM) {
                Main.print(Map.of("phase", "sending"));
            }
            try {
                send(producers.get(i % 2), KINDS[i % KINDS.length] + i);
                Thread.sleep(10);
            } catch (Exception failure) {
                failures++;
                Thread.sleep(100);
            }
            left -= word.isAlive() ? 0 : 1;
        }
        TreeSet<String> expected = new TreeSet<>(List.of("first"));
        begun.keySet().stream().filter(body -> body.startsWith("commit") || body.startsWith("later"))
            .forEach(expected::add);
        session.pullAll(topic, Session.ALL, expected.size());
        Thread.sleep(QUIET_MS); // some rounds of checks more: what would come twice would come now
        List<String> seen = Session.bodies(Session.flat(session.pullAll(topic, Session.ALL, expected.size())));
        producers.forEach(TransactionMQProducer::shutdown);
        TreeSet<String> lost = new TreeSet<>(expected);
        lost.removeAll(seen);
        TreeSet<String> extra = new TreeSet<>(seen);
        extra.removeAll(expected);
        return Map.of("expected", expected.size(), "begun", begun.size(), "lost", lost, "extra", extra,
            "twice", seen.size() - new TreeSet<>(seen).size(), "failures", failures,
            "asked", List.of(asked.get(0).get(), asked.get(1).get()));
    }

    private TransactionMQProducer start(Session session, String instance, AtomicInteger asked) throws Exception {
        TransactionMQProducer made = new TransactionMQProducer(session.name("transactors"));
        made.setNamesrvAddr(session.namesrv);
        made.setInstanceName(instance);
        made.setHeartbeatBrokerInterval(500);
        made.setPollNameServerInterval(1000);
        made.setSendMsgTimeout(3000);
        made.setRetryTimesWhenSendFailed(0); // a half message whose answer was lost would be sent twice
        made.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                String body = new String(message.getBody());
                begun.put(body, true);
                return body.startsWith("commit") ? LocalTransactionState.COMMIT_MESSAGE
                    : body.startsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE
                    : LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                asked.incrementAndGet();
                String body = Session.body(message);
                boolean done = begun.containsKey(body) && (body.startsWith("commit") || body.startsWith("later"));
                return done ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        made.start();
        return made;
    }

    private void send(TransactionMQProducer producer, String body) throws Exception {
        producer.sendMessageInTransaction(Session.message(topic, body), null);
    }
}

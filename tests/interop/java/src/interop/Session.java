package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.MQClientAPIImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What the scenarios share: one producer, one puller, names that no other client uses, and waiting with a limit. */
final class Session implements AutoCloseable {
    static final int DEADLINE_MS = 40_000;
    static final long CALL_TIMEOUT_MS = 10_000;
    static final String ALL = "*";

    final String namesrv;
    final String broker;
    final String prefix;
    final DefaultMQProducer producer;
    final DefaultMQPullConsumer puller;
    private boolean started;

    Session(String namesrv, String broker, String prefix) {
        this.namesrv = namesrv;
        this.broker = broker;
        this.prefix = prefix;
        this.producer = newProducer("producer");
        this.puller = new DefaultMQPullConsumer(name("puller"));
        this.puller.setNamesrvAddr(namesrv);
    }

    String name(String suffix) {
        return prefix + "_" + suffix;
    }

    DefaultMQProducer newProducer(String group) {
        DefaultMQProducer made = new DefaultMQProducer(name(group));
        made.setNamesrvAddr(namesrv);
        made.setSendMsgTimeout(10_000);
        made.setMaxMessageSize(64 << 20); // the broker's limit is under test, not the client's
        return made;
    }

    DefaultMQProducer producer() throws MQClientException {
        start();
        return producer;
    }

    DefaultMQPullConsumer puller() throws MQClientException {
        start();
        return puller;
    }

    private void start() throws MQClientException {
        if (!started) {
            started = true;
            producer.start();
            puller.start();
        }
    }

    /** The client below the public face, for what only the admin tools offer. */
    MQClientAPIImpl api() throws MQClientException {
        return instance().getMQClientAPIImpl();
    }

    MQClientInstance instance() throws MQClientException {
        return producer().getDefaultMQProducerImpl().getMqClientFactory();
    }

    static Message message(String topic, String body) {
        return new Message(topic, body.getBytes(StandardCharsets.UTF_8));
    }

    static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    static List<String> bodies(List<MessageExt> messages) {
        List<String> bodies = new ArrayList<>();
        messages.forEach(message -> bodies.add(body(message)));
        return bodies;
    }

    /** The queues a consumer sees; waits, because a new topic reaches the name servers a moment after its first message. */
    Set<MessageQueue> queues(String topic) throws Exception {
        return await(() -> {
            try {
                return new TreeSet<>(puller().fetchSubscribeMessageQueues(topic));
            } catch (MQClientException notYet) {
                return null;
            }
        });
    }

    /** Pull each queue from 0 to its end, until `expected` messages are there; more are returned too. */
    Map<Integer, List<MessageExt>> pullAll(String topic, String expression, int expected) throws Exception {
        Map<Integer, List<MessageExt>> found = new TreeMap<>();
        Map<MessageQueue, Long> next = new TreeMap<>();
        Set<MessageQueue> queues = queues(topic);
        await(() -> {
            int count = 0;
            for (MessageQueue queue : queues) {
                List<MessageExt> of = found.computeIfAbsent(queue.getQueueId(), id -> new ArrayList<>());
                next.put(queue, pullToEnd(queue, expression, next.getOrDefault(queue, 0L), of));
                count += of.size();
            }
            return count >= expected ? true : null;
        });
        return found;
    }

    private long pullToEnd(MessageQueue queue, String expression, long from, List<MessageExt> into) throws Exception {
        long offset = from;
        while (true) {
            PullResult result = puller().pull(queue, expression, offset, 32);
            switch (result.getPullStatus()) {
                case FOUND -> into.addAll(result.getMsgFoundList());
                case NO_MATCHED_MSG -> { }
                default -> {
                    return offset;
                }
            }
            offset = result.getNextBeginOffset();
        }
    }

    static List<MessageExt> flat(Map<Integer, List<MessageExt>> byQueue) {
        List<MessageExt> all = new ArrayList<>();
        byQueue.values().forEach(all::addAll);
        return all;
    }

    /** Ask until the answer is not null; after the deadline say so. */
    static <T> T await(Callable<T> question) throws Exception {
        long deadline = System.currentTimeMillis() + DEADLINE_MS;
        while (true) {
            T answer = question.call();
            if (answer != null) {
                return answer;
            }
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("waited " + DEADLINE_MS + " ms in vain");
            }
            Thread.sleep(20);
        }
    }

    /** The response code with which a call is refused; 0 where it is not. */
    static int refusal(Callable<?> call) throws Exception {
        try {
            call.call();
            return 0;
        } catch (MQBrokerException error) {
            return error.getResponseCode();
        } catch (MQClientException error) {
            return error.getResponseCode();
        }
    }

    @Override
    public void close() {
        if (started) {
            producer.shutdown();
            puller.shutdown();
        }
    }
}

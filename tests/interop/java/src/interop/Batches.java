package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** A topic whose queues are of batches: the broker stores a batch as it came, and the client unwraps it. */
final class Batches {
    private Batches() {
    }

    static Map<String, Object> batchQueue(Session session) throws Exception {
        String topic = session.name("batch_queue");
        create(session, topic, 1, Map.of("+queue.type", "BatchCQ"));
        MessageQueue queue = session.queues(topic).iterator().next();
        List<Long> offsets = new ArrayList<>();
        Set<String> acknowledged = new TreeSet<>();
        for (int size : new int[] {3, 1, 50, 2}) {
            List<Message> batch = new ArrayList<>();
            for (int i = 0; i < size; i++) {
                batch.add(Session.message(topic, "b" + offsets.size() + "." + i));
            }
            SendResult result = session.producer().send(batch, queue);
            offsets.add(result.getQueueOffset());
            acknowledged.add(result.getMsgId());
        }
        offsets.add(session.producer().send(Session.message(topic, "alone"), queue).getQueueOffset());
        List<MessageExt> pulled = Session.flat(session.pullAll(topic, Session.ALL, 57));
        List<Long> places = new ArrayList<>();
        pulled.forEach(message -> places.add(message.getQueueOffset()));
        return Map.of("offsets", offsets, "pulled", Session.bodies(pulled), "places", places,
            "ids", acknowledged.size(), "end", session.puller().maxOffset(queue),
            "from_inside", Session.bodies(session.puller().pull(queue, Session.ALL, 30, 1).getMsgFoundList()));
    }

    /** Make a topic at all brokers; only version 5 takes attributes. */
    static void create(Session session, String topic, int queues, Map<String, String> attributes) throws Exception {
        DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class, Map.class)
            .invoke(session.producer(), "TBW102", topic, queues, attributes);
    }
}

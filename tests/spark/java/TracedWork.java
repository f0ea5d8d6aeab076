import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * "namesrv topic group singles batch": sends so many one by one and so many in a batch, and works on each; all of it
 * traced. Goes on until its input ends: traces are sent in the background, and a shutdown may come before the last ones.
 */
public class TracedWork {
    private static final int WORK_MS = 5;

    public static void main(String[] args) throws Exception {
        String namesrv = args[0], topic = args[1], group = args[2];
        int singles = Integer.parseInt(args[3]), batch = Integer.parseInt(args[4]);
        CountDownLatch waiting = new CountDownLatch(singles + batch);
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(group, null, new AllocateMessageQueueAveragely(), true, null);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                Thread.sleep(WORK_MS);
            } catch (InterruptedException interrupted) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            messages.forEach(message -> waiting.countDown());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();

        DefaultMQProducer producer = new DefaultMQProducer("traced-work", (RPCHook) null, true, null);
        producer.setNamesrvAddr(namesrv);
        producer.start();
        for (int number = 0; number < singles; number++) {
            producer.send(new Message(topic, "one".getBytes()));
        }
        List<Message> together = new ArrayList<>();
        for (int number = 0; number < batch; number++) {
            together.add(new Message(topic, "of many".getBytes()));
        }
        producer.send(together);
        waiting.await();
        System.out.println("worked");
        System.in.read();
        producer.shutdown();
        consumer.shutdown();
        System.exit(0);
    }
}

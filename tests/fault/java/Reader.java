import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** "namesrv group topic": prints what it consumes, slowly until a line comes in, and ends with its input. */
public class Reader {
    public static void main(String[] args) throws Exception {
        AtomicBoolean slow = new AtomicBoolean(true);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setPollNameServerInterval(500);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.setPullBatchSize(8);
        consumer.setPullThresholdForQueue(16);  // so that it keeps on pulling
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (slow.get()) {
                    try {
                        Thread.sleep(40);
                    } catch (InterruptedException stopped) {
                        return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                    }
                }
                synchronized (slow) {
                    System.out.println(message.getBrokerName() + " " + new String(message.getBody()));
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        System.out.println("started -");
        while (System.in.read() >= 0) {
            slow.set(false);
        }
        consumer.shutdown();
        System.exit(0);
    }
}

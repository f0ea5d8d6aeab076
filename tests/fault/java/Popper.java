import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** "namesrv group topic": pops, prints what it consumes, asks for message 3 to come later once, and ends with its input. */
public class Popper {
    public static void main(String[] args) throws Exception {
        Set<String> refused = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[1]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setClientRebalance(false);
        consumer.setPollNameServerInterval(500);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setPopBatchNums(4);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[2], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            ConsumeConcurrentlyStatus status = ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            for (MessageExt message : messages) {
                String body = new String(message.getBody());
                if (body.equals("3") && refused.add(body)) {
                    status = ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                synchronized (refused) {
                    System.out.println("got " + body);
                }
            }
            return status;
        });
        consumer.start();
        while (System.in.read() >= 0) {
        }
        consumer.shutdown();
        System.exit(0);
    }
}

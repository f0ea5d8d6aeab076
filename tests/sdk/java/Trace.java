import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.AccessChannel;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * "write namesrv topic": sends and consumes as the Python test does, with Java's own trace.
 * "read base64": decodes a trace with Java's own class and prints it, encoded again, in base64.
 */
public class Trace {
    public static void main(String[] args) throws Exception {
        if (args[0].equals("read")) {
            StringBuilder again = new StringBuilder();
            String text = new String(Base64.getDecoder().decode(args[1]), StandardCharsets.UTF_8);
            for (TraceContext context : TraceDataEncoder.decoderFromTraceDataString(text)) {
                context.setAccessChannel(AccessChannel.LOCAL);
                again.append(TraceDataEncoder.encoderFromContextBean(context).getTransData());
            }
            System.out.println(Base64.getEncoder().encodeToString(again.toString().getBytes(StandardCharsets.UTF_8)));
        } else {
            write(args[1], args[2]);
        }
        System.exit(0);
    }

    private static void write(String namesrv, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("tracing", (RPCHook) null, true, null);
        producer.setNamesrvAddr(namesrv);
        producer.start();
        producer.send(new Message(topic, "plain".getBytes()));
        producer.send(new Message(topic, "created", "a b", "keyed".getBytes()));
        Message delayed = new Message(topic, "delayed".getBytes());
        delayed.setDelayTimeLevel(1);
        producer.send(delayed);
        producer.send(List.of(new Message(topic, "t", "one".getBytes()), new Message(topic, "two".getBytes())));
        producer.shutdown();

        TransactionMQProducer transactions = new TransactionMQProducer("tracing", (RPCHook) null, true, null);
        transactions.setNamesrvAddr(namesrv);
        transactions.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return (LocalTransactionState) argument;
            }

            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.UNKNOW;
            }
        });
        transactions.start();
        transactions.sendMessageInTransaction(
            new Message(topic, "paid", "k", "commit".getBytes()), LocalTransactionState.COMMIT_MESSAGE);
        transactions.sendMessageInTransaction(
            new Message(topic, "rollback".getBytes()), LocalTransactionState.ROLLBACK_MESSAGE);
        transactions.shutdown();

        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer("traced", null, new AllocateMessageQueueAveragely(), true, null);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "created");
        CountDownLatch heard = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            heard.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        heard.await();
        consumer.shutdown();
    }
}

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** "sends|push namesrv topic group body_size in_flight warm_s duration_s total": what bench/sdk/programs.py says. */
public class SdkBench {
    static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    static final AtomicLong DONE = new AtomicLong();
    static final AtomicLong FAILED = new AtomicLong();

    public static void main(String[] args) throws Exception {
        int size = Integer.parseInt(args[4]);
        int inFlight = Integer.parseInt(args[5]);
        double warmS = Double.parseDouble(args[6]);
        double durationS = Double.parseDouble(args[7]);
        if (args[0].equals("sends")) {
            sends(args[1], args[2], args[3], size, inFlight, warmS, durationS);
        } else {
            push(args[1], args[2], args[3], warmS, durationS, Long.parseLong(args[8]));
        }
        System.exit(0);
    }

    static void sends(String namesrv, String topic, String group, int size, int inFlight, double warmS, double durationS)
        throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setNamesrvAddr(namesrv);
        producer.start();
        byte[] body = new byte[size];
        Semaphore window = new Semaphore(inFlight);
        SendCallback callback = new SendCallback() {
            public void onSuccess(SendResult result) {
                DONE.incrementAndGet();
                window.release();
            }

            public void onException(Throwable fault) {
                FAILED.incrementAndGet();
                window.release();
            }
        };
        for (int part = 0; part < 2; part++) {
            long[] before = mark();
            long until = System.nanoTime() + (long) (1e9 * (part == 0 ? warmS : durationS));
            while (System.nanoTime() < until) {
                window.acquire();
                producer.send(new Message(topic, "t", body), callback);
            }
            if (part == 1) {
                report(before);
            }
        }
        window.acquire(inFlight);
        producer.shutdown();
    }

    static void push(String namesrv, String topic, String group, double warmS, double durationS, long total)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                if (message.getBody().length == 0) {
                    FAILED.incrementAndGet();
                }
                DONE.incrementAndGet();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        while (DONE.get() == 0) {
            Thread.sleep(1);
        }
        for (int part = 0; part < 2; part++) {
            long[] before = mark();
            long until = System.nanoTime() + (long) (1e9 * (part == 0 ? warmS : durationS));
            long enough = part == 0 ? total / 2 : total;
            while (System.nanoTime() < until && DONE.get() < enough) {
                Thread.sleep(1);
            }
            if (part == 1) {
                report(before);
            }
        }
        consumer.shutdown();
    }

    static long[] mark() {
        return new long[] {DONE.get(), System.nanoTime(), SYSTEM.getProcessCpuTime()};
    }

    static void report(long[] before) {
        long[] now = mark();
        System.out.printf("{\"messages\": %d, \"elapsed_s\": %.4f, \"cpu_s\": %.4f, \"failed\": %d}%n",
            now[0] - before[0], (now[1] - before[1]) / 1e9, (now[2] - before[2]) / 1e9, FAILED.get());
    }
}

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.StringJoiner;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.client.consumer.store.OffsetSerializeWrapper;
import org.apache.rocketmq.common.message.MessageQueue;

/** Records how the original divides queues, and its file of offsets: `shares.json`, `offsets.json`. */
public class ClientGolden {
    static final String[] BROKERS = {"east@a", "west@b", "north@c", "plain"};
    static final String[] ROOMS = {"east", "south", "west"};
    // brokers, queues on each, members
    static final int[][] CASES = {
        {1, 1, 1}, {1, 4, 1}, {1, 4, 3}, {2, 4, 3}, {2, 4, 5}, {3, 3, 4}, {3, 8, 7}, {4, 2, 3}, {4, 5, 6}, {1, 2, 5},
        {4, 16, 10}};

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        List<String> rows = new ArrayList<>();
        for (int[] numbers : CASES) {
            addRows(rows, numbers);
        }
        Files.writeString(folder.resolve("shares.json"), "[" + String.join(",\n ", rows) + "]\n");
        OffsetSerializeWrapper offsets = new OffsetSerializeWrapper();
        offsets.getOffsetTable().put(new MessageQueue("orders", "broker-a", 0), new AtomicLong(42));
        offsets.getOffsetTable().put(new MessageQueue("orders", "broker-b", 3), new AtomicLong(9000000000L));
        Files.writeString(folder.resolve("offsets.json"), offsets.toJson(true));
    }

    static void addRows(List<String> rows, int[] numbers) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int broker = 0; broker < numbers[0]; broker++) {
            for (int queue = 0; queue < numbers[1]; queue++) {
                queues.add(new MessageQueue("orders", BROKERS[broker], queue));
            }
        }
        List<String> clients = new ArrayList<>();
        for (int client = 0; client < numbers[2]; client++) {
            clients.add(ROOMS[client % 3] + "-10.0.0." + client + "@" + (100 + client * 37));
        }
        Collections.sort(queues);
        Collections.sort(clients);
        for (AllocateMessageQueueStrategy strategy : strategies()) {
            List<String> shares = new ArrayList<>();
            for (String client : clients) {
                StringJoiner share = new StringJoiner(" ", "\"" + client + "\":\"", "\"");
                for (MessageQueue queue : strategy.allocate("group", client, queues, clients)) {
                    share.add(queue.getBrokerName() + ":" + queue.getQueueId());
                }
                shares.add(share.toString());
            }
            rows.add(String.format("{\"strategy\":\"%s\",\"brokers\":%d,\"queues\":%d,\"shares\":{%s}}",
                strategy.getName(), numbers[0], numbers[1], String.join(",", shares)));
        }
    }

    static List<AllocateMessageQueueStrategy> strategies() {
        AllocateMessageQueueByMachineRoom rooms = new AllocateMessageQueueByMachineRoom();
        rooms.setConsumeridcs(Set.of("east", "north"));
        AllocateMachineRoomNearby.MachineRoomResolver resolver = new AllocateMachineRoomNearby.MachineRoomResolver() {
            public String brokerDeployIn(MessageQueue queue) {
                return queue.getBrokerName().split("@")[0];
            }

            public String consumerDeployIn(String client) {
                return client.split("-")[0];
            }
        };
        return List.of(new AllocateMessageQueueAveragely(), new AllocateMessageQueueAveragelyByCircle(), rooms,
            new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), resolver),
            new AllocateMachineRoomNearby(new AllocateMessageQueueAveragelyByCircle(), resolver),
            new AllocateMessageQueueConsistentHash());
    }
}

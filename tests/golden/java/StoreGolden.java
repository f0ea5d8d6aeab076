import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.StoreCheckpoint;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.index.IndexService;

/** Writes what the original's store makes of fixed values, one JSON file per kind of file, into the folder given. */
public class StoreGolden {
    static final HexFormat HEX = HexFormat.of();
    static final long T0 = 1_700_000_000_000L;

    static Path folder;
    static Path scratch;

    public static void main(String[] args) throws Exception {
        folder = Path.of(args[0]);
        scratch = Path.of(args[1]);
        write("index", List.of(
            index("one file", 16, 40, messages(9, 700)),
            index("three files, rolled inside a message", 7, 12, messages(12, 1900)),
            index("one slot", 1, 64, messages(15, 0)),
            index("time runs backwards", 5, 30, messages(8, -2500)),
            index("nothing to index", 4, 8, List.of(message(0, T0, null, "", null, 0)))));
        write("checkpoint", List.of(checkpoint()));
        System.exit(0);
    }

    static void write(String name, List<?> cases) throws Exception {
        Map<String, Object> file = new LinkedHashMap<>();
        file.put("rocketmq", MQVersion.getVersionDesc(MQVersion.CURRENT_VERSION));
        file.put("cases", cases);
        String text = JSON.toJSONString(file, JSONWriter.Feature.PrettyFormat, JSONWriter.Feature.WriteMapNullValue);
        Files.write(folder.resolve(name + ".json"), (text.replace("\t", "  ") + "\n").getBytes(StandardCharsets.UTF_8));
    }

    static List<Map<String, Object>> messages(int count, long stepMs) {
        String[] keys = {"", "k1", "k1 k2", " k3  k1 ", "ключ 日本", "Aa BB", "order-0000000000000000000000000000000001"};
        String[] tags = {null, "TagA", "TagB || x", null, "тег"};
        List<Map<String, Object>> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            String uniq = i % 4 == 3 ? null : String.format("7F0000010A5B18B4AAC20F3E1C2D%04X", i);
            int flag = i == 5 ? 12 : i == 6 ? 4 : 0; // a rollback, a half message
            all.add(message(1000L + i * 251L, T0 + i * stepMs, uniq, keys[i % keys.length], tags[i % tags.length], flag));
        }
        return all;
    }

    static Map<String, Object> message(long offset, long timeMs, String uniq, String keys, String tags, int flag) {
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("topic", offset % 2 == 0 ? "Topic" : "Тема");
        message.put("offset", offset);
        message.put("time_ms", timeMs);
        message.put("uniq_key", uniq);
        message.put("keys", keys);
        message.put("tags", tags);
        message.put("sys_flag", flag);
        return message;
    }

    static Map<String, Object> index(String name, int slots, int entries, List<Map<String, Object>> messages)
        throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        Path root = Files.createTempDirectory(scratch, "store");
        config.setStorePathRootDir(root.toString());
        config.setStorePathCommitLog(root + "/commitlog");
        config.setMaxHashSlotNum(slots);
        config.setMaxIndexNum(entries);
        IndexService service = new IndexService(
            new DefaultMessageStore(config, null, null, new BrokerConfig(), new ConcurrentHashMap<>()));
        for (Map<String, Object> m : messages) {
            Map<String, String> properties = new HashMap<>();
            if (m.get("tags") != null) {
                properties.put("TAGS", (String) m.get("tags"));
            }
            service.buildIndex(new DispatchRequest((String) m.get("topic"), 0, (long) m.get("offset"), 251, 0,
                (long) m.get("time_ms"), 0, (String) m.get("keys"), (String) m.get("uniq_key"),
                (int) m.get("sys_flag"), 0, properties));
            Thread.sleep(3); // files made in one millisecond would have one name
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("name", name);
        result.put("slots", slots);
        result.put("entries", entries);
        result.put("messages", messages);
        result.put("queries", queries(service));
        service.shutdown();
        File[] files = new File(root.toFile(), "index").listFiles();
        Arrays.sort(files);
        List<String> contents = new ArrayList<>();
        for (File file : files) {
            contents.add(HEX.formatHex(Files.readAllBytes(file.toPath())));
        }
        result.put("files", contents);
        return result;
    }

    static List<Map<String, Object>> queries(IndexService service) {
        long[][] spans = {{0, Long.MAX_VALUE}, {T0, T0}, {T0 + 2000, T0 + 9000}, {T0 - 9000, T0 - 2000},
            {T0 + 1, T0 + 5999}, {T0 + 9_000_000, T0 + 9_999_999}};
        List<Map<String, Object>> all = new ArrayList<>();
        for (String topic : new String[] {"Topic", "Тема", "Other"}) {
            for (String key : new String[] {"k1", "k2", "日本", "Aa", "7F0000010A5B18B4AAC20F3E1C2D0001", "none"}) {
                for (long[] span : spans) {
                    all.add(query(service, topic, key, 32, span, null));
                }
            }
            all.add(query(service, topic, "k1", 1, spans[0], null));
            all.add(query(service, topic, "TagA", 32, spans[0], "T"));
            all.add(query(service, topic, "TagA", 32, spans[0], "K"));
        }
        return all;
    }

    static Map<String, Object> query(IndexService service, String topic, String key, int max, long[] span, String type) {
        Map<String, Object> query = new LinkedHashMap<>();
        query.put("topic", topic);
        query.put("key", key);
        query.put("max_count", max);
        query.put("begin_ms", span[0]);
        query.put("end_ms", span[1]);
        query.put("type", type);
        query.put("offsets", service.queryOffset(topic, key, max, span[0], span[1], type).getPhyOffsets());
        return query;
    }

    static Map<String, Object> checkpoint() throws Exception {
        Path path = scratch.resolve("checkpoint");
        StoreCheckpoint checkpoint = new StoreCheckpoint(path.toString());
        checkpoint.setPhysicMsgTimestamp(T0);
        checkpoint.setLogicsMsgTimestamp(T0 - 17);
        checkpoint.setIndexMsgTimestamp(T0 - 5000);
        checkpoint.setMasterFlushedOffset(0x0102030405060708L);
        checkpoint.setConfirmPhyOffset(1L << 40);
        checkpoint.setLogicsPhysicalOffset(123456789);
        checkpoint.flush();
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("physic_ms", T0);
        result.put("logics_ms", T0 - 17);
        result.put("index_ms", T0 - 5000);
        result.put("master_flushed_offset", 0x0102030405060708L);
        result.put("confirm_physical_offset", 1L << 40);
        result.put("logics_physical_offset", 123456789);
        result.put("min_ms", checkpoint.getMinTimestamp());
        result.put("min_index_ms", checkpoint.getMinTimestampIndex());
        result.put("size", Files.size(path));
        result.put("head", HEX.formatHex(Arrays.copyOf(Files.readAllBytes(path), 64)));
        return result;
    }
}

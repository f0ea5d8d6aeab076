import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.message.MessageVersion;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.remoting.protocol.route.QueueData;
import org.apache.rocketmq.remoting.protocol.route.TopicRouteData;
import org.apache.rocketmq.store.MessageExtEncoder;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** Writes what the original's codecs make of fixed values, one JSON file per codec, into the folder given. */
public class Golden {
    static final HexFormat HEX = HexFormat.of();
    static final String[] TEXTS = {
        "", "a", "TagA", "ab", "Aa", "BB", "topic#key", "0123456789", "mañana", "日本語", "😀", "x\u0001y\u0002z",
        "polygenelubricants", "The quick brown fox jumps over the lazy dog, and then again over the other one too",
    };

    static Path folder;

    public static void main(String[] args) throws Exception {
        folder = Path.of(args[0]);
        write("commands", commands());
        write("refused", refused());
        write("records", records());
        write("batches", batches());
        write("ids", ids());
        write("hashes", hashes());
        write("properties", properties());
        write("json", json());
        System.exit(0);
    }

    static void write(String name, List<?> cases) throws Exception {
        Map<String, Object> file = new LinkedHashMap<>();
        file.put("rocketmq", MQVersion.getVersionDesc(MQVersion.CURRENT_VERSION));
        file.put("cases", cases);
        String text = JSON.toJSONString(file, JSONWriter.Feature.PrettyFormat, JSONWriter.Feature.WriteMapNullValue);
        byte[] data = (text.replace("\t", "  ") + "\n").getBytes(StandardCharsets.UTF_8);
        Files.write(folder.resolve(name + ".json"), data);
    }

    static Map<String, Object> row(Object... pairs) {
        Map<String, Object> row = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            row.put((String) pairs[i], pairs[i + 1]);
        }
        return row;
    }

    static String hex(byte[] data) {
        return HEX.formatHex(data);
    }

    static String hex(ByteBuffer buffer) {
        byte[] data = new byte[buffer.remaining()];
        buffer.get(data);
        return hex(data);
    }

    // --- commands

    static List<Object> commands() throws Exception {
        List<Object> rows = new ArrayList<>();
        for (SerializeType form : SerializeType.values()) {
            rows.add(command(form, 105, 0, null, Map.of("topic", "TopicTest"), ""));
            rows.add(command(form, 310, 0, null, Map.of("a", "group", "b", "T", "i", "KEYS\u0001k\u0002TAGS\u0001日本\u0002"),
                "hello"));
            rows.add(command(form, 17, 1, "No topic route info: 日本 😀 \"quoted\" \\ \n\t\u0001", Map.of(), ""));
            rows.add(command(form, 0, 1, null, Map.of("msgId", "7F000001", "queueId", "3", "queueOffset", "-1"), "b"));
            rows.add(command(form, 34, 2, "", null, ""));
            rows.add(command(form, 32767, 0, null, Map.of("empty", "", "x", "y"), ""));
        }
        rows.add(command(SerializeType.JSON, 200050, 0, null, Map.of("consumerGroup", "g"), ""));
        return rows;
    }

    static Map<String, Object> command(SerializeType form, int code, int flag, String remark, Map<String, String> ext,
        String body) throws Exception {
        RemotingCommand command = RemotingCommand.createResponseCommand(code, remark);
        command.setFlag(flag);
        command.setOpaque(1_000_003);
        command.setVersion(513);
        command.setLanguage(LanguageCode.GO);
        command.setSerializeTypeCurrentRPC(form);
        command.setExtFields(ext == null ? null : new HashMap<>(ext));
        if (!body.isEmpty()) {
            command.setBody(body.getBytes(StandardCharsets.UTF_8));
        }
        byte[] frame = new byte[command.encode().remaining()];
        command.encode().get(frame);
        return seen(frame);
    }

    /** A frame and what the original reads in it. */
    static Map<String, Object> seen(byte[] frame) throws Exception {
        RemotingCommand read = RemotingCommand.decode(ByteBuffer.wrap(frame, 4, frame.length - 4).slice());
        Map<String, String> ext = read.getExtFields();
        return row("form", read.getSerializeTypeCurrentRPC().name(), "code", read.getCode(), "flag", read.getFlag(),
            "opaque", read.getOpaque(), "version", read.getVersion(), "language",
            read.getLanguage() == null ? null : read.getLanguage().name(),
            "remark", read.getRemark(), "ext", ext, "body", read.getBody() == null ? "" : hex(read.getBody()),
            "frame", hex(frame));
    }

    /** Headers of doubtful form: what the original reads in each, or that it refuses it. */
    static List<Object> refused() {
        String[] headers = {
            "{\"code\":10}", "{}", "null", "[]", "1", "\"text\"", "", "{", "{\"code\":}", "{\"code\":\"10\"}", "{\"code\":null}",
            "{\"code\":1.5}", "{\"code\":true}", "{\"code\":99999999999}", "{\"code\":10,\"extFields\":null}",
            "{\"code\":10,\"extFields\":[]}", "{\"code\":10,\"extFields\":\"x\"}", "{\"code\":10,\"extFields\":{\"a\":1,\"b\":true,"
            + "\"c\":null,\"d\":1.50,\"e\":{\"x\":1},\"f\":[1,2]}}", "{\"code\":10,\"language\":\"KLINGON\"}",
            "{\"code\":10,\"language\":3}", "{\"code\":10,\"remark\":5}", "{\"code\":10,\"unknown\":{\"deep\":[1]}}",
            "{code:10}", "{'code':10}", "{\"code\":10,}", "{\"code\":10}x", "{\"code\":10,\"extFields\":{0:\"zero\"}}",
            "{\"code\":10,\"remark\":\"\\ud800\"}", "{\"code\":10,\"extFields\":{\"a\":\"1\",\"a\":\"2\"}}",
        };
        List<Object> rows = new ArrayList<>();
        for (String header : headers) {
            rows.add(doubtful(header, header.getBytes(StandardCharsets.UTF_8), 0));
        }
        rows.add(doubtful("bad utf-8 in JSON", HEX.parseHex("7b2272656d61726b223a22ff227d"), 0));
        String head = "000a" + "00" + "0201" + "00000001" + "00000000";
        String[][] binary = {
            {"sound", "00000000" + "00000008" + "0001" + "61" + "00000001" + "62"},
            {"bad utf-8", "00000000" + "00000008" + "0001" + "61" + "00000001" + "ff"},
            {"empty value", "00000000" + "00000007" + "0001" + "61" + "00000000"},
            {"empty key", "00000000" + "00000007" + "0000" + "00000001" + "62"},
            {"negative remark", "ffffffff" + "00000000"},
            {"negative ext", "00000000" + "ffffffff"},
            {"ext too long", "00000000" + "7fffffff"},
            {"value too long", "00000000" + "00000008" + "0001" + "61" + "00000009" + "62"},
            {"negative value", "00000000" + "00000008" + "0001" + "61" + "ffffffff" + "62"},
            {"key too long", "00000000" + "00000008" + "7fff" + "61" + "00000001" + "62"},
            {"cut", "00000000"},
            {"bytes after ext", "00000000" + "00000000" + "ffff"},
        };
        for (String[] one : binary) {
            rows.add(doubtful(one[0], HEX.parseHex(head + one[1]), 1));
        }
        rows.add(doubtful("unknown language", HEX.parseHex("000a" + "c8" + head.substring(6) + "0000000000000000"), 1));
        rows.add(doubtful("unknown form", HEX.parseHex("7b7d"), 2));
        return rows;
    }

    static Map<String, Object> doubtful(String name, byte[] header, int form) {
        ByteBuffer frame = ByteBuffer.allocate(8 + header.length);
        frame.putInt(4 + header.length).putInt(form << 24 | header.length).put(header);
        Map<String, Object> result = row("name", name, "frame", hex(frame.array()));
        try {
            Map<String, Object> seen = seen(frame.array());
            seen.remove("frame");
            result.put("read", seen);
        } catch (Throwable refused) {
            result.put("read", null);
        }
        return result;
    }

    // --- records

    static List<Object> records() throws Exception {
        List<Object> rows = new ArrayList<>();
        rows.add(record("TopicTest", "127.0.0.1", "127.0.0.1", 0, "hello", "KEYS\u0001k\u0002"));
        rows.add(record("T", "::1", "10.1.2.3", 0x10, "", ""));
        rows.add(record("T", "10.1.2.3", "fe80::1", 0x20, "v6 store", "TAGS\u0001日本\u0002"));
        rows.add(record("T", "2001:db8::1", "2001:db8::2", 0x30, "v6 both", "A\u0001b\u0002"));
        rows.add(record("t".repeat(127), "1.2.3.4", "5.6.7.8", 0, "longest v1", ""));
        rows.add(record("t".repeat(200), "1.2.3.4", "5.6.7.8", 0x4, "v2", "A\u0001b\u0002"));
        return rows;
    }

    static Map<String, Object> record(String topic, String born, String store, int sysFlag, String body, String properties)
        throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setVersion(topic.length() > 127 ? MessageVersion.MESSAGE_VERSION_V2 : MessageVersion.MESSAGE_VERSION_V1);
        message.setTopic(topic);
        message.setQueueId(7);
        message.setFlag(-5);
        message.setQueueOffset(1L << 40);
        message.setSysFlag(sysFlag);
        message.setBornTimestamp(1_700_000_000_123L);
        message.setBornHost(new InetSocketAddress(InetAddress.getByName(born), 54321));
        message.setStoreTimestamp(1_700_000_000_456L);
        message.setStoreHost(new InetSocketAddress(InetAddress.getByName(store), 10911));
        message.setReconsumeTimes(2);
        message.setPreparedTransactionOffset(99);
        message.setBody(body.getBytes(StandardCharsets.UTF_8));
        message.setBodyCRC(org.apache.rocketmq.common.UtilAll.crc32(message.getBody()));
        message.setPropertiesString(properties);
        MessageExtEncoder encoder = new MessageExtEncoder(new MessageStoreConfig());
        if (encoder.encode(message) != null) {
            throw new IllegalStateException(topic);
        }
        ByteBuffer whole = encoder.getEncoderBuffer();
        byte[] data = new byte[whole.getInt(0)];
        whole.get(0, data);
        ByteBuffer.wrap(data).putLong(28, 123_456_789L);
        MessageExt read = MessageDecoder.decode(ByteBuffer.wrap(data));
        return row("topic", read.getTopic(), "queueId", read.getQueueId(), "flag", read.getFlag(), "queueOffset",
            read.getQueueOffset(), "physicalOffset", read.getCommitLogOffset(), "sysFlag", read.getSysFlag(), "bornTime",
            read.getBornTimestamp(), "born", born, "storeTime", read.getStoreTimestamp(), "store", store, "reconsumeTimes",
            read.getReconsumeTimes(), "preparedOffset", read.getPreparedTransactionOffset(), "body", body, "properties",
            properties, "crc", read.getBodyCRC(), "id", read.getMsgId(), "data", hex(data));
    }

    static List<Object> batches() {
        List<Object> rows = new ArrayList<>();
        for (int count : new int[] {1, 3}) {
            List<Message> messages = new ArrayList<>();
            List<Object> parts = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                Message message = new Message("T", "tag" + i, "key" + i, i, ("body " + i).repeat(i).getBytes(), true);
                messages.add(message);
                parts.add(row("flag", i, "body", hex(message.getBody()), "properties",
                    MessageDecoder.messageProperties2String(message.getProperties())));
            }
            rows.add(row("messages", parts, "data", hex(MessageDecoder.encodeMessages(messages))));
        }
        return rows;
    }

    // --- texts

    static List<Object> ids() throws Exception {
        List<Object> rows = new ArrayList<>();
        for (String ip : new String[] {"127.0.0.1", "255.0.1.2", "2001:db8::1"}) {
            InetSocketAddress host = new InetSocketAddress(InetAddress.getByName(ip), 10911);
            for (long offset : new long[] {0, 1, 123_456_789_012L, Long.MAX_VALUE}) {
                int size = host.getAddress().getAddress().length + 12;
                ByteBuffer packed = MessageExt.socketAddress2ByteBuffer(host);
                String id = MessageDecoder.createMessageId(ByteBuffer.allocate(size), packed, offset);
                rows.add(row("kind", "offset", "ip", ip, "port", 10911, "offset", offset, "id", id));
            }
        }
        for (int i = 0; i < 3; i++) {
            long from = System.currentTimeMillis();
            String id = MessageClientIDSetter.createUniqID();
            rows.add(row("kind", "unique", "ip", MessageClientIDSetter.getIPStrFromID(id), "pid",
                MessageClientIDSetter.getPidFromID(id), "from", from, "to", System.currentTimeMillis(), "counter", i, "id", id));
        }
        return rows;
    }

    static List<Object> hashes() {
        List<Object> rows = new ArrayList<>();
        for (String text : TEXTS) {
            rows.add(row("text", text, "hash", text.hashCode()));
        }
        rows.add(row("text", "z".repeat(600), "hash", "z".repeat(600).hashCode()));
        return rows;
    }

    static List<Object> properties() {
        String[] texts = {
            "", "a\u0001b\u0002", "a\u0001b", "a\u0001b\u0002c\u0001d\u0002", "a\u0001b\u0002c\u0001d", "a\u0001b\u0001c\u0002",
            "\u0001b\u0002", "a\u0001\u0002", "a\u0002", "\u0002\u0002", "\u0002a\u0001b\u0002", "a\u0001b\u0002a\u0001c\u0002", "a", "\u0001", "日\u0001本\u0002",
        };
        List<Object> rows = new ArrayList<>();
        for (String text : texts) {
            rows.add(row("text", text, "read", MessageDecoder.string2messageProperties(text)));
        }
        return rows;
    }

    static List<Object> json() {
        TopicRouteData route = new TopicRouteData();
        QueueData queue = new QueueData();
        queue.setBrokerName("broker-a");
        queue.setReadQueueNums(4);
        queue.setWriteQueueNums(4);
        queue.setPerm(6);
        HashMap<Long, String> addresses = new HashMap<>(Map.of(0L, "127.0.0.1:10911", 1L, "127.0.0.1:20911"));
        route.setQueueDatas(new ArrayList<>(List.of(queue)));
        route.setBrokerDatas(new ArrayList<>(List.of(new BrokerData("C", "broker-a", addresses))));
        route.setFilterServerTable(new HashMap<>());
        List<Object> rows = new ArrayList<>();
        rows.add(row("name", "strict", "text", new String(route.encode(
            JSONWriter.Feature.BrowserCompatible, JSONWriter.Feature.MapSortField, JSONWriter.Feature.WriteNonStringKeyAsString),
            StandardCharsets.UTF_8)));
        rows.add(row("name", "dialect", "text", new String(route.encode(), StandardCharsets.UTF_8)));
        for (String text : TEXTS) {
            rows.add(row("name", text, "text", JSON.toJSONString(new HashMap<>(Map.of(7L, text)))));
        }
        return rows;
    }
}

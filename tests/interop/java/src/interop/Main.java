package interop;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A program that uses Apache RocketMQ's Java client as its users do, and prints what happened.
 *
 * <p>Arguments: name server addresses, the broker's address, a prefix for topics and groups, then scenario names. Each
 * scenario prints one JSON line: its name and either "facts" or "error". It judges nothing: pytest compares the facts.
 */
public final class Main {
    interface Scenario {
        Map<String, Object> run(Session session) throws Exception;
    }

    static final Map<String, Scenario> SCENARIOS = new LinkedHashMap<>();

    static {
        SCENARIOS.put("thousand", Sending::thousand);
        SCENARIOS.put("batch", Sending::batch);
        SCENARIOS.put("oneway", Sending::oneway);
        SCENARIOS.put("async", Sending::async);
        SCENARIOS.put("properties", Sending::properties);
        SCENARIOS.put("large", Sending::large);
        SCENARIOS.put("too_large", Refusals::tooLarge);
        SCENARIOS.put("long_properties", Refusals::longProperties);
        SCENARIOS.put("absent", Refusals::absent);
        SCENARIOS.put("auto_create_off", Refusals::autoCreateOff);
        SCENARIOS.put("push", Consuming::push);
        SCENARIOS.put("poll", Consuming::poll);
        SCENARIOS.put("tags", Consuming::tags);
        SCENARIOS.put("sql", Filtering::sql);
        SCENARIOS.put("wake", Consuming::wake);
        SCENARIOS.put("commit", Consuming::commit);
        SCENARIOS.put("query", LookingUp::query);
        SCENARIOS.put("offsets", LookingUp::offsets);
        SCENARIOS.put("create", Topics::create);
        SCENARIOS.put("delete", Topics::delete);
        SCENARIOS.put("failover", Failover::failover);
        SCENARIOS.put("restart", Restart::restart);
        SCENARIOS.put("retries", Retrying::retries);
        SCENARIOS.put("transactions", Transactions::transactions);
        SCENARIOS.put("timed", Timing::timed);
        SCENARIOS.put("batch_queue", Batches::batchQueue);
        SCENARIOS.put("assigned", Assigning::assigned);
        SCENARIOS.put("popped", Assigning::popped);
        SCENARIOS.put("crowd", Popping::crowd);
        SCENARIOS.put("priority", Popping::priority);
        SCENARIOS.put("popping_member", session -> Popping.member(session, false));
        SCENARIOS.put("popping_holder", session -> Popping.member(session, true));
        SCENARIOS.put("member", Members::member);
        SCENARIOS.put("beginnings", Members::beginnings);
        SCENARIOS.put("old_beginnings", Members::oldBeginnings);
        SCENARIOS.put("request", Asking::request);
        SCENARIOS.put("trace", Asking::trace);
        SCENARIOS.put("compressed", Asking::compressed);
    }

    private Main() {
    }

    public static void main(String[] args) {
        try (Session session = new Session(args[0], args[1], args[2])) {
            for (int i = 3; i < args.length; i++) {
                print(result(args[i], session));
            }
        }
        System.exit(0); // the clients leave threads behind
    }

    static void print(Map<String, Object> line) {
        System.out.println(Json.of(line));
        System.out.flush();
    }

    private static Map<String, Object> result(String name, Session session) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("scenario", name);
        long start = System.nanoTime();
        try {
            line.put("facts", SCENARIOS.get(name).run(session));
        } catch (Exception error) {
            error.printStackTrace();
            line.put("error", String.valueOf(error));
        }
        line.put("took_ms", (System.nanoTime() - start) / 1_000_000);
        return line;
    }
}

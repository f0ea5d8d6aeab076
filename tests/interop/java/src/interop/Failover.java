package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/**
 * Two name servers of which one is stopped in the middle.
 *
 * <p>A client asks one name server, chosen by chance, as long as it answers. So producers are started until each name
 * server is somebody's; whichever is stopped then, somebody must change over. Auto-creation is
 * off there, so topics are made. A line of input is the word to go on.
 */
final class Failover {
    private static final int PRODUCERS_MAX = 40;

    private Failover() {
    }

    static Map<String, Object> failover(Session session) throws Exception {
        String before = session.name("before");
        String after = session.name("after");
        Topics.createAt(session, before);
        session.queues(before);

        TreeSet<String> chosen = new TreeSet<>();
        List<DefaultMQProducer> producers = new ArrayList<>();
        while (chosen.size() < session.namesrv.split(";").length && producers.size() < PRODUCERS_MAX) {
            DefaultMQProducer producer = session.newProducer("failover");
            producer.setInstanceName("failover-" + producers.size());
            producer.start();
            producer.send(Session.message(before, "p" + producers.size()));
            chosen.add(namesrvOf(producer));
            producers.add(producer);
        }
        Main.print(Map.of("phase", "both", "chosen", chosen));

        new BufferedReader(new InputStreamReader(System.in)).readLine(); // one name server is stopped now
        Topics.createAt(session, after);
        for (int i = 0; i < producers.size(); i++) {
            DefaultMQProducer producer = producers.get(i);
            String body = "p" + i;
            producer.send(Session.message(before, body));
            Session.await(() -> Session.refusal(() -> producer.send(Session.message(after, body))) == 0 ? true : null);
        }
        Map<String, Object> facts = Map.of(
            "chosen", chosen.size(),
            "producers", producers.size(),
            "before", Session.bodies(Session.flat(session.pullAll(before, Session.ALL, 2 * producers.size()))),
            "after", Session.bodies(Session.flat(session.pullAll(after, Session.ALL, producers.size()))));
        producers.forEach(DefaultMQProducer::shutdown);
        return facts;
    }

    private static String namesrvOf(DefaultMQProducer producer) throws Exception {
        Object remoting = producer.getDefaultMQProducerImpl().getMqClientFactory().getMQClientAPIImpl()
            .getRemotingClient();
        Field field = remoting.getClass().getDeclaredField("namesrvAddrChoosed");
        field.setAccessible(true);
        return String.valueOf(((AtomicReference<?>) field.get(remoting)).get());
    }
}

package interop;

import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

/** Topics made and removed on purpose. */
final class Topics {
    private Topics() {
    }

    static Map<String, Object> create(Session session) throws Exception {
        String topic = session.name("create");
        createTopic(session.producer(), topic, 6);
        int queues = session.queues(topic).size();
        session.producer().send(Session.message(topic, "in"));
        return Map.of("queues", queues, "publish_queues", session.producer().fetchPublishMessageQueues(topic).size(),
            "pulled", Session.bodies(Session.flat(session.pullAll(topic, Session.ALL, 1))));
    }

    static Map<String, Object> delete(Session session) throws Exception {
        String topic = session.name("delete");
        MessageQueue queue = session.producer().send(Session.message(topic, "gone")).getMessageQueue();
        session.producer().send(Session.message(topic, "gone too"), queue);
        session.queues(topic);
        boolean before = listed(session, topic);
        remove(session, topic);
        boolean after = listed(session, topic);
        int routeCode = Session.refusal(() -> session.api().getTopicRouteInfoFromNameServer(topic, Session.CALL_TIMEOUT_MS));
        createTopic(session.producer(), topic, 4);
        session.queues(topic);
        long restartsAt = session.producer().send(Session.message(topic, "back"), queue).getQueueOffset();
        return Map.of("listed_before", before, "listed_after", after, "route_code", routeCode,
            "restarts_at", restartsAt);
    }

    /** Make a topic at one broker, without a pattern topic to copy from. */
    static void createAt(Session session, String topic) throws Exception {
        session.api().createTopic(session.broker, "TBW102", new TopicConfig(topic, 4, 4, 6), Session.CALL_TIMEOUT_MS);
    }

    static void remove(Session session, String topic) throws Exception {
        session.api().deleteTopicInBroker(session.broker, topic, Session.CALL_TIMEOUT_MS);
        for (String namesrv : session.namesrv.split(";")) {
            removeRoute(session, namesrv, topic);
        }
    }

    /** Version 4 knows only the call with a cluster, and orders its arguments otherwise than version 5. */
    private static void removeRoute(Session session, String namesrv, String topic) throws Exception {
        Class<?> api = session.api().getClass();
        try {
            api.getMethod("deleteTopicInNameServer", String.class, String.class, long.class)
                .invoke(session.api(), namesrv, topic, Session.CALL_TIMEOUT_MS);
        } catch (NoSuchMethodException version4) {
            api.getMethod("deleteTopicInNameServer", String.class, String.class, String.class, long.class)
                .invoke(session.api(), namesrv, topic, null, Session.CALL_TIMEOUT_MS);
        }
    }

    /** Whether the name server lists the topic; asked again where the network fails, as a producer would. */
    static boolean listed(Session session, String topic) throws Exception {
        return Session.await(() -> {
            try {
                return session.api().getTopicListFromNameServer(Session.CALL_TIMEOUT_MS).getTopicList().contains(topic);
            } catch (RemotingException slow) {
                return null;
            }
        });
    }

    /** Version 5 takes attributes too. */
    private static void createTopic(DefaultMQProducer producer, String topic, int queues) throws Exception {
        try {
            DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class)
                .invoke(producer, "TBW102", topic, queues);
        } catch (NoSuchMethodException version5) {
            DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class, Map.class)
                .invoke(producer, "TBW102", topic, queues, Map.of());
        }
    }
}

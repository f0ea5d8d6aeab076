package interop;

import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;

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
        session.producer().send(Session.message(topic, "gone"));
        session.queues(topic);
        boolean before = listed(session, topic);
        remove(session, topic);
        boolean after = listed(session, topic);
        int routeCode = Session.refusal(() -> session.api().getTopicRouteInfoFromNameServer(topic, 3000));
        createTopic(session.producer(), topic, 2);
        session.queues(topic);
        long restartsAt = session.producer().send(Session.message(topic, "back")).getQueueOffset();
        return Map.of("listed_before", before, "listed_after", after, "route_code", routeCode,
            "restarts_at", restartsAt);
    }

    /** Make a topic at one broker, without a pattern topic to copy from. */
    static void createAt(Session session, String topic) throws Exception {
        session.api().createTopic(session.broker, "TBW102", new TopicConfig(topic, 4, 4, 6), 5000);
    }

    private static void remove(Session session, String topic) throws Exception {
        session.api().deleteTopicInBroker(session.broker, topic, 5000);
        for (String namesrv : session.namesrv.split(";")) {
            removeRoute(session, namesrv, topic);
        }
    }

    /** Version 4 knows only the call with a cluster, and orders its arguments otherwise than version 5. */
    private static void removeRoute(Session session, String namesrv, String topic) throws Exception {
        Class<?> api = session.api().getClass();
        try {
            api.getMethod("deleteTopicInNameServer", String.class, String.class, long.class)
                .invoke(session.api(), namesrv, topic, 5000L);
        } catch (NoSuchMethodException version4) {
            api.getMethod("deleteTopicInNameServer", String.class, String.class, String.class, long.class)
                .invoke(session.api(), namesrv, topic, null, 5000L);
        }
    }

    private static boolean listed(Session session, String topic) throws Exception {
        return session.api().getTopicListFromNameServer(3000).getTopicList().contains(topic);
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

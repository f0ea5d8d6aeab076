import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.EvaluationContext;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;

/**
 * What the original's SQL92 filter says. Each line of input is an expression, then names and values of properties in
 * turn, all in Base64 and parted by commas; each line of output is REFUSED, TRUE, FALSE, NULL or ERROR.
 */
public class SqlOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, true);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(",", -1);
            Map<String, Object> properties = new HashMap<>();
            for (int at = 1; at + 1 < words.length; at += 2) {
                properties.put(text(words[at]), text(words[at + 1]));
            }
            out.println(answer(text(words[0]), properties));
        }
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }

    private static String answer(String text, Map<String, Object> properties) {
        Expression expression;
        try {
            expression = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (MQFilterException refused) {
            return "REFUSED";
        }
        try {
            Object value = expression.evaluate(new EvaluationContext() {
                @Override
                public Object get(String name) {
                    return properties.get(name);
                }

                @Override
                public Map<String, Object> keyValues() {
                    return properties;
                }
            });
            return String.valueOf(value).toUpperCase();
        } catch (Throwable fault) {
            return "ERROR";
        }
    }
}

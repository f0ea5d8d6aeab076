import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.broker.filter.ConsumerFilterData;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;

/**
 * Reads each consumerFilter.json that is named, as the original's broker does, says what it knows of a group, registers
 * an expression for another one, and prints the table as the broker would save it. Other lines are the logger's.
 */
public class FilterTable {
    public static void main(String[] arguments) throws Exception {
        for (String path : arguments) {
            ConsumerFilterManager filters = new ConsumerFilterManager();
            filters.decode(Files.readString(Path.of(path)));
            ConsumerFilterData known = filters.get("T1", "G1");
            System.out.println("> " + (known == null ? "unknown" : String.join(" / ", known.getExpression(),
                String.valueOf(known.getClientVersion()), String.valueOf(known.isDead()),
                String.valueOf(known.getCompiledExpression()))));
            filters.register("T2", "G2", "b IN ('x', 'y')", "SQL92", 8);
            System.out.println("> " + filters.encode(false));
        }
        System.exit(0);
    }
}

package interop;

import java.util.Collection;
import java.util.Map;
import java.util.StringJoiner;

/** Just enough JSON to print results: the client versions ship different JSON libraries, so none is used. */
final class Json {
    private Json() {
    }

    static String of(Object value) {
        if (value instanceof Map<?, ?> map) {
            StringJoiner fields = new StringJoiner(",", "{", "}");
            map.forEach((key, item) -> fields.add(quote(String.valueOf(key)) + ":" + of(item)));
            return fields.toString();
        }
        if (value instanceof Collection<?> items) {
            StringJoiner list = new StringJoiner(",", "[", "]");
            items.forEach(item -> list.add(of(item)));
            return list.toString();
        }
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        return quote(value.toString());
    }

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}

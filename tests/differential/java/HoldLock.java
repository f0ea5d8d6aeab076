import java.io.RandomAccessFile;
import java.nio.channels.FileLock;

/** Takes the lock of a store by the same call as the original's DefaultMessageStore, and holds it until its input ends. */
public class HoldLock {
    public static void main(String[] args) throws Exception {
        try (RandomAccessFile file = new RandomAccessFile(args[0], "rw")) {
            FileLock lock = file.getChannel().tryLock(0, 1, false);
            System.out.println(lock == null ? "refused" : "held");
            if (lock != null) {
                while (System.in.read() >= 0) {
                }
            }
        }
    }
}

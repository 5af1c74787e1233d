// Four threads add to a counter; the program goes back three times, with a collection
// of garbage in between, and is replayed. The native method is in native/java.c.
// prints: after 0 rollbacks: 4000
// prints: after 1 rollbacks: 4000
// prints: after 2 rollbacks: 4000
// prints: after 3 rollbacks: 4000
// prints: replayed: 8000
// prints: unknown: -2
import java.util.concurrent.atomic.AtomicInteger;

public class Counter {
    static final int CHECKPOINT = 0, DISCARD = 1, ROLLBACK = 2, REPLAY = 3, ROLLBACKS = 4;

    static native int call(int operation, int id);

    static int must(int operation, int id) {
        int result = call(operation, id);
        if (result == -38) {
            System.out.println("no retrovane");
            System.exit(77);
        }
        if (result < 0) {
            System.out.println("FAIL " + operation + ": " + result);
            System.exit(99);
        }
        return result;
    }

    static void work(AtomicInteger counter) throws InterruptedException {
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                for (int step = 0; step < 1000; step++) {
                    counter.incrementAndGet();
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.gc();
    }

    public static void main(String[] arguments) throws InterruptedException {
        System.loadLibrary("counter");
        AtomicInteger counter = new AtomicInteger();
        int id = must(CHECKPOINT, 0);
        int count = must(ROLLBACKS, id);
        work(counter);
        System.out.println("after " + count + " rollbacks: " + counter);
        if (count < 3) {
            must(ROLLBACK, id);
        }
        must(DISCARD, id);

        id = must(CHECKPOINT, 0);
        work(counter);
        must(REPLAY, id);
        System.out.println("replayed: " + counter);
        must(DISCARD, id);
        System.out.println("unknown: " + call(ROLLBACK, id));
    }
}

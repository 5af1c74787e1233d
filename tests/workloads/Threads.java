import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.LongStream;

/** Threads, monitors, pools, garbage and code that gets compiled. Lines with ~ tell what chance decided. */
public class Threads {
    private static int counter;
    private static int order = 1;

    private static synchronized void count(int thread) {
        counter++;
        order = order * 31 + thread;
    }

    private static long hot(int n) {
        long sum = 0;
        for (int i = 0; i < n; i++) sum = sum * 31 + (i ^ (sum >>> 7));
        return sum;
    }

    private static void monitors() throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
            final int number = t;
            Thread thread = new Thread(() -> {
                for (int i = 0; i < 20000; i++) count(number);
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println("counted " + counter);
        System.out.println("~ in the order " + order);
    }

    private static void garbage() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Future<Integer>> results = new ArrayList<>();
        for (int t = 0; t < 6; t++) {
            final int number = t;
            results.add(pool.submit(() -> {
                Map<String, byte[]> kept = new TreeMap<>();
                for (int i = 0; i < 20000; i++) kept.put("k" + i % 700, new byte[500 + number]);
                return kept.size();
            }));
        }
        int sum = 0;
        for (Future<Integer> result : results) sum += result.get();
        pool.shutdown();
        System.out.println("kept " + sum + ", ended " + pool.awaitTermination(10, TimeUnit.SECONDS));
        System.gc();
    }

    private static void handOver() throws Exception {
        ConcurrentLinkedQueue<Integer> queue = new ConcurrentLinkedQueue<>();
        CyclicBarrier barrier = new CyclicBarrier(2);
        Thread consumer = new Thread(() -> {
            try {
                barrier.await();
                int sum = 0;
                for (int taken = 0; taken < 5000; ) {
                    Integer value = queue.poll();
                    if (value == null) {
                        LockSupport.parkNanos(10_000);
                        continue;
                    }
                    sum += value;
                    taken++;
                }
                System.out.println("handed over " + sum);
            } catch (Exception error) {
                System.out.println(error);
            }
        });
        consumer.start();
        barrier.await();
        for (int i = 0; i < 5000; i++) {
            queue.add(i);
            if (i % 100 == 0) LockSupport.unpark(consumer);
        }
        consumer.join();
    }

    public static void main(String[] args) throws Exception {
        monitors();
        garbage();
        handOver();
        long sum = 0;
        for (int i = 0; i < 300; i++) sum += hot(20000);
        System.out.println("hot " + sum);
        System.out.println("parallel " + LongStream.range(0, 2_000_000).parallel().filter(i -> i % 7 == 3).sum());
        int caught = 0;
        for (int i = 0; i < 2000; i++) {
            try {
                Object nothing = i % 2 == 0 ? null : "something";
                nothing.hashCode();
            } catch (NullPointerException expected) {
                caught++;
            }
        }
        System.out.println("caught " + caught);
        Thread interrupted = new Thread(() -> {
            try {
                Thread.sleep(100_000);
            } catch (InterruptedException expected) {
                System.out.println("interrupted");
            }
        });
        interrupted.start();
        interrupted.interrupt();
        interrupted.join();
        System.exit(6);
    }
}

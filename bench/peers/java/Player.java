import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/** The lines of ../README.md for a library in Java: a thread for each task. */
final class Player {
    private static final int ORDER_GAP_MS = 20, GAP_MS = 3;

    interface Lock {
        void acquire() throws Exception;

        void release() throws Exception;

        default boolean believes() {
            throw new UnsupportedOperationException();
        }
    }

    /** Client 0 is the one of the process; those of a workload with many have the numbers after it. */
    interface Library {
        Lock lock(int client, String name) throws Exception;
    }

    /** Connects as many clients as `clients` says. */
    interface Connects {
        Library connect(String workload, String port, int clients) throws Exception;
    }

    private interface Work {
        void run() throws Exception;
    }

    private static final class Task {
        int holds;
        long heldNs;
        double[] waits = new double[1024];
        int waited;

        private void waited(double us) {
            if (waited == waits.length) {
                waits = Arrays.copyOf(waits, 2 * waited);
            }
            waits[waited++] = us;
        }

        void run(Lock lock, long until, long bodyNs, boolean contended) throws Exception {
            for (;;) {
                long begin = System.nanoTime();
                lock.acquire();
                long now = System.nanoTime();
                if (contended) {
                    waited((now - begin) / 1e3);
                }
                if (bodyNs > 0) {
                    work(bodyNs);
                }
                long releases = System.nanoTime();
                lock.release();
                if (now - until >= 0) {
                    return;
                }
                ++holds;
                heldNs += releases - now;
            }
        }
    }

    private Player() {}

    /** The critical section: slept if it is a millisecond or more, else computed. */
    private static void work(long ns) throws InterruptedException {
        if (ns >= 1_000_000) {
            Thread.sleep(ns / 1_000_000);
            return;
        }
        for (long until = System.nanoTime() + ns; System.nanoTime() < until;) {
            Thread.onSpinWait();
        }
    }

    private static void start(Work work, CountDownLatch ended) {
        new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
            }
            ended.countDown();
        }).start();
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void play(Connects library, String workload, String port, int tasks) throws Exception {
        boolean order = workload.equals("order");
        boolean contended = workload.equals("contended");
        int more = order || workload.equals("drain") ? tasks : 0;
        Library by = library.connect(workload, port, 1 + more);
        Lock held = by.lock(0, workload);
        CountDownLatch drained = null;
        List<Integer> had = Collections.synchronizedList(new ArrayList<>());
        AtomicLong first = new AtomicLong();
        say("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null;) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "go" -> {
                    long until = System.nanoTime() + (long) (Double.parseDouble(words[1]) * 1e9);
                    long bodyNs = Long.parseLong(words[2]) * 1000;
                    Task[] all = new Task[Integer.parseInt(words[3])];
                    CountDownLatch ended = new CountDownLatch(all.length);
                    for (int i = 0; i < all.length; ++i) {
                        Task me = all[i] = new Task();
                        Lock lock = by.lock(0, contended ? workload : workload + ":" + i);
                        start(() -> me.run(lock, until, bodyNs, contended), ended);
                    }
                    ended.await();
                    StringBuilder text = new StringBuilder();
                    for (Task task : all) {
                        text.append("task ").append(task.holds).append(' ').append(task.heldNs / 1000);
                        for (int i = 0; i < task.waited; ++i) {
                            text.append(' ').append((float) task.waits[i]);
                        }
                        text.append('\n');
                    }
                    say(text + "done 0");
                }
                case "acquire", "wait" -> {
                    held.acquire();
                    say("took " + System.nanoTime());
                }
                case "release" -> {
                    long at = System.nanoTime();
                    held.release();
                    say("released " + at);
                }
                case "believes" -> say("believes " + (held.believes() ? 1 : 0));
                case "arm" -> {
                    held.acquire();
                    drained = new CountDownLatch(tasks);
                    had.clear();
                    first.set(0);
                    for (int i = 0; i < tasks; ++i) {
                        int me = i;
                        Lock lock = by.lock(1 + i, workload);
                        start(() -> {
                            lock.acquire();
                            first.compareAndSet(0, System.nanoTime());
                            had.add(me);
                            lock.release();
                        }, drained);
                        Thread.sleep(order ? ORDER_GAP_MS : GAP_MS);
                    }
                    say("armed");
                }
                case "drain" -> {
                    long begin = System.nanoTime();
                    held.release();
                    drained.await();
                    StringBuilder text = new StringBuilder("drained " + (System.nanoTime() - begin) / 1000 + ' ' + (first.get() - begin) / 1000);
                    for (int i = 0; order && i < tasks; ++i) {
                        text.append(' ').append(had.get(i));
                    }
                    say(text.toString());
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(0);
    }
}

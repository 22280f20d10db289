import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's InterProcessMutex, one client in a process unless a workload wants more. */
public final class Peer {
    private static final int SESSION_MS = 30_000, SHORT_SESSION_MS = 4_000, GAP_MS = 20;

    private static CuratorFramework client(String port, int session) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            "127.0.0.1:" + port, session, 15_000, new ExponentialBackoffRetry(1_000, 3));
        client.start();
        return client;
    }

    private static final class Task {
        int holds;
        double[] waits = new double[1024];
        int waited;

        void waited(double us) {
            if (waited == waits.length) {
                waits = java.util.Arrays.copyOf(waits, 2 * waited);
            }
            waits[waited++] = us;
        }
    }

    private interface Work {
        void run() throws Exception;
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

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** Curator's documentation: whoever holds a lock has to take both of these for its loss. */
    private static void tellLoss(CuratorFramework client) {
        client.getConnectionStateListenable().addListener((of, state) -> {
            if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
                say("lost " + System.nanoTime());
            }
        });
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3) {
            System.err.println("usage: Peer WORKLOAD PORT TASKS");
            System.exit(2);
        }
        String workload = arguments[0], port = arguments[1];
        int tasks = Integer.parseInt(arguments[2]);
        String path = "/curator/" + workload;
        CuratorFramework one = client(port, workload.equals("cut") ? SHORT_SESSION_MS : SESSION_MS);
        if (workload.equals("cut")) {
            tellLoss(one);
        }
        List<CuratorFramework> many = new ArrayList<>();
        for (int i = 0; workload.equals("order") && i < tasks; ++i) {
            many.add(client(port, SESSION_MS));
        }
        InterProcessMutex warm = new InterProcessMutex(one, "/curator/warm/" + ProcessHandle.current().pid());
        warm.acquire();
        warm.release();
        InterProcessMutex held = new InterProcessMutex(one, path);
        for (CuratorFramework client : many) {
            client.blockUntilConnected();
        }
        CountDownLatch drained = null;
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        say("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null;) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "go" -> {
                    long until = System.nanoTime() + (long) (Double.parseDouble(words[1]) * 1e9);
                    Task[] all = new Task[tasks];
                    CountDownLatch ended = new CountDownLatch(tasks);
                    for (int i = 0; i < tasks; ++i) {
                        Task me = all[i] = new Task();
                        InterProcessMutex lock = new InterProcessMutex(one, path);
                        start(() -> {
                            for (;;) {
                                long begin = System.nanoTime();
                                lock.acquire();
                                long now = System.nanoTime();
                                me.waited((now - begin) / 1e3);
                                lock.release();
                                if (now - until >= 0) {
                                    return;
                                }
                                ++me.holds;
                            }
                        }, ended);
                    }
                    ended.await();
                    StringBuilder text = new StringBuilder();
                    for (Task task : all) {
                        text.append("task ").append(task.holds);
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
                case "believes" -> say("believes " + (held.isAcquiredInThisProcess() ? 1 : 0));
                case "arm" -> {
                    held.acquire();
                    drained = new CountDownLatch(tasks);
                    order.clear();
                    for (int i = 0; i < tasks; ++i) {
                        int me = i;
                        InterProcessMutex lock = new InterProcessMutex(many.get(i), path);
                        start(() -> {
                            lock.acquire();
                            order.add(me);
                            lock.release();
                        }, drained);
                        Thread.sleep(GAP_MS);
                    }
                    say("armed");
                }
                case "drain" -> {
                    long begin = System.nanoTime();
                    held.release();
                    drained.await();
                    StringBuilder text = new StringBuilder("drained " + (System.nanoTime() - begin) / 1000);
                    for (int who : order) {
                        text.append(' ').append(who);
                    }
                    say(text.toString());
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(0);
    }
}

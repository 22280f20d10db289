import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's RLock as it is recommended: lock() with the watchdog (30 s), one client in a process. */
public final class Peer {
    private static final long LEASE_MS = 30_000;

    private static Config config(String port) {
        Config config = new Config();
        config.setLockWatchdogTimeout(LEASE_MS);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        return config;
    }

    /** One of many clients in one process: its own connections, but the threads of all. */
    private static RedissonClient small(String port, io.netty.channel.EventLoopGroup loops, ExecutorService executor) {
        Config config = config(port);
        config.setEventLoopGroup(loops);
        config.setExecutor(executor);
        config.useSingleServer().setConnectionMinimumIdleSize(1).setConnectionPoolSize(2)
            .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(1);
        return Redisson.create(config);
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

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3) {
            System.err.println("usage: Peer WORKLOAD PORT TASKS");
            System.exit(2);
        }
        String workload = arguments[0], port = arguments[1];
        int tasks = Integer.parseInt(arguments[2]);
        List<RedissonClient> many = new ArrayList<>();
        RedissonClient one;
        if (workload.equals("drain")) {
            var loops = new io.netty.channel.MultiThreadIoEventLoopGroup(io.netty.channel.nio.NioIoHandler.newFactory());
            ExecutorService executor = Executors.newFixedThreadPool(16);
            one = small(port, loops, executor);
            for (int i = 0; i < tasks; ++i) {
                many.add(small(port, loops, executor));
            }
        } else {
            one = Redisson.create(config(port));
        }
        RLock held = one.getLock("redisson:" + workload);
        CountDownLatch drained = null;
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
                        boolean contended = workload.equals("contended");
                        RLock lock = one.getLock("redisson:" + workload + (contended ? "" : ":" + i));
                        start(() -> {
                            for (;;) {
                                long begin = System.nanoTime();
                                lock.lock();
                                long now = System.nanoTime();
                                if (contended) {
                                    me.waited((now - begin) / 1e3);
                                }
                                lock.unlock();
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
                    held.lock();
                    say("took " + System.nanoTime());
                }
                case "release" -> {
                    long at = System.nanoTime();
                    held.unlock();
                    say("released " + at);
                }
                case "arm" -> {
                    held.lock();
                    drained = new CountDownLatch(tasks);
                    for (RedissonClient client : many) {
                        RLock lock = client.getLock("redisson:" + workload);
                        start(() -> {
                            lock.lock();
                            lock.unlock();
                        }, drained);
                    }
                    say("armed");
                }
                case "drain" -> {
                    long begin = System.nanoTime();
                    held.unlock();
                    drained.await();
                    say("drained " + (System.nanoTime() - begin) / 1000);
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        Runtime.getRuntime().halt(0);
    }
}

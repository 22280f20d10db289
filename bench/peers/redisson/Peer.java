import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's locks as they are recommended: lock() with the watchdog (30 s), one client in a process. */
public final class Peer {
    private static final long LEASE_MS = 30_000;

    /** A JVM has no time for more clients, each of which has a timer of its own: beyond that, this many threads share one. */
    private static final int MOST_CLIENTS = 100, THREADS_OF_A_CLIENT = 25;

    /** Redisson's default: a fair lock subscribes to one channel for each waiting thread. */
    private static final int CHANNELS_OF_A_CONNECTION = 5;

    private static Config config(String port) {
        Config config = new Config();
        config.setLockWatchdogTimeout(LEASE_MS);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        return config;
    }

    /** One of many clients in one process: its own connections, but the threads of all. */
    private static RedissonClient small(String port, io.netty.channel.EventLoopGroup loops, ExecutorService executor, int threads) {
        Config config = config(port);
        config.setEventLoopGroup(loops);
        config.setExecutor(executor);
        config.useSingleServer().setConnectionMinimumIdleSize(1).setConnectionPoolSize(2)
            .setSubscriptionConnectionMinimumIdleSize(1)
            .setSubscriptionConnectionPoolSize((threads + CHANNELS_OF_A_CONNECTION - 1) / CHANNELS_OF_A_CONNECTION);
        return Redisson.create(config);
    }

    private static List<RedissonClient> connect(String port, int count) {
        if (count == 1) {
            return List.of(Redisson.create(config(port)));
        }
        var loops = new io.netty.channel.MultiThreadIoEventLoopGroup(io.netty.channel.nio.NioIoHandler.newFactory());
        ExecutorService executor = Executors.newFixedThreadPool(16);
        int threads = count > 1 + MOST_CLIENTS ? THREADS_OF_A_CLIENT : 1;
        List<RedissonClient> all = new ArrayList<>();
        all.add(small(port, loops, executor, 1));
        while (all.size() < count) {
            RedissonClient shared = small(port, loops, executor, threads);
            for (int i = 0; i < threads && all.size() < count; ++i) {
                all.add(shared);
            }
        }
        return all;
    }

    private record Held(RLock by) implements Player.Lock {
        @Override
        public void acquire() {
            by.lock();
        }

        @Override
        public void release() {
            by.unlock();
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 4) {
            System.err.println("usage: Peer getLock|getFairLock WORKLOAD PORT TASKS");
            System.exit(2);
        }
        boolean fair = arguments[0].equals("getFairLock");
        Player.play((workload, port, clients) -> {
            List<RedissonClient> all = connect(port, clients);
            return (client, name) -> new Held(
                fair ? all.get(client).getFairLock("redisson-fair:" + name) : all.get(client).getLock("redisson:" + name));
        }, arguments[1], arguments[2], Integer.parseInt(arguments[3]));
    }
}

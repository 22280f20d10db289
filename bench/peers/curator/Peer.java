import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's InterProcessMutex, one client in a process unless a workload wants more. */
public final class Peer {
    private static final int SESSION_MS = 30_000, SHORT_SESSION_MS = 4_000;

    private static CuratorFramework client(String port, int session) {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            "127.0.0.1:" + port, session, 15_000, new ExponentialBackoffRetry(1_000, 3));
        client.start();
        return client;
    }

    /** Curator's documentation: a holder has to take both of these for its loss. */
    private static void tellLoss(CuratorFramework client) {
        client.getConnectionStateListenable().addListener((of, state) -> {
            if (state == ConnectionState.SUSPENDED || state == ConnectionState.LOST) {
                Player.say("lost " + System.nanoTime());
            }
        });
    }

    private record Held(InterProcessMutex by) implements Player.Lock {
        @Override
        public void acquire() throws Exception {
            by.acquire();
        }

        @Override
        public void release() throws Exception {
            by.release();
        }

        @Override
        public boolean believes() {
            return by.isAcquiredInThisProcess();
        }
    }

    private static List<CuratorFramework> connect(String workload, String port, int count) throws Exception {
        boolean cut = workload.equals("cut");
        List<CuratorFramework> all = new ArrayList<>();
        for (int i = 0; i < count; ++i) {
            all.add(client(port, cut ? SHORT_SESSION_MS : SESSION_MS));
        }
        if (cut) {
            tellLoss(all.get(0));
        }
        InterProcessMutex warm = new InterProcessMutex(all.get(0), "/curator/warm/" + ProcessHandle.current().pid());
        warm.acquire();
        warm.release();
        for (CuratorFramework client : all) {
            client.blockUntilConnected();
        }
        return all;
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 3) {
            System.err.println("usage: Peer WORKLOAD PORT TASKS");
            System.exit(2);
        }
        Player.play((workload, port, clients) -> {
            List<CuratorFramework> all = connect(workload, port, clients);
            return (client, name) -> new Held(new InterProcessMutex(all.get(client), "/curator/" + name));
        }, arguments[0], arguments[1], Integer.parseInt(arguments[2]));
    }
}

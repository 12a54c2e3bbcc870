/* A member of a JGroups group: sends as fast as flow control lets it, from one thread, and reads in the channel's.

   Arguments and output: see __init__.py. The extra argument is the protocol stack, a file. */

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.ReceiverAdapter;
import org.jgroups.View;

public final class JGroupsMember extends ReceiverAdapter {
    private static final long LIFE_S = 300;

    private final int rank;
    private final int members;
    private final int size;
    private final CountDownLatch joined = new CountDownLatch(1);
    private Phase phase;

    private static final class Phase {
        final long expected;
        final long[] positions;
        final CountDownLatch done = new CountDownLatch(1);
        long beginNs;
        long beginCpuNs;
        long received;
        long wrong;
        long endNs;
        long endCpuNs;

        Phase(int members, long count) {
            expected = count * (members - 1);
            positions = new long[members];
        }

        /* The clock runs from `go`, or from the first message if another member was told earlier. */
        synchronized void begin() {
            if (beginNs == 0) {
                beginNs = System.nanoTime();
                beginCpuNs = cpuNs();
            }
        }
    }

    private JGroupsMember(int rank, int members, int size) {
        this.rank = rank;
        this.members = members;
        this.size = size;
    }

    private static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }

    @Override
    public void viewAccepted(View view) {
        if (view.size() >= members) {
            joined.countDown();
        }
    }

    @Override
    public void receive(Message message) {
        byte[] payload = message.getRawBuffer();
        int at = message.getOffset();
        int sender = payload[at + 1];
        if (sender == rank) {
            return;
        }
        Phase now = phase;
        synchronized (now) {
            now.begin();
            if (message.getLength() != size || (payload[at] & 255) != (now.positions[sender] & 255)) {
                now.wrong++;
            }
            now.positions[sender]++;
            if (++now.received == now.expected) {
                now.endNs = System.nanoTime();
                now.endCpuNs = cpuNs();
                now.done.countDown();
            }
        }
    }

    private Phase move(JChannel channel, Phase now, long count) throws Exception {
        for (long number = 0; number < count; number++) {
            byte[] payload = new byte[size];
            payload[0] = (byte) number;
            payload[1] = (byte) rank;
            channel.send(new Message(null, null, payload));
        }
        now.done.await();
        return now;
    }

    private static void waitForGo(BufferedReader input) throws Exception {
        System.out.println("ready");
        if (!"go".equals(input.readLine())) {
            throw new IllegalStateException("the driver is gone");
        }
    }

    private static void endSomeDay() {
        Thread watch = new Thread(() -> {
            try {
                TimeUnit.SECONDS.sleep(LIFE_S);
            } catch (InterruptedException stop) {
                return;
            }
            Runtime.getRuntime().halt(1);
        });
        watch.setDaemon(true);
        watch.start();
    }

    public static void main(String[] arguments) throws Exception {
        endSomeDay();
        int members = arguments[1].split(",").length;
        JGroupsMember member =
            new JGroupsMember(Integer.parseInt(arguments[0]), members, Integer.parseInt(arguments[2]));
        long warmup = Long.parseLong(arguments[3]);
        long count = Long.parseLong(arguments[4]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        member.phase = new Phase(members, warmup);
        JChannel channel = new JChannel(arguments[5]);
        channel.setReceiver(member);
        channel.connect("bench");
        if (!member.joined.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not all members found each other within 60 s");
        }
        waitForGo(input);
        Phase first = member.move(channel, member.phase, warmup);
        if (first.wrong > 0) {
            throw new IllegalStateException(first.wrong + " messages of the warm-up were not the next of their sender");
        }
        // Before `ready`: the others may be told to go earlier than this one.
        member.phase = new Phase(members, count);
        waitForGo(input);
        member.phase.begin();
        Phase done = member.move(channel, member.phase, count);
        System.out.printf("{\"received\": %d, \"wrong\": %d, \"seconds\": %.6f, \"cpu_s\": %.6f}%n", done.received,
            done.wrong, (done.endNs - done.beginNs) / 1e9, (done.endCpuNs - done.beginCpuNs) / 1e9);
        while (input.read() >= 0) {
            continue;
        }
        System.exit(0);
    }
}
